"""Objects with another attribute, as their constructors would have made them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from codeflash_parallel._guest.constructors import Constructors


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


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


class Bag:
    size: int


def seen_in(word: str, *texts: str) -> Finder:
    finder = Finder(word)
    finder.seen += texts
    return finder


def known(*values: object) -> Constructors:
    return Constructors(lambda: values)


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


def test_what_calls_change_is_changed_in_place() -> None:
    finders = seen_in("a", "x"), seen_in("b")
    made, is_made = known(*finders).changed(finders[1], "seen", ["y"])
    assert made is finders[1]
    assert (is_made, made.seen) == (True, ["y"])


def test_classes_whose_arguments_are_not_kept_are_told() -> None:
    keeper = Keeper("abc")
    assert known(keeper).changed(keeper, "count", 7) == (keeper, False)
    assert keeper.count == 7


def test_records_and_objects_without_a_constructor_are_simply_changed() -> None:
    assert known(Point(1, 2)).changed(Point(1, 2), "y", 5) == (Point(1, 5), True)
    bag = Bag()
    bag.size = 1
    assert known(bag).changed(bag, "size", 2) == (bag, True)
    assert bag.size == 2
