"""A pytest plugin of `truth.py`: the seconds of decorated functions' outermost calls while tests run."""

from __future__ import annotations

import functools
import inspect
import json
import threading
import time
from pathlib import Path

import pytest


class Total:
    """What the calls have cost so far; what is called inside one belongs to it.

    A span counts by the clock on the wall, which is the finer one, or by the thread's CPU clock where that
    is less: then another process had the core.
    """

    def __init__(self):
        self.calls = self.spans = self.ns = 0
        self.thread = threading.local()

    @property
    def inside(self):
        return getattr(self.thread, "inside", False)

    def timed(self, function, *arguments, **keywords):
        self.thread.inside = True
        cpu = time.thread_time_ns()
        wall = time.perf_counter_ns()
        try:
            return function(*arguments, **keywords)
        finally:
            wall = time.perf_counter_ns() - wall
            cpu = time.thread_time_ns() - cpu
            self.ns += min(wall, cpu)
            self.spans += 1
            self.thread.inside = False


TOTAL = Total()


def timed(function):
    """Wrap a target: a function, or a generator function, of which each step is timed."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError("coroutines are not timed")

    @functools.wraps(function)
    def outermost(*arguments, **keywords):
        if TOTAL.inside:
            return function(*arguments, **keywords)
        TOTAL.calls += 1
        return TOTAL.timed(function, *arguments, **keywords)

    @functools.wraps(function)
    def stepwise(*arguments, **keywords):
        generator = function(*arguments, **keywords)
        if TOTAL.inside:
            return (yield from generator)
        TOTAL.calls += 1
        return (yield from Steps(generator))

    return stepwise if inspect.isgeneratorfunction(function) else outermost


class Steps:
    """A generator of which each step is timed."""

    def __init__(self, generator):
        self.generator = generator
        self.close = generator.close

    def __iter__(self):
        return self

    def __next__(self):
        return TOTAL.timed(next, self.generator)

    def send(self, value):
        return TOTAL.timed(self.generator.send, value)

    def throw(self, *error):
        return TOTAL.timed(self.generator.throw, *error)


def clock_ns():
    """Return what the clocks add to a span: the least of some in which nothing is done."""
    least = []
    for _ in range(200):
        before = TOTAL.ns
        TOTAL.timed(int)
        least.append(TOTAL.ns - before)
    return min(least)


def pytest_addoption(parser):
    parser.addoption("--outermost-calls", metavar="FILE")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtestloop(session):
    clock = clock_ns()
    TOTAL.calls = TOTAL.spans = TOTAL.ns = 0
    began = time.thread_time_ns()
    yield
    ended = time.thread_time_ns()
    target_ns = max(TOTAL.ns - clock * TOTAL.spans, 1)
    told = {"calls": TOTAL.calls, "target_s": target_ns / 1e9, "tests_s": (ended - began) / 1e9}
    Path(session.config.getoption("--outermost-calls")).write_text(json.dumps(told), encoding="utf-8")
