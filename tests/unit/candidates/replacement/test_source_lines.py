"""Lines that are moved keep what they mean: indentation, comments, strings."""

from __future__ import annotations

from codeflash_parallel.candidates.replacement.function_replacement import splice
from codeflash_parallel.candidates.replacement.source_lines import SourceLines


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
