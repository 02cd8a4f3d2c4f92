from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.analysis.body_change import body_change

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


def change(*pairs: tuple[str, str]) -> tuple[tuple[str, ...], str]:
    new = OLD
    for before, after in pairs:
        assert before in OLD
        new = new.replace(before, after)
    found = body_change(OLD, new, TARGETS)
    return found.qualnames, found.why


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([("start + sum(values)", "sum(values, start)")], ("total",)),
        ([("    return start + sum(values)", "    def add(a): return a\n    return add(1)")], ("total",)),
        ([("return self.rate", "rate = self.rate\n        return rate")], ("Shop.price",)),
        ([("self.rate = value", "self.rate = value + 1")], ("Shop.price",)),
        ([("return 2", "return 4"), ("return 1", "return 5")], ("maybe",)),
        ([("return super().__repr__()", "a = super()\n        return a.__repr__()")], ("Shop.close",)),
        ([("yield 1", "yield 1\n    yield 2"), ("sum(values)", "len(values)")], ("total", "waits")),
        ([("def total", "# quick\ndef total")], ()),
        ([("yield 1", "yield (1)")], ()),
    ],
)
def test_only_bodies(pairs: list[tuple[str, str]], names: tuple[str, ...]) -> None:
    assert change(*pairs) == (names, "")


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("The shop.", "A shop."), "more than the bodies"),
        (("Sells.", "Buys."), "more than the bodies"),
        (("Sum up.", "Sum it up."), "the docstring of total"),
        (('    """Sum up."""\n', ""), "the docstring of total"),
        (("start: int", "start: float"), "more than the bodies"),
        (("int = 0", "int = 1"), "more than the bodies"),
        (("int = 0", "int = False"), "more than the bodies"),
        (("values, start", "things, start"), "more than the bodies"),
        (("@cache\n", ""), "more than the bodies"),
        (("return 3", "return 4"), "more than the bodies"),
        (("rate = 2", "rate = 2.0"), "more than the bodies"),
        (("if True", "if False"), "more than the bodies"),
        (("from functools import cache", "from functools import cache, wraps"), "more than the bodies"),
        (("yield 1", "return 1"), "waits becomes a function of another kind"),
        (("def waits", "async def waits"), "waits becomes a function of another kind"),
        (("return super().__repr__()", "return 1"), "Shop.close uses other variables"),
        (("return self.rate", "return __class__"), "Shop.price uses other variables"),
        (("def maybe", "def perhaps"), "adds, removes or moves"),
        (("    yield 1", "    global COUNT\n    yield 1"), "waits declares other names as global"),
        (("yield 1", "yield ("), "cannot parse"),
    ],
)
def test_more_than_bodies(pair: tuple[str, str], why: str) -> None:
    names, found = change(pair)
    assert names == ()
    assert why in found


@given(st.text(alphabet="abc =():\n\t 1#'\"\\", max_size=60))
def test_any_text_gets_an_answer(text: str) -> None:
    found = body_change(OLD, text, TARGETS)
    assert found.why
    assert body_change(text, text, TARGETS).qualnames == ()


@given(st.sampled_from(TARGETS), st.integers(), st.integers())
def test_a_statement_more_in_a_body(target: str, one: int, other: int) -> None:
    def with_value(value: int) -> str:
        return f"class Shop:\n    def {target.rpartition('.')[2]}(self):\n        return {value}\n"

    found = body_change(with_value(one), with_value(other), (f"Shop.{target.rpartition('.')[2]}",))
    assert found.why == ""
    assert bool(found.qualnames) == (one != other)
