"""What all observed inputs have in common, and inputs derived from them that keep it."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from effort import drawn
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeflash_parallel._guest import mending, properties, relations
from codeflash_parallel._guest.deriving import Deriver, is_plain

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


def derived(observed: list[Made], count: int = 400, constants: frozenset[str] = frozenset()) -> list[Any]:
    """Return (args, kwargs, broken) of inputs that were derived."""
    known = relations.infer(copy.deepcopy(observed), constants)
    chance = random.Random(5)
    deriver = Deriver(known, chance)
    found = []
    for _ in range(count):
        args, kwargs = copy.deepcopy(chance.choice(observed))
        made = deriver.derive(args, kwargs, copy.deepcopy(chance.choice(observed)))
        found += [] if made is None else [made]
    return found


def inside(observed: list[Made], **more: Any) -> list[tuple[Any, ...]]:
    return [args for args, _, broken in derived(observed, **more) if not broken]


@settings(max_examples=drawn(40))
@given(calls)
def test_what_was_observed_breaks_nothing(observed: list[Made]) -> None:
    known = relations.infer(observed)
    assert [known.broken(*one) for one in observed] == [""] * len(observed)


@pytest.mark.parametrize("odd", [[], {}, {"a": 1}, {1}, None])
@pytest.mark.parametrize("name", ["sorted by the first field", "sorted by the last field"])
def test_rows_without_a_field_stay_as_they_are(odd: object, name: str) -> None:
    rows = [[2], odd, [1]]
    assert mending._ordered(rows, (name,)) == [[2], odd, [1]]


@given(calls, st.integers(0, 99))
@example([(([[], 0], []), {}), (([[0], [None, 0]], 0), {})], 0)
@example([((([], 0), []), {}), ((([0], (None, 0)), 0), {})], 0)
@settings(max_examples=drawn(60))
def test_deriving_never_fails_and_says_what_is_broken(observed: list[Made], seed: int) -> None:
    known = relations.infer(copy.deepcopy(observed))
    deriver = Deriver(known, random.Random(seed))
    made = deriver.derive(*copy.deepcopy(observed[0]), copy.deepcopy(observed[-1]))
    if made is not None:
        assert all(map(is_plain, made[0]))
        assert made[2] == known.broken(made[0], made[1])


@pytest.mark.parametrize(
    ("observed", "holds"),
    [
        ([call([1, 2, 5, 9]), call([3, 4])], lambda v: v == sorted(set(v)) and v),
        ([call([9, 5, 5, 1]), call([3, 3])], lambda v: v == sorted(v, reverse=True)),
        ([call([4, 1, 9, 2]), call([3, 5])], lambda v: len(set(v)) == len(v) > 0),
        ([call([-4, -1]), call([-9])], lambda v: all(-9 <= item <= -1 for item in v)),
        ([call([10, 25, 5]), call([15])], lambda v: all(item % 5 == 0 for item in v)),
        ([call([5.0, 2.0]), call([4.0])], lambda v: all(item.is_integer() for item in v)),
        ([call([0.1, 0.25]), call([4.0])], lambda v: all(round(item, 2) == item for item in v)),
        ([call("abba"), call("ab cab")], lambda v: v.replace(" ", "a").isalpha() and v.isascii()),
        ([call("abba"), call("ab cab")], lambda v: v == v.strip()),
        ([call([[1, 0], [2, 3]]), call([[7]])], lambda v: len({len(row) for row in v}) == 1),
        ([call([(1, 3), (2, 9)]), call([(0, 4)])], lambda v: all(low < high for low, high in v)),
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
    assert "below" in relations.infer(observed).broken(*beyond)
    assert [made for made in derived(observed) if not made[2]]


def test_items_below_the_length_of_their_list_are_no_nodes() -> None:
    assert not relations.infer([call([2, 0, 2]), call([1, 1])]).pairs


def test_a_choice_stays_one_of_the_observed() -> None:
    observed = [call([3, 1], "asc"), call([2], "desc")]
    words = {mode for _, mode in inside(observed, constants=frozenset({"asc"}))}
    assert words == {"asc", "desc"}
    assert {flag for _, flag in inside([call([3, 1], True), call([2], True)])} == {True}
    assert {word for _, word in inside([call([3, 1], "x"), call([2], "x")])} == {"x"}


def test_objects_stay_what_they_were() -> None:
    class Opaque:
        size = 3

    class Sized:
        def __init__(self, size: int) -> None:
            self.size = size

    assert derived([call(Opaque())]) == []
    held = [call(Sized(5), 2), call(Sized(9), 8)]
    assert all(number <= holder.size for holder, number in inside(held))
    # Two arguments that are one list would be two in a copy.
    shared = [1, 2]
    assert derived([call(shared, shared)]) == []


def test_many_inputs_where_types_allow() -> None:
    observed = [call([4, 8, 1], 3), call([2, 9, 9, 7, 5], 1)]
    assert len({repr(args) for args in inside(observed, count=3000)}) >= 200
    broken = {name for _, _, name in derived([call([1, 2, 5, 9]), call([3, 4])], count=3000) if name}
    assert broken >= {"non-empty", "range", "sorted"}


@pytest.mark.parametrize(
    "text", ["charset=ascii, and more", b"charset=ascii, and more"], ids=["str", "bytes"]
)
def test_texts_come_in_another_case_and_far_beyond_the_observed_length(text: Any) -> None:
    found = [args[0] for args in inside([call(text), call(text[:9])], count=3000)]
    assert {text.upper(), text.swapcase()} & set(found)
    assert any(len(one) > 1100 and one.endswith(text) for one in found)
    assert max(map(len, found)) <= 100_000


def test_lists_come_far_beyond_the_observed_length() -> None:
    found = [args[0] for args in inside([call([5, 1, 3]), call([2, 2])], count=3000)]
    assert max(map(len, found)) > 60
    assert all(len(items) == 2 for items in (args[0] for args in inside([call([5, 1]), call([2, 2])])))


@given(st.lists(st.integers(-5, 5), max_size=6))
def test_properties_say_what_they_mean(items: list[int]) -> None:
    names = properties.common([items])
    assert ("sorted" in names) == (len(items) > 1 and items == sorted(items))
    assert ("distinct" in names) == (len(items) > 1 and len(set(items)) == len(items))
    assert all(properties.missing({name}, items) == "" for name in names)


def test_the_nodes_of_a_graphs_edges_are_among_its_nodes():
    many = [("a", "b"), ("b", "a"), ("a", "a")]
    calls = [(([], []), {}), ((["a", "b"], many), {}), ((["c"], []), {})]
    known = relations.infer(calls, frozenset())

    assert "what is in argument 1 is in argument 0" in known.pairs
    assert known.broken((["c"], [("a", "b")]), {}) == "what is in argument 1 is in argument 0"
    assert known.broken((["a", "b"], many[1:]), {}) == ""
