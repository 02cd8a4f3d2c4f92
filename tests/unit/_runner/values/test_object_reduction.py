"""How values tell what they hold: what is the standard library's own is nothing to note."""

from __future__ import annotations

import collections
import copyreg
import enum
import pathlib
import re
import types

import pytest

from codeflash_parallel._runner.values import object_reduction

Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - what it makes is the point


class Colour(enum.Enum):
    RED = 1


class Liar:
    def __reduce__(self) -> tuple:
        return (str, ("nothing",))


class Hides(collections.OrderedDict):
    def items(self) -> tuple:
        return ()


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reduction, "_SEEN", {})
    monkeypatch.setattr(object_reduction, "_NOTED", set())


@pytest.mark.parametrize(
    "cls", [re.Pattern, Point, Colour, pathlib.PurePosixPath, collections.OrderedDict, collections.deque]
)
def test_classes_of_the_standard_library_are_usual(cls: type) -> None:
    object_reduction.note(cls)
    assert object_reduction.noted() == []


@pytest.mark.parametrize("cls", [Liar, Hides])
def test_a_class_that_says_so_itself_is_noted(cls: type) -> None:
    object_reduction.note(cls)
    assert object_reduction.noted()


def test_another_reducer_of_patterns_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(copyreg.dispatch_table, re.Pattern, lambda _pattern: (str, ("nothing",)))
    object_reduction.note(re.Pattern)
    assert object_reduction.noted()


def test_the_code_of_the_standard_library_with_other_surroundings_is_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = vars(Point)["__getnewargs__"]
    forged = types.FunctionType(own.__code__, own.__globals__, own.__name__, None, (types.CellType(list),))
    forged.__module__ = "collections"
    monkeypatch.setattr(Point, "__getnewargs__", forged)
    object_reduction.note(Point)
    assert object_reduction.noted()
