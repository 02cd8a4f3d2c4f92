"""Bounded texts of values."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

from digests import encode
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel._runner.values import value_text as rendering

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


@given(st.lists(ATOMS, max_size=6))
def test_rendering_is_bounded_and_never_raises(value: list[Any]) -> None:
    assert len(rendering.render(value, 50)) <= 50


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: int) -> None:
        self.a = a


class Name(str):
    __slots__ = ()


def test_classes_of_one_name_are_told_from_builtins() -> None:
    fake = type("int", (int,), {"__module__": "builtins"})
    assert encode(fake(1)).full != encode(1).full
    assert encode(fake(1)).type == "builtins.int (another type of that name)"
    assert encode(1).type == "builtins.int"


def test_text_holds_no_address() -> None:
    values = [
        object(),
        lambda: 1,
        (x for x in "a"),
        Point(1, object()),
        len,
        math,
        Colour.RED,
        Slotted(3),
        Name("x"),
    ]
    text = rendering.render(values)
    assert "0x" not in text
    assert "Slotted(a=3)" in text
    assert "Colour.RED" in text
