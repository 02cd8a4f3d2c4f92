"""Values without a literal."""

from __future__ import annotations

import collections
import importlib
import io
import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from digests import encode

from codeflash_parallel._runner.values.object_reduction import UnencodableValue
from codeflash_parallel._runner.values.type_handlers import MAX_ITEMS, REFUSE

FILE = io.TextIOWrapper(io.BytesIO())


class Liar:
    def __reduce_ex__(self, protocol: object) -> Any:
        raise KeyboardInterrupt if protocol == "never" else ZeroDivisionError


@pytest.mark.parametrize(
    "value",
    [threading.Lock(), lambda: 1, Liar(), FILE, (x for x in itertools.count()), sys._getframe(), [lambda: 1]],
    ids=["lock", "lambda", "reduce raises", "file", "endless", "frame", "inside a list"],
)
def test_what_has_no_canonical_form_says_so(value: Any) -> None:
    with pytest.raises(UnencodableValue) as caught:
        encode(value)
    assert str(caught.value)


def test_a_default_factory_without_a_name_does_not_hide_the_items() -> None:
    one, other = (collections.defaultdict(lambda: 0, a=n) for n in (1, 2))
    assert encode(one).full != encode(other).full


def test_iterators_are_exhausted_or_refused() -> None:
    def three() -> Any:
        yield 1
        raise ValueError

    assert encode(three()).full == encode(three()).full != encode(iter([1])).full
    assert encode(iter(range(MAX_ITEMS)))
    numbers = iter([1])
    with pytest.raises(UnencodableValue):
        encode(numbers, REFUSE)
    assert list(numbers) == [1]


@pytest.fixture
def arrays() -> Any:
    return pytest.importorskip("numpy", reason="numpy is not in this environment")


def test_arrays_are_told_by_type_shape_and_values(arrays: Any) -> None:
    square = arrays.arange(4).reshape(2, 2)
    assert encode(square).full == encode(square.copy(order="F")).full
    others: list[Callable[[Any], Any]] = [
        lambda a: a.T, lambda a: a.ravel(), lambda a: a * 1.0, lambda a: a.tolist(), lambda a: a.astype("i4"),
    ]  # fmt: skip
    digests = {encode(change(square)).full for change in others}
    assert len(digests | {encode(square).full}) == 6
    assert encode(square).typeless == encode(square * 1.0).typeless
    assert encode(arrays.float64(1)).typeless == encode(1).typeless
    assert encode(square * 1.5).floatless == encode(square * 2.5).floatless


def test_the_modules_are_importable_on_their_own() -> None:
    assert (
        importlib.import_module("codeflash_parallel._runner.values.type_handlers")._library_handler(int)
        is None
    )
