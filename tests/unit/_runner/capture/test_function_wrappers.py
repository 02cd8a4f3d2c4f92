"""Wrapped targets: each keeps its kind, and only outermost calls are recorded."""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import Any

import pytest

from codeflash_parallel._runner.capture.call_recorder import CallOrigin, CallRecorder
from codeflash_parallel._runner.capture.function_wrappers import wrap


class Channel:
    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []

    def write(self, kind: str, /, **fields: Any) -> None:
        self.records.append({"t": kind, **fields})

    def calls(self) -> list[dict[str, Any]]:
        return [record for record in self.records if record["t"] == "call"]


@pytest.fixture
def recorder() -> CallRecorder:
    spec = {"root": "/project", "targets": [{"path": "shop.py", "qualname": "target"}]}
    return CallRecorder(spec, Channel())


def wrapped(recorder: CallRecorder, found: Any) -> Any:
    return wrap(recorder, CallOrigin(recorder, 0, "shop", "outer"), found)


def test_a_recursive_function_is_recorded_once(recorder: CallRecorder) -> None:
    def fall(n: int) -> int:
        return n if n == 0 else int(target(n - 1))

    target = wrapped(recorder, fall)
    assert target(5) == 0
    recorder.finish()
    (call,) = recorder._channel.calls()
    assert (call["args"], call["text"], recorder.samples[0].count()) == ("5", "0", 1)


def test_what_a_target_raises_is_recorded_and_comes_through(recorder: CallRecorder) -> None:
    target = wrapped(recorder, lambda: {}["missing"])
    with pytest.raises(KeyError):
        target()
    recorder.finish()
    assert recorder._channel.calls()[0]["type"] == "builtins.KeyError"


def test_each_kind_of_function_stays_one(recorder: CallRecorder) -> None:
    async def coroutine() -> int:
        return 1

    def generator() -> Any:
        yield 1

    async def asynchronous() -> Any:
        yield 1

    assert inspect.iscoroutinefunction(wrapped(recorder, coroutine))
    assert inspect.isgeneratorfunction(wrapped(recorder, generator))
    assert inspect.isasyncgenfunction(wrapped(recorder, asynchronous))
    assert type(wrapped(recorder, staticmethod(generator))) is staticmethod
    assert type(wrapped(recorder, property(lambda self: self))) is property
    assert wrapped(recorder, functools.lru_cache(lambda: 1)).cache_info().hits == 0
    assert asyncio.run(wrapped(recorder, coroutine)()) == 1
    assert list(wrapped(recorder, generator)()) == [1]


def test_of_a_generator_the_items_that_were_read_are_recorded(recorder: CallRecorder) -> None:
    def numbers() -> Any:
        yield from range(9)

    target = wrapped(recorder, numbers)
    reading = target()
    assert [next(reading), next(reading)] == [0, 1]
    reading.close()
    recorder.finish()
    assert recorder._channel.calls()[0]["text"] == "[0, 1] read in part"
