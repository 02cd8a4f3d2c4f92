"""Lines that are moved keep what they mean: indentation, comments, strings."""

from __future__ import annotations

from codeflash_parallel.candidates.function_replacement import splice
from codeflash_parallel.candidates.source_lines import SourceLines


def test_indentation_by_tabs_meets_indentation_by_spaces():
    original = "class C:\n\tdef m(self):\n\t\tif self:\n\t\t\treturn 1\n"
    replacement = 'def m(self):\n    if self:\n        return f(\n            """\n    x""")\n'
    assert splice(original, replacement, "C.m") == (
        'class C:\n\tdef m(self):\n\t\tif self:\n\t\t\treturn f(\n\t\t\t\t"""\n    x""")\n'
    )
    spaces = "class C:\n  def m(self):\n    return 1\n"
    assert splice(spaces, "def m(self):\n\tif self:\n\t\treturn 1\n", "C.m") == (
        "class C:\n  def m(self):\n    if self:\n      return 1\n"
    )


def test_comments_below_a_body_stay_unless_the_new_one_has_its_own():
    original = "def f():\n    return 1\n\n    # note\n\nx = 1\n"
    assert splice(original, "def f():\n    return 2\n", "f") == original.replace("1\n\n ", "2\n\n ")
    assert (
        splice(original, "def f():\n    return 2\n    # mine\n", "f")
        == "def f():\n    return 2\n    # mine\n\nx = 1\n"
    )


def test_lines_that_begin_inside_a_string_are_known():
    text = "a = 1\nb = '''\n  x\n'''\nc = (\n    'd'\n    'e'\n)\nf = f'''\n{a} y\n'''\ng = 'h\\\n  i'\n"
    assert [SourceLines.read(text).bare(index) for index in sorted(SourceLines.read(text).inside)] == [
        *("  x", "'''", "{a} y", "'''", "  i'"),
    ]


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
