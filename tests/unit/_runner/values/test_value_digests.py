"""The runner's encoder: equal values have equal digests, different ones have not, in any process."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import math
import pathlib
import pickle
import re
import subprocess
import sys
import threading
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from digests import encode
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel._runner.values import object_reduction, value_digests
from codeflash_parallel._runner.values import value_digests as runner
from codeflash_parallel._runner.values import value_text as rendering
from codeflash_parallel._runner.values.object_reduction import UnencodableValue
from codeflash_parallel._runner.values.type_handlers import REFUSE
from codeflash_parallel._runner.values.value_digests import encode_in_part, observe_raise, observe_return

ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()


HASHABLE = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=6
)


VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(HASHABLE, inner, max_size=4)
        | st.sets(HASHABLE, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


def copy_of(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def same(left: Any, right: Any) -> bool:
    """Say whether two values of the strategies above are the same: types, nan, sign of zero, order of dicts."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, (set, frozenset)):
        return len(left) == len(right) and all(any(same(x, y) for y in right) for x in left)
    return bool(left == right)


@given(VALUES)
def test_a_copy_has_the_same_digests(value: Any) -> None:
    assert encode(value)[:3] == encode(copy_of(value))[:3]


@given(VALUES, VALUES)
def test_digests_are_equal_exactly_for_the_same_values(left: Any, right: Any) -> None:
    # Aliasing inside a value is part of it, so both are freed from what the strategy happened to share.
    left, right = unshared(left), unshared(right)
    assert (encode(left).full == encode(right).full) is same(left, right)


def unshared(value: Any) -> Any:
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(unshared(item) for item in value)
    if isinstance(value, dict):
        return {key: unshared(item) for key, item in value.items()}
    return value


@given(st.lists(st.integers() | st.text(), max_size=6), st.integers(min_value=1, max_value=5))
def test_sets_do_not_depend_on_the_order_of_insertion(items: list[Any], turn: int) -> None:
    assert encode(set(items)).full == encode(set(items[turn:] + items[:turn])).full


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: int
    y: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: int


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: int) -> None:
        self.a = a


class Name(str):
    __slots__ = ()


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - the kind that projects have


DISTINCT: list[Any] = [
    1, 1.0, True, "1", b"1", None, 1j, complex(0.0, 1.0000001), 0, 0.0, -0.0, False, "", b"", float("nan"), math.inf,
    [], (), {}, set(), frozenset(), [[]], [()], ((),), [1], [1.0], (1,), {1}, {1: None}, {1: 1.0}, {1: 1},
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, frozenset({1}), bytearray(b"1"), memoryview(b"1"), range(3), range(0, 3, 2),
    slice(1), Colour.RED, Level.LOW, Point(1, 2), Point(1, [2]), Frozen(1), Slotted(1), Name("1"), Pair(1, 2), (1, 2),
    [1, 2], decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1), dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1), pathlib.PurePosixPath("a"), uuid.UUID(int=1), re.compile("a"),
    re.compile("a", re.IGNORECASE), re.match("a", "a"), collections.OrderedDict(a=1), {"a": 1},
    collections.Counter("a"), collections.defaultdict(int, a=1), collections.deque([1]), collections.deque([1], 2),
    int, str, len, [].append, Point, math, math.sin, functools.partial(int, "1"), ValueError("a"), ValueError("b"),
    KeyError("a"), ..., NotImplemented, {}.keys(), {}.values(), 10**5000, [10**5000], "10", types.SimpleNamespace(a=1),
    "<'builtins.int'>", "@0", "~", "[1, 2]", "\ud800", "\\ud800", Point.__init__,
]  # fmt: skip


def test_values_of_other_kinds_have_other_digests() -> None:
    by_digest: dict[str, Any] = {}
    for value in DISTINCT:
        digest = encode(value).full
        assert digest not in by_digest, (value, by_digest[digest])
        by_digest[digest] = value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (1, True),
        ([1, 2.0], (1.0, 2)),
        ([1, [True]], ((1.0, (1,)))),
        ({"a": [1]}, {"a": (1.0,)}),
        ({1, 2}, frozenset({1.0, 2})),
        ([1, 2], range(1, 3).__iter__()),
        ([], (x for x in ())),
        (b"a", bytearray(b"a")),
    ],
)
def test_types_are_unified_by_value_in_the_typeless_digest_only(left: Any, right: Any) -> None:
    one, other = encode(left), encode(right)
    assert one.typeless == other.typeless
    assert one.full != other.full


@pytest.mark.parametrize(
    ("left", "right"), [(1, 2), ([1], [[1]]), ("1", 1), (0.0, -0.0), ([], {}), (None, False)]
)
def test_the_typeless_digest_still_tells_values(left: Any, right: Any) -> None:
    assert encode(left).typeless != encode(right).typeless


def test_the_floatless_digest_masks_floats_only() -> None:
    one, other = encode({"a": [1.5, 2], "b": {2.5}}), encode({"a": [1.25, 2], "b": {7.5}})
    assert one.floatless == other.floatless
    assert one.full != other.full
    assert encode([1.5, 3]).floatless != encode([1.5, 2]).floatless
    assert encode([1]).floatless != encode([1.0]).floatless


@pytest.mark.parametrize("text", ["x" * 70_000, b"x" * 70_000], ids=["str", "bytes"])
def test_long_texts_are_told_apart_wherever_they_stand(text: Any) -> None:
    end = text[:0] + text[:1]
    other = text[:-1] + (b"y" if isinstance(text, bytes) else "y")
    forms: list[Callable[[Any], Any]] = [
        lambda t: t,
        lambda t: [1, 1.5, t],
        lambda t: (t,),
        lambda t: {"a": t},
    ]
    for form in forms:
        assert encode(form(text))[:3] == encode(form(text[:-1] + end))[:3]
        assert len({encode(form(value)).full for value in (text, other, text + end)}) == 3


def test_every_nan_is_the_same() -> None:
    assert encode(float("nan")).full == encode(-float("nan")).full == encode(math.nan).full


def test_aliasing_and_cycles_are_seen() -> None:
    shared = [0]
    assert encode([shared, shared]).full != encode([[0], [0]]).full
    cycle: list[Any] = []
    cycle.append(cycle)
    other: list[Any] = [[]]
    other[0].append(other)
    assert encode(cycle).full == encode(copy_of(cycle)).full != encode(other).full


def test_identity_of_what_never_changes_is_not_seen() -> None:
    day, text = dt.date(2020, 1, 1), decimal.Decimal("1.5")
    frozen = Frozen(x=1)
    for value in (day, text, frozen, (1, (2,)), Colour.RED, pathlib.PurePosixPath("a")):
        assert encode([value, value]).full == encode([value, copy_of(value)]).full


class Token(str):  # noqa: SLOT000 - it has attributes
    """A text that knows its neighbours, as tokens and nodes of trees do."""

    parent: Token | None

    def __init__(self, _text: str) -> None:
        self.parent, self.children = None, list[Token]()


def tree(levels: int) -> Token:
    top = Token("n")
    for child in [tree(levels - 1) for _ in range(3)] if levels else []:
        child.parent = top
        top.children.append(child)
    return top


def test_a_text_that_knows_its_parents_is_walked_once() -> None:
    walked = value_digests.Walk(REFUSE)
    walked.run(tree(5))
    assert walked.nodes < 3_000
    assert encode(tree(5)) == encode(tree(5)) != encode(tree(4))
    one = Token("n")
    assert encode([one, one]).full != encode([one, Token("n")]).full


def test_after_many_objects_of_a_class_no_more_of_it_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_reduction, "MOST_OBJECTS", 3)
    why = f"after 3 objects of {__name__}.Point in all calls no more are looked at"
    object_reduction.count_anew()
    try:
        first = observe_return([Point(1, 2), Point(1, 2)], (), {})
        assert first["digest"]
        assert first["after"]
        assert "unencodable" not in first
        arguments = observe_return(1, ([Point(1, 2), Point(1, 2)],), {})
        assert (arguments["digest"], arguments["after"]) == (encode(1).full, "")
        assert arguments["unencodable"] == f"the arguments afterwards: {why}"
        assert observe_return(Point(1, 2), (), {})["unencodable"] == why
        assert observe_return(Frozen(1), (), {})["digest"]
    finally:
        object_reduction.count_no_more()
    assert observe_return([Point(1, 2), Point(1, 2)], (), {}) == first


def test_attributes_are_compared_by_name_not_by_order() -> None:
    one, other = types.SimpleNamespace(a=1, b=2), types.SimpleNamespace(b=2, a=1)
    assert encode(one).full == encode(other).full


def test_that_a_partial_function_was_looked_at_is_not_seen() -> None:
    fresh, seen, other = (functools.partial(int, base=2) for _ in range(3))
    text = rendering.render(seen)
    other.note = 1
    assert "base" in text
    assert encode(fresh) == encode(seen) != encode(other)


def test_code_of_the_project_is_not_run() -> None:
    class Hostile:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __hash__(self) -> int:
            raise AssertionError

        def __repr__(self) -> str:
            raise AssertionError

        def __len__(self) -> int:
            raise AssertionError

        def __bool__(self) -> bool:
            raise AssertionError

    hostile = Hostile()
    hostile.__dict__["a"] = 1
    assert encode([hostile, hostile]).full
    assert rendering.render([hostile, hostile]) == "[Hostile(a=1), Hostile(a=1)]"


def test_deep_structures_need_no_recursion() -> None:
    deep: list[Any] = []
    node: Any = types.SimpleNamespace(next=None)
    for _ in range(20_000):
        deep, node = [deep], types.SimpleNamespace(next=node)
    assert encode(deep).full != encode(deep[0]).full
    assert encode(node).full


def test_endless_nesting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_digests, "MAX_NODES", 2_000)

    class Endless:
        def __reduce_ex__(self, protocol: object) -> Any:
            return (Endless, (Endless(),))

    with pytest.raises(UnencodableValue, match="parts"):
        encode(Endless())


def test_returning_an_argument_in_place_of_a_copy_shows_afterwards() -> None:
    value = [1]
    alias, copy = observe_return(value, (value,), {}), observe_return([1], (value,), {})
    assert alias["digest"] == copy["digest"]
    assert alias["after"] != copy["after"]
    assert observe_return([1], ([1],), {})["after"] == copy["after"]


def test_what_has_no_canonical_form_hides_nothing_else_in_the_arguments() -> None:
    def arguments(n: int) -> tuple[Any, ...]:
        return (types.SimpleNamespace(lock=threading.Lock(), rule=lambda: n, lines=iter("a"), n=n),)

    one, again, other = (observe_return(1, arguments(n), {}, REFUSE)["after"] for n in (1, 1, 2))
    assert one == again != other


def test_of_an_exception_the_type_counts() -> None:
    one, other = observe_raise(ValueError("a"), (1,), {}), observe_raise(ValueError("b"), (1,), {})
    assert (one["digest"], one["after"]) == (other["digest"], other["after"])
    assert one["digest"] != observe_raise(KeyError("a"), (1,), {})["digest"]
    assert (one["kind"], one["type"], one["text"]) == ("raise", "builtins.ValueError", "ValueError('a')")


def test_an_unencodable_outcome_says_why() -> None:
    fields = observe_return(threading.Lock(), (), {})
    assert (fields["digest"], fields["kind"]) == ("", "return")
    assert "lock" in fields["unencodable"]


def test_of_a_result_that_is_known_in_part_that_part_counts() -> None:
    def result(n: int) -> Any:
        return {
            "rules": {frozenset({n}), threading.Lock},
            "lock": threading.Lock(),
            "rule": lambda: n,
            "n": [n],
        }

    one, again, other = (observe_return(result(n), (n,), {}) for n in (1, 1, 2))
    assert one["digest"] == again["digest"] != other["digest"]
    assert "lock" in one["unencodable"]
    assert encode_in_part(result(1)).full == one["digest"]
    # Another one without such a part is not the same.
    assert observe_return({**result(1), "lock": None}, (1,), {})["digest"] != one["digest"]


def test_what_is_known_in_part_is_soon_enough_looked_at() -> None:
    large = [types.SimpleNamespace(n=n) for n in range(value_digests.MAX_FURTHER)]
    assert observe_return(large, (), {})["digest"]
    fields = observe_return([lambda: 1, *large], (large,), {})
    assert (fields["digest"], "function" in fields["unencodable"]) == ("", True)
    # That goes for results: how many parts an argument has does not hide what became of it.
    assert observe_return([lambda: 1], ([lambda: 1, *large],), {})["after"]


PROGRAM = """
import sys
sys.path.append(sys.argv[1])
from _runner.values.value_digests import encode_in_part as encode
value = {"sets": [{"a", "b", ("c", 1.5)}, frozenset("hello")], "object": type("T", (), {"__module__": "m"})()}
value["object"].names = set("abcdefgh")
print(encode(value)[:3])
"""


def test_digests_do_not_depend_on_the_hash_seed() -> None:
    package = str(Path(runner.__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-S", "-c", PROGRAM, package],
            env={"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(outputs) == 1
