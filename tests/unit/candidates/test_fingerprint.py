from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.fingerprint import MAX_TREE_BYTES, fingerprint

BASE = b"def f(a, b):\n    return a + b * 2\n"


def of(text: bytes | str | None, path: str = "m.py") -> str:
    return fingerprint({path: text.encode() if isinstance(text, str) else text})


@pytest.mark.parametrize(
    "same",
    [
        "def f(a,b):\n\n\n  return (a + (b*2))  # why\n",
        '"""Module."""\ndef f(a, b):\n    """Doc."""\n    return a + b * 2',
        "# -*- coding: utf-8 -*-\r\ndef f(a, b):\r\n    return a + \\\r\n b * 0x2\r\n",
        "\ufeffdef f(a, b):\n\treturn a + b * 2",
    ],
)
def test_formatting_comments_and_docstrings_do_not_count(same):
    assert of(same) == of(BASE)


def test_a_doctest_counts():
    tested = 'def f(a, b):\n    """Doc.\n\n    >>> f(1, 2)\n    5\n    """\n    return a + b * 2\n'
    assert of(tested) != of(BASE)
    assert of(tested) == of(tested.replace("a + b * 2", "(a + b * 2)"))
    assert of(tested) != of(tested.replace("5", "6"))


@pytest.mark.parametrize(
    "other",
    [
        "def f(a, b):\n    return a + b * 2.0\n",
        "def f(a, b):\n    return a + b * True\n",
        "def f(a, b):\n    return a * 2 + b\n",
        "def f(x, b):\n    return x + b * 2\n",
        "def f(a, b=1):\n    return a + b * 2\n",
        "async def f(a, b):\n    return a + b * 2\n",
        "def f(a, b):\n    return a + b * 2\nf\n",
        "def f(a, b): pass\n",
        "def f(a, b",
        "",
        None,
    ],
)
def test_what_changes_the_code_counts(other):
    assert of(other) != of(BASE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 0.0", "x = -0.0"),
        ("x = 'a'", "x = b'a'"),
        ("x = 1", "x = 1j"),
        ("global_ = []", "global_ = ()"),
        ("f'{a!r}'", "f'{a!s}'"),
        ("from . import a", "from .. import a"),
        ("x = 'a b'", "x = 'a' 'c'"),
        ("x: int", "(x): int"),
        ("['Load', 'x']", "['Load x']"),
    ],
)
def test_near_misses_differ(one, other):
    assert of(one) != of(other)


def test_a_string_that_is_not_a_docstring_counts():
    assert of("def f():\n    x = 1\n    'note'\n") == of("def f():\n    x = 1\n    'note'")
    assert of("x = 1\n'a'") != of("x = 1\n'b'")


def test_very_large_files_count_byte_by_byte():
    large = "x = 1\n" * (MAX_TREE_BYTES // 6 + 1)
    assert of(large) == of(large)
    assert of(large) != of(large + "\n")


def test_other_files_and_unparsable_ones_count_byte_by_byte():
    assert of("a: 1", "x.toml") != of("a:  1", "x.toml")
    assert of("def f(") != of("def  f(")
    assert of(b"\xff\xfe\x00", "x.py") == of(b"\xff\xfe\x00", "x.py")


def test_paths_and_removal_count_and_order_does_not():
    assert of(BASE, "a.py") != of(BASE, "b.py")
    assert of(None) != of(b"")
    assert fingerprint({"a.py": b"1", "b.py": b"2"}) == fingerprint({"b.py": b"2", "a.py": b"1"})
    assert fingerprint({"a.py": b"1", "b.py": b"2"}) != fingerprint({"a.py": b"2", "b.py": b"1"})


def test_long_expressions_and_numbers_are_no_problem():
    chain = "x = " + " + ".join(["a"] * 900)
    assert of(chain) == of(chain + "  # long")
    assert of(chain) != of(chain + " + a")
    assert of("x = 0x" + "f" * 9000) == of("x = 0x" + "F" * 9000)


@given(
    st.recursive(
        st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=5)
        | st.binary(max_size=5)
        | st.booleans()
        | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
        max_leaves=8,
    ),
    st.integers(0, 3),
)
def test_a_literal_survives_any_formatting(value, blanks):
    text = f"value = {value!r}\n"
    assert of(text) == of("\n" * blanks + ast.unparse(ast.parse(text)))
