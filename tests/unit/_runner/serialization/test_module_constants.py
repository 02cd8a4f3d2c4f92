"""Constants that code knows by identity come back as themselves when a call is made again."""

from __future__ import annotations

import sys
import types
import weakref
from collections import namedtuple

import pytest

from codeflash_parallel._runner.serialization import argument_pickler, call_files, module_constants

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
    monkeypatch.setattr(module_constants, "_KNOWN", weakref.WeakKeyDictionary())
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
