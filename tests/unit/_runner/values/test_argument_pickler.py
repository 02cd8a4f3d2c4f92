"""Copies of arguments: their attributes are kept as the project's own code keeps them, or as `pickle` does. Constants that code knows by identity come back as themselves when a call is made again."""

from __future__ import annotations

import gc
import pickle
import sys
import types
import weakref
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from codeflash_parallel._runner.values import argument_pickler, call_files


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
    # From 3.13 on no object has one before it is asked for.
    assert sys.version_info >= (3, 13) or dict in map(
        type, gc.get_referents(pickle.loads(pickle.dumps(Plain())))
    )


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


SOURCE = """
class Missing: pass
class Kind(tuple):
    parent = None
    def __getattr__(self, name):
        made = Kind((*self, name))
        setattr(self, name, made)
        made.parent = self
        return made
class Settings:
    def __init__(self): self.level = 1
class Registry(dict): pass
MISSING, NOTHING, ROOT, SETTINGS, REGISTRY = Missing(), object(), Kind(), Settings(), Registry()
KINDS = Kind(([1],))
Word = ROOT.Word
"""


@pytest.fixture
def module(monkeypatch):
    made = types.ModuleType("some_constants")
    exec(SOURCE, vars(made))
    monkeypatch.setitem(sys.modules, "some_constants", made)
    monkeypatch.setattr(argument_pickler, "_KNOWN", weakref.WeakKeyDictionary())
    return made


def again(value):
    return call_files.load(call_files.Call({}, argument_pickler.dumps(value, 10_000)))


def test_sentinels_and_types_of_tokens_are_themselves(module):
    assert again([module.MISSING, module.NOTHING]) == [module.MISSING, module.NOTHING]
    assert again(module.Word) is module.Word
    assert again(module.ROOT.Word.Reserved) is module.ROOT.Word.Reserved  # made when it was asked for
    assert again(module.Word.Later) is module.Word.Later


def test_everything_else_is_a_copy(module):
    own, lonely = module.Kind(("other",)), object()

    assert again(own) == own
    assert again(own) is not own
    assert again(module.SETTINGS) is not module.SETTINGS
    assert again(module.REGISTRY) is not module.REGISTRY  # what it holds may change
    assert again(module.KINDS) is not module.KINDS
    assert again(lonely) is not lonely
    assert type(again(module.Missing())) is module.Missing
    assert again(module.Missing()) is not module.MISSING


def test_what_was_a_constant_and_is_none_any_more_is_a_copy(module):
    assert again(module.MISSING) is module.MISSING
    before, module.MISSING = module.MISSING, module.Missing()

    assert again(before) is not before
    assert again(before) is not module.MISSING


Point = namedtuple("Point", "x y")  # noqa: PYI024 - as projects have them
ORIGIN = Point(0, 0)


def test_named_tuples_are_compared_by_value_as_before():
    assert again([ORIGIN, Point(1, 2)]) == [ORIGIN, Point(1, 2)]
