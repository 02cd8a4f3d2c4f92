"""Values as plain JSON: what is told is rebuilt, type by type; what cannot be told is named."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from digests import encode
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel._runner.values import plain_json

ATOMS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.complex_numbers()
)
HASHABLE = ATOMS | st.tuples(ATOMS, ATOMS) | st.frozensets(ATOMS, max_size=4)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(HASHABLE, inner, max_size=4) | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


class Color(enum.Enum):
    RED = (1, 2)


class Place(NamedTuple):
    x: int
    y: float


@dataclasses.dataclass(frozen=True)
class Packing:
    places: list[Place]
    color: Color = Color.RED


@dataclasses.dataclass
class Bag:
    n: int


class Plain:
    pass


def again(value: Any) -> Any:
    return plain_json.rebuilt(json.loads(json.dumps(plain_json.told(value))))


@given(VALUES)
def test_what_is_told_is_rebuilt(value: Any) -> None:
    assert encode(again(value)) == encode(value)


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        -(1 << 64),
        "\ud800",
        bytearray(b"ab"),
        {1, 2.0},
        collections.deque([1, [2]]),
        collections.Counter("abca"),
        collections.OrderedDict([("b", 1), ("a", [Place(1, 2.0)])]),
        range(3, 9, 2),
        Decimal("1.50"),
        Fraction(1, 3),
        Color.RED,
        Packing([Place(1, 2.5)]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_types_are_rebuilt(value: Any) -> None:
    assert encode(again(value)) == encode(value)


def test_arrays_are_rebuilt() -> None:
    numpy = pytest.importorskip("numpy")
    for value in (
        numpy.arange(6.0).reshape(2, 3).T,
        numpy.float32(1.5),
        numpy.array(["a", "bc"]),
        numpy.array(3),
    ):
        assert encode(again(value)) == encode(value)
    with pytest.raises(plain_json.NoPlainForm, match="ndarray of object"):
        plain_json.told(numpy.array([object()]))


def more() -> Bag:
    bag = Bag(1)
    bag.other = 2  # type: ignore[attr-defined]
    return bag


def local() -> object:
    @dataclasses.dataclass
    class Local:
        n: int

    return Local(1)


def cycle() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Plain(), "Plain"),
        ([threading.Lock()], "lock"),
        (more(), "more attributes"),
        (local(), "Local"),
        (lambda: 1, "function"),
        (cycle(), "nested deeper"),
        ((i for i in ()), "generator"),
    ],
    ids=["object", "lock", "attributes", "local", "function", "cycle", "generator"],
)
def test_what_cannot_be_told_is_named(value: Any, named: str) -> None:
    with pytest.raises(plain_json.NoPlainForm, match=named):
        plain_json.told(value)


@pytest.mark.parametrize(
    "data",
    [
        ["dataclass", "os", "system", "true"],
        ["namedtuple", "subprocess", "Popen", "true"],
        ["enum", "builtins", "exec", "1"],
        ["dataclass", "nowhere", "Bag", 1],
        ["ndarray", "O", [1], ""],
        ["eval", "1"],
        ["int"],
        [],
        [["list"]],
    ],
    ids=str,
)
def test_what_a_candidate_may_write_instead_is_no_value(data: Any) -> None:
    before = set(sys.modules)
    with pytest.raises(plain_json.NoPlainForm):
        plain_json.rebuilt(data)
    assert "nowhere" not in set(sys.modules) - before
