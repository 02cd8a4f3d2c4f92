"""What code says of its parameters itself, and what inputs that gives. Objects with another attribute, as their constructors would have made them. Objects of one observed call in the places of those in another."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import pytest

from codeflash_parallel._runner.inputs import call_relations, input_objects
from codeflash_parallel._runner.inputs.input_objects import Crossover, ObjectConstructors, empty_attributes
from codeflash_parallel._runner.inputs.mutation import Mutator


class NamedView:
    def __init__(self, table: dict[str, int], uri: str, limit: int = 3) -> None:
        self.table = table
        self.namespace = uri
        self.prefix = f"{{{uri}}}" if uri else ""
        self.limit = limit

    def find(self, name: str, default: Any = None, key: Callable[[str], Any] | None = None) -> Any:
        if not self.limit or (name and self.table):
            return default
        return key(name) if key is not None else str(name)


class Bare:
    pass


def test_what_a_function_asks_for_is_read_from_its_source() -> None:
    assert input_objects.empties(NamedView.find) == {".limit", "name", ".table"}
    assert input_objects.callees(NamedView.find) == {"key", "str"}
    assert empty_attributes(NamedView) == {".namespace"}


def test_nothing_is_read_where_there_is_no_source() -> None:
    made: dict[str, Any] = {}
    exec("def hidden(x):\n    return x() if x else 0", made)
    for function in (made["hidden"], len, [], None):
        assert input_objects.empties(function) == input_objects.callees(function) == set()
    assert empty_attributes(Bare) == empty_attributes(int) == set()


def made_of(args: tuple[Any, ...], known: call_relations.CallRelations) -> list[tuple[Any, ...]]:
    """Return many inputs that keep all relations."""
    mutator = Mutator(known, random.Random(3))
    made = [mutator.mutate(*copy.deepcopy((args, {})), (args, {})) for _ in range(600)]
    return [one[0] for one in made if one is not None and not known.broken(*one)]


def test_only_what_code_tests_for_being_empty_is_ever_empty() -> None:
    observed = [(("abc", "de"), {}), (("fg", "hij"), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, optional=frozenset({1})))
    assert any(second == "" for _, second in made)
    assert all(first for first, _ in made)


def test_what_tests_leave_none_and_code_calls_is_a_callable_in_some_inputs() -> None:
    observed = [(("abc", None, None), {}), (("de", None, None), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, called=frozenset({(1,)})))
    assert {one[1] for one in made} == {None, *input_objects.ANSWERS}
    assert {one[2] for one in made} == {None}


def test_what_tests_give_itself_is_not_replaced_by_a_callable_of_ours() -> None:
    observed = [(("abc", len), {}), (("de", str.upper), {})]
    made = made_of(observed[0][0], call_relations.infer(observed, called=frozenset({(1,)})))
    assert not {one[1] for one in made} & {*input_objects.ANSWERS}


def test_answers_keep_containers_and_stand_for_all_else() -> None:
    answer, false = input_objects.ANSWERS
    assert answer(1, "a", [2]) == [2]
    assert answer(1, "a", 2) == answer() == "x"
    assert false(1, key=2) == ""


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


class Node:
    pass


@dataclass
class Leaf(Node):
    text: str


@dataclass
class Many(Node):
    nodes: tuple[Node, ...]
    name: Leaf


@dataclass
class Pair(Node):
    left: Node
    name: Leaf


def drawn(observed: list[object], call: object, count: int = 200) -> list[object]:
    crossover, chance = Crossover([((one,), {}) for one in observed]), random.Random(7)
    return [crossover.crossed(((call,), {}), chance)[0][0] for _ in range(count)]


def test_where_several_classes_were_seen_any_of_their_common_base_may_stand() -> None:
    many = Many((Leaf("a"), Pair(Leaf("b"), Leaf("n"))), Leaf("m"))
    nested = Pair(Many((), Leaf("x")), Leaf("y"))
    made = drawn([many, nested, Pair(Leaf("z"), Leaf("w"))], many)
    assert any(isinstance(part, Many) for one in made for part in one.nodes)
    assert all(type(one.name) is Leaf for one in made)
    assert many == Many((Leaf("a"), Pair(Leaf("b"), Leaf("n"))), Leaf("m"))


def test_where_one_class_was_seen_only_that_may_stand() -> None:
    made = drawn([Many((Leaf("a"),), Leaf("m")), Pair(Leaf("b"), Leaf("n"))], Many((Leaf("a"),), Leaf("m")))
    assert {type(part) for one in made for part in one.nodes} == {Leaf}
    assert {part.text for one in made for part in one.nodes} == {"a", "m", "b", "n"}


@pytest.mark.slow
def test_a_rare_class_is_drawn_as_often_as_a_common_one() -> None:
    common = Many(tuple(Leaf(str(number)) for number in range(60)), Leaf("m"))
    made = drawn([common, Many((Pair(Leaf("b"), Leaf("n")),), Leaf("o"))], common)
    paired = [one for one in made if any(type(part) is Pair for part in one.nodes)]
    # Half of the inputs have another one of the sixty, and in these two in five have the only pair.
    assert len(made) / 8 < len(paired) < len(made) / 2


class Child(Node):
    def __init__(self, parent: Family) -> None:
        self.parent = parent


class Family(Node):
    def __init__(self, size: int) -> None:
        self.children = [Child(self) for _ in range(size)]
        self._first = Leaf("hidden")

    @cached_property
    def last(self) -> Leaf:
        return Leaf("follows from the rest")


def test_what_knows_its_holder_or_follows_from_it_is_left_alone() -> None:
    one, other = Family(2), Family(3)
    assert (one.last, other.last) == (Leaf("follows from the rest"),) * 2
    assert Crossover([((one,), {}), ((other,), {})]).crossed(((one,), {}), random.Random(3)) is None


def test_arguments_themselves_and_plain_values_are_left_alone() -> None:
    crossover = Crossover([((Leaf("a"), [1, 2]), {})])
    assert crossover.crossed(((Leaf("a"), [1, 2]), {}), random.Random(1)) is None
