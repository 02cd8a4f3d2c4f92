"""Inputs that a mutator makes of observed ones."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from effort import drawn
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codeflash_parallel._runner.inputs import call_relations
from codeflash_parallel._runner.inputs.mutation import Mutator, is_plain

Made = tuple[tuple[Any, ...], dict[str, Any]]


atoms = st.integers(-50, 50) | st.booleans() | st.none() | st.text("ab 1", max_size=5)


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


@given(calls, st.integers(0, 99))
@example([(([[], 0], []), {}), (([[0], [None, 0]], 0), {})], 0)
@example([((([], 0), []), {}), ((([0], (None, 0)), 0), {})], 0)
@settings(max_examples=drawn(60))
def test_what_is_made_is_plain_and_leaves_the_observed_alone(observed: list[Made], seed: int) -> None:
    before = repr(observed)
    mutator = Mutator(call_relations.infer(observed), random.Random(seed), (7, "xy"))
    made = mutator.mutate(*copy.deepcopy(observed[0]), copy.deepcopy(observed[-1]))
    assert made is None or all(map(is_plain, made[0]))
    assert repr(observed) == before


class Point(NamedTuple):
    name: str
    size: int


@dataclass(frozen=True)
class Box:
    names: list[str]
    size: int


class Slotted:
    __slots__ = ("_hidden", "size")

    def __init__(self) -> None:
        self.size, self._hidden = 3, [1]


def test_plain_parts_of_objects_change_and_nothing_hidden() -> None:
    assert {args[0].size for args in inside([call(Box(["a", "b"], 5))])} > {4, 5, 6}
    assert any(len(args[0].names) > 3 for args in inside([call(Box(["a", "b"], 5))]))
    points = [args[0][0] for args in inside([call([Point("a", 2)])])]
    assert {type(point) for point in points} == {Point}
    assert {point.size for point in points} > {1, 2, 3}
    slotted = [args[0] for args in inside([call(Slotted())])]
    assert {(one.size > 3, *one._hidden) for one in slotted} == {(True, 1), (False, 1)}


def test_functions_are_those_of_other_calls_at_the_same_place() -> None:
    observed = [call([1, 2], None), call([3], len), call([4], sum)]
    assert ([1, 2], len) in inside(observed, count=2000)
    assert all(args[1] in (None, len, sum) for args in inside(observed))


def test_signs_beyond_ascii_are_those_that_were_seen() -> None:
    assert {sign for (text,) in inside([call("a b")], count=2000) for sign in text if sign > "~"} == set()
    assert {sign for (text,) in inside([call("a é")], count=2000) for sign in text if sign > "~"} == {"é"}


def test_parts_come_with_another_type() -> None:
    found = [args[0] for args, _, broken in derived([call(["a", "b"])], 3000) if broken == "type"]
    types = {type(item) for items in found if isinstance(items, list) for item in items}
    assert {bytes, int, type(None)} <= types


def test_what_a_pattern_finds_is_found_again_in_other_texts_and_with_a_group_more() -> None:
    pattern = re.compile("(?P<one>ab+)|(?P<two>cd)")
    matches = [args[0] for args, _, _ in derived([call(pattern.search("xxcd"))])]
    assert {match.re.groups for match in matches} >= {2, 3}
    assert len({match.string for match in matches}) > 10
    assert {match.lastgroup for match in matches if match.re.groups == 3} >= {"two"}


def test_two_arguments_that_are_one_object_stay() -> None:
    shared = [1, 2]
    assert derived([call(shared, shared)]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("observed", "constant", "hits"),
    [
        ([5, 1, 3], 50, lambda v: len(v) in {49, 50, 51}),
        ([5, 1, 3], 50, lambda v: {49, 50, 51} & {*v}),
        ({3: 1, 4: 2}, 50, lambda v: len(v) > 30),
        ("a b", 1024, lambda v: len(v) in {1023, 1024, 1025}),
        (b"a b", 1024, lambda v: len(v) in {1023, 1024, 1025}),
        (7, 1024, lambda v: v in {1023, 1024, 1025}),
        (7.5, 1024, lambda v: v in {1023, 1024, 1025}),
        ("abc", "de", lambda v: v == "de"),
        ("abc", "de", lambda v: "de" in v != "de"),
        (["abc"], "de", lambda v: "de" in v),
    ],
)
def test_constants_of_the_code_become_values_sizes_and_parts(observed: Any, constant: Any, hits: Any) -> None:
    other = {list: lambda v: v * 2, dict: lambda v: {**v, 9: 9}}.get(type(observed), lambda v: v)
    seeds = [call(observed), call(other(observed))]
    assert any(hits(args[0]) for args in inside(seeds, only=constant))
    assert any(hits(args[0]) for args in inside(seeds, constants=(constant,), count=3000))


@pytest.mark.slow
def test_many_inputs_where_types_allow() -> None:
    observed = [call([4, 8, 1], 3), call([2, 9, 9, 7, 5], 1)]
    assert len({repr(args) for args in inside(observed, count=3000)}) >= 200
    broken = {name for _, _, name in derived([call([1, 2, 5, 9]), call([3, 4])], count=3000) if name}
    assert broken >= {"non-empty", "sign", "sorted"}


@pytest.mark.parametrize(
    "text", ["charset=ascii, and more", b"charset=ascii, and more"], ids=["str", "bytes"]
)
def test_texts_come_in_another_case_and_far_beyond_the_observed_length(text: Any) -> None:
    found = [args[0] for args in inside([call(text), call(text[:9])], count=3000)]
    assert {text.upper(), text.swapcase()} & set(found)
    assert any(len(one) > 1100 for one in found)
    assert any(one.startswith(text) and len(one) > len(text) for one in found)
    assert max(map(len, found)) <= 100_000


def test_a_number_of_the_code_becomes_the_length_of_what_was_long() -> None:
    observed = [call(["a", "bc", "d"], sep=","), call(["e", "f"], sep=";")]
    mutator = Mutator(call_relations.infer(observed), random.Random(1), [])
    lengths, signs = set(), set()
    for _ in range(60):
        (items,), options = mutator.mutate(*copy.deepcopy(observed[0]), observed[1], size=41)
        lengths.add(len(items))
        signs.add(len(options["sep"]))
    assert lengths == {3, 41}
    assert 41 in signs
    assert mutator.mutate((7,), {}, observed[1], size=40) is None
    assert mutator.mutate(([1],), {}, observed[1], size=10**9) is None


def test_one_sign_is_exchanged_for_another_at_one_place() -> None:
    made = [args[0] for args in inside([call("#fff"), call("#00ff00")])]
    assert {text for text in made if len(text) == 4 and text[0] == "#"} & {"#fef", "#ffe", "#eff"}


def test_lists_grow_by_one_item_repeated() -> None:
    made = [args[0] for args in inside([call([0, 1, 2, 0, 7, 4], 0), call([5, 0, 3], 0)], count=800)]
    grown = [items[:25] for items in made if len(items) > 40] + [
        items[-25:] for items in made if len(items) > 40
    ]
    assert any(len(set(items)) == 1 for items in grown)


def test_integers_that_no_float_holds_are_left_alone_and_others_change() -> None:
    huge = 10**400 + 123
    made = {args[0] for args in inside([call(huge), call(-huge), call(7), call(1200)])}
    assert len(made - {huge, -huge}) > 20
    assert {huge + 1, huge * 10} & made == set()


@pytest.mark.slow
@pytest.mark.parametrize("observed", [list(range(3_000)), list(range(2_000)), "ab" * 60_000])
def test_what_is_as_long_as_may_be_does_not_grow(observed: Any) -> None:
    made = derived([call(observed), call(observed[:20])], count=60)
    assert len(made) == 60
    assert max(len(args[0]) for args, _, _ in made if type(args[0]) is type(observed)) <= len(observed)


def test_a_longer_list_holds_what_it_held_and_at_times_items_of_other_types() -> None:
    observed = [call(["a", "bc", "d"]), call([1, 2]), call([None, []])]
    mutator = Mutator(call_relations.infer(observed), random.Random(1), [])
    kinds, first = [], set()
    for _ in range(40):
        (items,), _ = mutator.mutate(*copy.deepcopy(observed[0]), observed[1], size=40)
        kinds.append({*map(type, items)})
        first.add(items[:3] == ["a", "bc", "d"])
    assert 10 < kinds.count({str}) < 35
    assert first == {True, False}  # what is new comes behind and before it


def test_distinct_items_of_an_array_stay_distinct() -> None:
    numpy = pytest.importorskip("numpy")
    found = inside([call(numpy.arange(8.0).reshape(4, 2) / 8)])
    assert found
    assert all(len(set(array.ravel().tolist())) == array.size for (array,) in found)


def test_texts_come_with_their_markup_escaped() -> None:
    """Who decodes a text before its tags are taken out, and not after, loses what is no tag."""
    found = {args[0] for args in inside([call("<em>Foo &amp; Bar</em>"), call("a <b>c</b>")], count=400)}
    assert "&lt;em&gt;Foo &amp;amp; Bar&lt;/em&gt;" in found


FEW = [[[5, 1, 3], [2, 2]], [[1, 3, 5], [2, 4]], [["b", "a", "c"], ["d", "b"]]]


@pytest.mark.slow
@pytest.mark.parametrize("observed", FEW, ids=["any", "sorted", "distinct texts"])
def test_lists_come_far_beyond_the_observed_length(observed: list[list[Any]]) -> None:
    found = [args[0] for args in inside([call(items) for items in observed], count=3000)]
    assert max(map(len, found)) > 60
    assert all(len(items) == 2 for items in (args[0] for args in inside([call([5, 1]), call([2, 2])])))
