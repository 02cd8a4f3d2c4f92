"""Candidates that look faster than they are, each with the timer that it fools: those of the selftest.

All change `mod.py` of one small project. What they return where it is looked at is right; what they gain, they
gain by knowing or shifting what is timed.
"""

from __future__ import annotations

from dataclasses import dataclass

from selftest.entries import TOKEN, Entry, Kind, bases, corpus

_BASE = bases()["clock"]

#: The code that is to be optimized, and its tests. No value occurs in two inputs, so that a first pass over them
#: finds nothing in any table that an earlier input has filled.
MODULE, TESTS = _BASE.files["mod.py"], _BASE.files["test_mod.py"]

#: Code of which an honest candidate leaves out as much of the work as it says.
HONEST_MODULE = """
TIMES = 50


def mixed(value):
    for step in range(25):
        value = (value * 31 + step) % 1000003
    return value


def work(items):
    for _ in range(TIMES):
        found = tuple([mixed(item) for item in items])
    return found
"""

HONEST_TESTS = """
import pytest

from mod import work


@pytest.mark.parametrize("start", [0, 400])
def test_work(start):
    items = tuple(range(start, start + 60))
    assert len(work(items)) == 60
"""

#: Short calls, about 20 microseconds, and tests that make them with so few inputs, again and again.
SHORT_MODULE = """
TIMES = 4


def mixed(value):
    for step in range(30):
        value = (value * 31 + step) % 1000003
    return value


def work(items):
    for _ in range(TIMES):
        found = tuple([mixed(item) for item in items])
    return found
"""

SHARED_TESTS = """
import pytest

from mod import work

DISTINCT = {distinct}


@pytest.mark.parametrize("number", range(40))
def test_work(number):
    start = 5 + number % DISTINCT * 10
    assert len(work(tuple(range(start, start + 4)))) == 4
"""

#: Calls with a large result. The loop is one in C, or its numbers would cost more where they are larger.
LARGE_MODULE = """
from itertools import repeat

ROWS = tuple(range(10000))
STEPS = 80000


def work(number):
    for _ in repeat(None, STEPS):
        pass
    return ROWS
"""

#: Twenty times as fast: from about 400 to 20 microseconds.
LARGE_CODE = "STEPS = 4000\n"

LARGE_TESTS = """
import pytest

from mod import work


@pytest.mark.parametrize("number", range(24))
def test_work(number):
    assert len(work(number)) == 10000
"""


#: What the names begin with that a cheat uses where all processes of the host share memory: for every test one
#: of its own takes its place, because tests run beside each other.
SHARED = TOKEN


@dataclass(frozen=True, kw_only=True)
class Cheat:
    """One candidate.

    Attributes:
        code: replaces or follows the code of the module.
        target: what is timed.
        argument: an expression for what the timer hands over.
        timer: how the timer that it fools looks at the clock, see `in_process_timer.py`.
        guards: words of which one must stand in the reason.
    """

    code: str
    target: str = "work"
    argument: str = "tuple(range(40))"
    timer: str = "wall"
    guards: tuple[str, ...]


#: What is said of code whose gain is gone once it is timed from outside.
NO_GAIN = ("not measurably faster", "could not be shown", "too noisy")

#: What is said of a gain that only repeated inputs have.
CACHE = ("inputs that the tests know", "outcomes", *NO_GAIN)


def _cheat(entry: Entry) -> Cheat:
    guards = [NO_GAIN if guard == "no gain" else (guard,) for guard in entry.guards]
    timing = entry.timing
    return Cheat(
        code=entry.code,
        target=timing.function,
        argument=timing.argument,
        timer=timing.way,
        guards=tuple(word for words in guards for word in words),
    )


CHEATS = {entry.name: _cheat(entry) for entry in corpus() if entry.kind is Kind.CLOCK}
