"""Constants of changed code."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.code_changes import (
    MAX_TREE_BYTES,
    beyond_bodies,
    changed_constants,
    constants_of,
    fingerprint,
    loosens,
)

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


OLD = '''"""The shop."""
from functools import cache

class Shop:
    """Sells."""

    rate = 2

    @property
    def price(self):
        """Say it."""
        return self.rate

    @price.setter
    def price(self, value):
        self.rate = value

    def close(self, now=True):
        return super().__repr__()

@cache
def total(values, start: int = 0):
    """Sum up."""
    return start + sum(values)

if True:
    def maybe():
        return 1
else:
    def maybe():
        return 2

def waits():
    yield 1

def other():
    return 3
'''
TARGETS = ("Shop.price", "Shop.close", "total", "maybe", "waits")


def change(*pairs: tuple[str, str]) -> str:
    new = OLD
    for before, after in pairs:
        assert before in OLD
        new = new.replace(before, after)
    return beyond_bodies(OLD, new, TARGETS)


@pytest.mark.parametrize(
    "pairs",
    [
        [("start + sum(values)", "sum(values, start)")],
        [("    return start + sum(values)", "    def add(a): return a\n    return add(1)")],
        [("return self.rate", "rate = self.rate\n        return rate")],
        [("self.rate = value", "self.rate = value + 1")],
        [("return 2", "return 4"), ("return 1", "return 5")],
        [("return super().__repr__()", "a = super()\n        return a.__repr__()")],
        [("yield 1", "yield 1\n    yield 2"), ("sum(values)", "len(values)")],
        [("def total", "# quick\ndef total")],
        [("yield 1", "yield (1)")],
    ],
)
def test_only_bodies(pairs: list[tuple[str, str]]) -> None:
    assert change(*pairs) == ""


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("The shop.", "A shop."), "more than the bodies"),
        (("Sells.", "Buys."), "more than the bodies"),
        (("Sum up.", "Sum it up."), "total changes in more than its body"),
        (('    """Sum up."""\n', ""), "total changes in more than its body"),
        (("start: int", "start: float"), "more than the bodies"),
        (("int = 0", "int = 1"), "more than the bodies"),
        (("int = 0", "int = False"), "more than the bodies"),
        (("values, start", "things, start"), "more than the bodies"),
        (("@cache\n", ""), "more than the bodies"),
        (("return 3", "return 4"), "more than the bodies"),
        (("rate = 2", "rate = 2.0"), "more than the bodies"),
        (("if True", "if False"), "more than the bodies"),
        (("from functools import cache", "from functools import cache, wraps"), "more than the bodies"),
        (("yield 1", "return 1"), "waits changes in more than its body"),
        (("def waits", "async def waits"), "waits changes in more than its body"),
        (("return super().__repr__()", "return 1"), "Shop.close changes in more than its body"),
        (("return self.rate", "return __class__"), "Shop.price changes in more than its body"),
        (("def maybe", "def perhaps"), "adds, removes or moves"),
        (("    yield 1", "    global COUNT\n    yield 1"), "waits changes in more than its body"),
        (("yield 1", "yield ("), "cannot parse"),
    ],
)
def test_more_than_bodies(pair: tuple[str, str], why: str) -> None:
    assert why in change(pair)


@given(st.text(alphabet="abc =():\n\t 1#'\"\\", max_size=60))
def test_any_text_gets_an_answer(text: str) -> None:
    assert beyond_bodies(OLD, text, TARGETS)


@given(st.sampled_from(TARGETS), st.integers(), st.integers())
def test_a_statement_more_in_a_body(target: str, one: int, other: int) -> None:
    def with_value(value: int) -> str:
        return f"class Shop:\n    def {target.rpartition('.')[2]}(self):\n        return {value}\n"

    assert not beyond_bodies(with_value(one), with_value(other), (f"Shop.{target.rpartition('.')[2]}",))


MODULE = b'''
LIMIT = 900


def kept(text):
    """I return it."""
    return text[:700]


def cut(items, word="de"):
    return [item for item in items if item != "unused"][:50]


class Box:
    def size(self):
        return len("box") + 12345
'''


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"[:50]", b"[: 1 << 10]", {1024}),
        (b'"unused"', b'("used", "seen")', {"used", "seen"}),
        (b'"de"', b'"fr"', {"fr"}),
        (b"12345", b"54321", {54321}),
        (b"return it", b"return that", set()),
        (b"[:50]", b"[:50", set()),
    ],
)
def test_constants_are_those_of_code_objects_that_differ(old: bytes, new: bytes, found: set[object]) -> None:
    assert set(changed_constants(MODULE, MODULE.replace(old, new))) == found


def test_constants_of_some_functions() -> None:
    assert set(constants_of(MODULE, ["cut", "Box.size"])) >= {50, "unused", "box", 12345}
    assert 700 not in constants_of(MODULE, ["cut"])
    assert constants_of(b"def f(:", ["f"]) == ()


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"return int(x)", b"return x", True),
        (b"return x", b"return int(x)", False),
        (b"assert x; return x", b"return x", True),
        (b"raise ValueError", b"raise TypeError", False),
        (b"return f(x)", b"try:\n  return f(x)\n except E:\n  return None", True),
        (b"return f(x)", b"return (", False),
        (b"return len(x) + len(x)", b"n = len(x); return n + n", False),
        (b"for y in list(x): f(y)", b"f(x)", False),
        (b"return [f(y) for y in tuple(x)]", b"return [f(y) for y in x]", False),
        (b"y = list(x)", b"y = x", True),
    ],
)
def test_who_swallows_exceptions_or_drops_checks(old: bytes, new: bytes, expected: bool) -> None:
    assert loosens(b"def g(x):\n " + old, b"def g(x):\n " + new) is expected
