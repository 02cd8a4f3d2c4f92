"""Objects with another attribute, as their constructors would have made them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pytest

from codeflash_parallel._runner.inputs.object_constructors import ObjectConstructors


class Finder:
    """Computes one attribute from an argument, and has one that calls change."""

    def __init__(self, word: str, limit: int = 3) -> None:
        self.word = word
        self._limit = limit
        self.pattern = re.compile(word)
        self.seen: list[str] = []


class Keeper:
    def __init__(self, words: str) -> None:
        self.count = len(words)


class View:
    """Has other names for its parameters than for what holds them."""

    def __init__(self, table: dict[str, int], uri: str) -> None:
        self.target = table
        self.prefix = f"{{{uri}}}"
        self.namespace = uri


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


class Bag:
    size: int


class Row(list[int]):
    title: str


class Symbol:
    """Interned, as those of computer algebra are."""

    __slots__ = ("__hidden", "name")
    _all: ClassVar[dict[str, Any]] = {}

    def __new__(cls, name: str) -> Self:
        if name not in cls._all:
            cls._all[name] = made = super().__new__(cls)
            made.name, made.__hidden = name, f"of {name}"
        return cls._all[name]

    @property
    def _hidden(self) -> str:
        return str(self.__hidden)


def seen_in(word: str, *texts: str) -> Finder:
    finder = Finder(word)
    finder.seen += texts
    return finder


def known(*values: object) -> ObjectConstructors:
    return ObjectConstructors(lambda: values)


def test_a_parameter_is_known_by_what_the_constructor_assigns_it_to() -> None:
    view = View({"{a}b": 1}, "a")

    made, is_made = known(view).changed(view, "namespace", "")

    assert is_made
    assert (made.namespace, made.prefix, made.target) == ("", "{}", view.target)


def test_what_is_computed_follows_from_the_arguments() -> None:
    finders = seen_in("a", "x"), seen_in("b")
    made, is_made = known(*finders).changed(finders[0], "word", "c")
    assert is_made
    assert (made.word, made.pattern, made.seen) == ("c", re.compile("c"), ["x"])


@pytest.mark.parametrize(("name", "new"), [("pattern", re.compile("z")), ("word", "a")])
def test_what_is_computed_is_not_changed_by_itself(name: str, new: object) -> None:
    finders = seen_in("a", "x"), seen_in("b")
    made, is_made = known(*finders).changed(finders[0], name, new)
    assert is_made
    assert made.pattern == re.compile("a")


def test_what_calls_change_is_changed_in_a_copy() -> None:
    finders = seen_in("a", "x"), seen_in("b")
    made, is_made = known(*finders).changed(finders[1], "seen", ["y"])
    assert (is_made, made.word, made.seen) == (True, "b", ["y"])
    assert finders[1].seen == []


def test_classes_whose_arguments_are_not_kept_are_told() -> None:
    keeper = Keeper("abc")
    made, is_made = known(keeper).changed(keeper, "count", 7)
    assert (made.count, is_made, keeper.count) == (7, False, 3)


def test_objects_that_a_cache_holds_stay_as_they_are_and_are_told() -> None:
    one = Symbol("x")
    made, is_made = known(one).changed(one, "name", "y")
    assert (made.name, made._hidden, is_made) == ("y", "of x", False)
    assert (Symbol("x") is one, one.name) == (True, "x")


def test_what_only_a_builtin_type_makes_is_changed_in_place() -> None:
    row = Row([1, 2])
    row.title = "a"
    made, is_made = known(row).changed(row, "title", "b")
    assert (made is row, made.title, is_made) == (True, "b", True)


def test_records_and_objects_without_a_constructor_are_simply_changed() -> None:
    assert known(Point(1, 2)).changed(Point(1, 2), "y", 5) == (Point(1, 5), True)
    bag = Bag()
    bag.size = 1
    made, is_made = known(bag).changed(bag, "size", 2)
    assert (made.size, is_made, bag.size) == (2, True, 1)
