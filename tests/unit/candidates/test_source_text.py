"""Lines that are moved keep what they mean: indentation, comments, strings."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.function_replacement import splice
from codeflash_parallel.candidates.source_text import (
    SourceLines,
    SourceText,
    is_crlf,
    syntax_fault,
    windows_patch,
)


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


PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\r\ufeff"), max_size=80)


@given(PLAIN)
def test_an_unchanged_text_gives_the_same_bytes(text: str) -> None:
    for data in (text.encode(), codecs.BOM_UTF8 + text.encode(), text.replace("\n", "\r\n").encode()):
        try:
            source = SourceText.read(data)
        except SyntaxError:  # a cookie of an unknown encoding, by chance
            return
        assert source.write(source.text) == data


def test_all_lines_end_as_most_do() -> None:
    assert SourceText.read(b"a\r\nb\r\n").write("a\nnew\nb\n") == b"a\r\nnew\r\nb\r\n"
    assert SourceText.read(b"a\r\nb\nc\r\n").write("a\nnew\nb\nc\n") == b"a\r\nnew\r\nb\r\nc\r\n"
    assert SourceText.read(b"a\nb\n").write("a\nnew\nb\n") == b"a\nnew\nb\n"


def test_cookie_and_mark_are_kept() -> None:
    latin = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
    assert SourceText.read(latin).write(
        "# coding: latin-1\nx = 'ü'\n"
    ) == "# coding: latin-1\nx = 'ü'\n".encode("latin-1")
    assert SourceText.read(codecs.BOM_UTF8 + b"x = 1\n").write("x = 2\n") == codecs.BOM_UTF8 + b"x = 2\n"
    with pytest.raises(UnicodeEncodeError):
        SourceText.read(latin).write("x = '€'\n")
    with pytest.raises(SyntaxError):
        SourceText.read(b"# coding: nonsense\n")


def test_windows_files_are_told() -> None:
    assert is_crlf(b"a\r\nb\r\n")
    assert not is_crlf(b"a\r\nb\n")
    assert not is_crlf(b"a\n")
    assert not is_crlf(b"")


def test_hunks_for_windows_files_get_windows_endings() -> None:
    patch = b"--- a/w.py\n+++ b/w.py\n@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n--- a/u.py\n+++ b/u.py\n@@ -1 +1 @@\n-x\n+y\n"
    expected = b"--- a/w.py\n+++ b/w.py\n@@ -1,2 +1,2 @@ def f():\n a\r\n-b\r\n+c\r\n--- a/u.py\n+++ b/u.py\n@@ -1 +1 @@\n-x\n+y\n"
    assert windows_patch(patch, lambda name: name == "a/w.py") == expected
    assert windows_patch(expected, lambda name: name == "a/w.py") == expected


def test_a_line_without_an_end_gets_none() -> None:
    patch = (
        b"--- a/w\n+++ b/w\n@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
    assert windows_patch(patch, lambda _: True) == patch


@given(st.binary())
def test_any_bytes_may_be_a_patch(patch: bytes) -> None:
    assert windows_patch(patch, lambda _: False) == patch


@pytest.mark.parametrize(
    ("source", "known", "fault"),
    [
        (b"x = 1\n", b"", ""),
        (b"x = 1\ndef f(:\n", b"x = 1\n", "line 2"),
        (b"x = '\0'\n", b"", "null bytes"),
        (b"(" * 5000, b"", "nested"),
        (b"# coding: latin-1\nx = '\xe9'\n", b"", ""),
        (b"x = '\xe9'\n", b"", "utf-8"),
    ],
)
def test_what_is_no_python_is_told(source: bytes, known: bytes, fault: str) -> None:
    said = syntax_fault(source, known)
    assert fault in said
    assert bool(said) == bool(fault)
