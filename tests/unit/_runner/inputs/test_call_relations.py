"""What all observed inputs have in common, and inputs derived from them that keep it."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel._runner.inputs import call_relations
from codeflash_parallel._runner.inputs.mutation import Mutator

Made = tuple[tuple[Any, ...], dict[str, Any]]


atoms = st.integers(-50, 50) | st.booleans() | st.none() | st.text("ab 1", max_size=5)


atoms |= st.floats(-8, 8, allow_nan=False).map(lambda number: round(number, 2))


plain = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3)
        | st.sets(st.integers(0, 9), max_size=4)
    ),
    max_leaves=8,
)


calls = st.lists(st.tuples(st.tuples(plain, plain), st.just({})), min_size=1, max_size=4)


def call(*args: Any, **kwargs: Any) -> Made:
    return args, kwargs


def derived(
    observed: list[Made], count: int = 400, constants: Sequence[Any] = (), only: Any = None
) -> list[Any]:
    """Return (args, kwargs, broken) of inputs that were made; `only`: by putting this constant in."""
    known = call_relations.infer(copy.deepcopy(observed))
    chance = random.Random(5)
    mutator = Mutator(known, chance, constants)
    found = []
    for _ in range(count):
        args, kwargs = copy.deepcopy(chance.choice(observed))
        made = mutator.mutate(args, kwargs, copy.deepcopy(chance.choice(observed)), only)
        found += [] if made is None else [(*made, known.broken(*made))]
    return found


def inside(observed: list[Made], **more: Any) -> list[tuple[Any, ...]]:
    return [args for args, _, broken in derived(observed, **more) if not broken]


@settings(max_examples=drawn(40))
@given(calls)
def test_what_was_observed_breaks_nothing(observed: list[Made]) -> None:
    known = call_relations.infer(observed)
    assert [known.broken(*one) for one in observed] == [""] * len(observed)


@pytest.mark.parametrize(
    ("observed", "holds"),
    [
        ([call([1, 2, 5, 9]), call([3, 4])], lambda v: v == sorted(set(v)) and v),
        ([call([9, 5, 5, 1]), call([3, 3])], lambda v: v == sorted(v, reverse=True)),
        ([call([4, 1, 9, 2]), call([3, 5])], lambda v: len(set(v)) == len(v) > 0),
        ([call([-4, -1]), call([-9])], lambda v: v and all(item < 0 for item in v)),
        ([call(0.5), call(3.25)], lambda v: v > 0),
        ([call("abba"), call("ab cab")], bool),
        ([call([[1, 0], [2, 3]]), call([[7]])], lambda v: len({len(row) for row in v}) == 1),
        (
            [call([(1, 3), (2, 9)]), call([(0, 4)])],
            lambda v: all(isinstance(row, tuple) and len(row) == 2 for row in v),
        ),
        (
            [call([[0, 1, 2.5], [1, 2, 0.5]]), call([[0, 2, 1.25], [1, 3, 4.0], [2, 3, 0.75]])],
            lambda v: all(list(map(type, row)) == [int, int, float] for row in v),
        ),
        ([call({"a": 1, "b": 2}), call({"a": 4, "b": 0})], lambda v: v.keys() == {"a", "b"}),
        ([call({1: [2], 2: [], 3: [1, 2]})], lambda v: all(n in v for row in v.values() for n in row)),
        ([call([3, 0, 1, 2])], lambda v: len(v) < 2 or max(v) - len(v) in {-1, 0}),
    ],
)
def test_relations_inside_one_argument_are_kept(observed: list[Made], holds: Any) -> None:
    found = [args[0] for args in inside(observed)]
    new = [value for value in found if (value,) not in [args for args, _ in observed]]
    assert new
    assert all(holds(value) for value in found)


def test_relations_between_arguments_are_kept() -> None:
    pairs = inside([call([1, 4], [2.5, 0.5]), call([3], [1.0])])
    assert {len(one) for one, _ in pairs} >= {1, 2}
    assert all(len(one) == len(other) for one, other in pairs)
    assert all(low <= high for low, high in inside([call(1, 5), call(3, 3), call(0, 9)]))
    assert all(item in items for items, item in inside([call([4, 1, 7], 1), call([2], 2)]))
    assert all(size == len(items) for items, size in inside([call([4, 1, 7], 3), call([2], 1)]))
    assert all(end <= len(text) for text, end in inside([call("banana", 6), call("abc", 2)]))
    assert all(part in text for text, part in inside([call("banana", "nan"), call("abc", "b")]))


GRAPHS = [
    ([call(4, [(0, 3), (1, 2)]), call(3, [(0, 1), (0, 2)])], call(3, [(0, 1), (0, 3)])),
    (
        [call({"n": 4, "edges": [[0, 3, 1.5]]}), call({"n": 2, "edges": [[0, 1, 2.5]]})],
        call({"n": 2, "edges": [[0, 2, 2.5]]}),
    ),
    ([call("abcd", [[0, 3], [1, 2]]), call("abc", [[0, 1], [0, 2]])], call("abc", [[0, 1], [0, 3]])),
]


@pytest.mark.parametrize(("observed", "beyond"), GRAPHS)
def test_nodes_of_a_graph_stay_below_their_number(observed: list[Made], beyond: Made) -> None:
    assert "below" in call_relations.infer(observed).broken(*beyond)
    assert [made for made in derived(observed) if not made[2]]


def test_items_below_the_length_of_their_list_are_no_nodes() -> None:
    assert not call_relations.infer([call([2, 0, 2]), call([1, 1])]).pairs


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_properties_say_what_they_mean(items: list[int]) -> None:
    names = call_relations._common_properties([items])
    assert ("sorted" in names) == (len(items) > 1 and items == sorted(items))
    assert ("distinct" in names) == (len(items) > 1 and len(set(items)) == len(items))
    assert all(call_relations._missing_property({name}, items) == "" for name in names)


def test_the_nodes_of_a_graphs_edges_are_among_its_nodes():
    many = [("a", "b"), ("b", "a"), ("a", "a")]
    calls = [(([], []), {}), ((["a", "b"], many), {}), ((["c"], []), {})]
    known = call_relations.infer(calls)

    assert "what is in argument 1 is in argument 0" in known.pairs
    assert known.broken((["c"], [("a", "b")]), {}) == "what is in argument 1 is in argument 0"
    assert known.broken((["a", "b"], many[1:]), {}) == ""


def test_paths_stay_as_the_operating_system_gives_them() -> None:
    known = call_relations.infer([(("/tmp/a/b",), {}), (("/tmp/c",), {})])
    assert known.broken(("/tmp/other",), {}) == ""
    assert known.broken(("/tmp//other",), {}) == known.broken(("./tmp",), {}) == "an absolute path"
    assert call_relations.infer([(("/tmp/a",), {}), (("words",), {})]).broken(("a//b",), {}) == ""
