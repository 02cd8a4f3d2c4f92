"""Captured objects that get what a candidate's constructor sets: odd classes and odd constructors."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from codeflash_parallel._runner.values import call_files
from codeflash_parallel._runner.values.call_files import Call, completed, load, write_call

PLAIN = "class Thing:\n    def __init__(self, size=1):\n        self.size = size\n"
KEPT = PLAIN + "        self._twice = 2 * size\n"
SLOTS = PLAIN.replace(":\n    def", ":\n    __slots__ = ('size', '_twice')\n    def", 1)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], list[Call]]:
    """Capture an object of one text's class, and complete it under another text's."""
    monkeypatch.setattr(call_files, "ADDED", {})

    def make(before: str, after: str, count: int = 1, **of_another: object) -> list[Call]:
        module = ModuleType("added_thing")
        monkeypatch.setitem(sys.modules, "added_thing", module)
        exec(before, module.__dict__)
        value, blobs = module.__dict__["Thing"](3), []
        for attributes in ({}, of_another):
            for name, part in attributes.items():
                setattr(value, name, part)
            blobs.append(pickle.dumps(((value,), {})))
        blob, meta = blobs[0], {"module": "added_thing"}
        with (tmp_path / "captured").open("wb") as file:
            for number, captured in enumerate(blobs):
                write_call(file, {**meta, "i": number}, captured)
        module.__dict__.clear()
        module.__dict__.update(__name__="added_thing")
        exec(after, module.__dict__)
        return completed([Call(meta, blob)] * count, str(tmp_path / "captured"))

    return make


def thing(calls: list[Call]) -> object:
    (value,), _ = load(calls[0])
    return value


def test_what_only_the_new_constructor_sets_is_there_and_is_not_compared(made):
    value = thing(made(PLAIN, KEPT))
    assert vars(value) == {"size": 3, "_twice": 6}
    assert dict(call_files.ADDED) == {type(value): {"_twice"}}
    assert not hasattr(type(value), "__setstate__")


def test_what_another_captured_object_has_is_not_new(made):
    """A method that the constructor calls meets objects without what the constructor sets after it."""
    value = thing(made(PLAIN, KEPT, _twice=6))
    assert vars(value) == {"size": 3}
    assert call_files.ADDED == {}


def test_slots(made):
    after = SLOTS + "        self._twice = 2 * size\n"
    assert thing(made(SLOTS, after))._twice == 6


@pytest.mark.parametrize(
    "after",
    [
        KEPT + "        raise SystemExit(3)\n",
        KEPT + "        raise ValueError(size)\n",
        KEPT.replace("size=1", "weight"),
        KEPT.replace("size=1", "size, *, other"),
        "class Meta(type):\n    def __setattr__(cls, name, value):\n        raise TypeError(name)\n"
        + KEPT.replace("Thing:", "Thing(metaclass=Meta):"),
        KEPT + "    def __setstate__(self, state):\n        self.__dict__.update(state)\n",
        KEPT + "    def __reduce__(self):\n        return Thing, (self.size,)\n",
        PLAIN + "        self.public = 2 * size\n",
        PLAIN,
        "Thing = None\n",
    ],
    ids=["exits", "raises", "renamed", "more", "metaclass", "state", "reduce", "public", "same", "gone"],
)
def test_nothing_is_completed_where_it_cannot_be_or_need_not(made, after):
    (call,) = made(PLAIN, after)
    assert b"_twice" not in call.blob
    assert b"public" not in call.blob


def test_names_beyond_ascii(made):
    assert thing(made(PLAIN, KEPT.replace("_twice", "_zweimal_größe")))._zweimal_größe == 6


def test_the_source_of_a_constructor_is_read_once_for_all_objects(made, monkeypatch):
    from codeflash_parallel._runner.inputs import input_objects

    read = []
    source = input_objects.inspect.getsource
    monkeypatch.setattr(input_objects.inspect, "getsource", lambda f: read.append(f) or source(f))
    assert len(made(PLAIN, KEPT, count=200)) == 200
    assert len(read) == 1
