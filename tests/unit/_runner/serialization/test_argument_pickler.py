"""Copies of arguments: their attributes are kept as the project's own code keeps them, or as `pickle` does."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel._runner.serialization import argument_pickler


class Plain:
    def __init__(self) -> None:
        self.one, self.two, self.me = 1, [2], self


class Refusing:
    def __init__(self) -> None:
        vars(self)["one"] = 1

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(name)


class Described:
    def __init__(self) -> None:
        vars(self)["one"] = 1

    @property
    def one(self) -> int:
        return 2

    @one.setter
    def one(self, value: int) -> None:
        raise AttributeError(value)


class Slotted(Plain):
    __slots__ = ("three",)

    def __init__(self) -> None:
        super().__init__()
        self.three = 3


class Items(dict[str, int]):
    pass


class Numbered:
    def __init__(self) -> None:
        vars(self)[1] = "one"  # type: ignore[index]


def copy_of(value: object) -> Any:
    return pickle.loads(argument_pickler.dumps(value, 1 << 20))


def test_the_attributes_of_a_copy_are_in_no_dictionary_of_its_own() -> None:
    copy = copy_of(Plain())
    assert dict not in map(type, gc.get_referents(copy))
    assert copy.me is copy
    assert dict in map(type, gc.get_referents(pickle.loads(pickle.dumps(Plain()))))


@pytest.mark.parametrize("kind", [Plain, Refusing, Described, Slotted, Numbered])
def test_attributes_come_back_whatever_the_type_allows(kind: type) -> None:
    copy, own = copy_of(kind()), kind()
    shown = {name: value for name, value in vars(copy).items() if name != "me"}
    assert shown == {name: value for name, value in vars(own).items() if name != "me"}
    assert type(copy) is kind
    assert vars(copy).get("me", copy) is copy
    assert getattr(copy, "three", 3) == 3


def test_other_objects_come_back_as_before() -> None:
    items = Items(a=1)
    items.more = Path("x")  # type: ignore[attr-defined]
    copy = copy_of(items)
    assert (copy, copy.more) == ({"a": 1}, Path("x"))
