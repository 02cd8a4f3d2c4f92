"""Objects of one observed call in the places of those in another."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property

from codeflash_parallel._runner.inputs.crossover import Crossover


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
