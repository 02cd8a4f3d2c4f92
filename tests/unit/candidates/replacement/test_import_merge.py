"""Imports that come along with a replacement."""

from __future__ import annotations

from codeflash_parallel.candidates.replacement.function_replacement import splice


def test_imports_go_below_docstring_shebang_and_future():
    new = "import re\ndef f(): return re\n"
    assert splice("def f(): pass\n", new, "f") == "import re\n\n\ndef f(): return re\n"
    assert splice("#!/bin/x\n# coding: utf-8\n# about f\ndef f(): pass\n", new, "f") == (
        "#!/bin/x\n# coding: utf-8\nimport re\n\n\n# about f\ndef f(): return re\n"
    )
    assert splice('"""Doc."""\ndef f(): pass\n', new, "f") == '"""Doc."""\n\nimport re\ndef f(): return re\n'
    future = "from __future__ import annotations\nimport re\ndef f(): return re\n"
    assert splice('"""Doc."""\nimport os\ndef f(): pass\n', future, "f") == (
        '"""Doc."""\n\nfrom __future__ import annotations\nimport os\nimport re\ndef f(): return re\n'
    )


def test_imports_below_the_target_do_not_serve_as_the_place():
    original = "import a\n\ndef f(): pass\n\nimport b\n"
    new = "import re\nP = re.compile('')\ndef f(): return P\n"
    assert splice(original, new, "f") == (
        "import a\nimport re\n\nP = re.compile('')\n\n\ndef f(): return P\n\nimport b\n"
    )


def test_a_name_that_the_module_defines_is_not_imported():
    original = "def helper(): return 1\n\ndef f(): return helper()\n"
    new = "from pkg.mod import helper\ndef f():\n    return 1 + helper()\n"
    assert "import" not in splice(original, new, "f")


def test_typing_only_imports_get_a_block_where_there_is_none():
    new = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\ndef f(x: a.b): return 2\n"
    assert splice("import os\n\ndef f(): pass\n", new, "f") == (
        "import os\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\n\ndef f(x: a.b): return 2\n"
    )
