"""Work that is shifted out of what is timed: into the making of inputs, or into few of many calls."""

from __future__ import annotations

import pickle
import sys
import timeit
import types

import pytest
from test_cheating_the_clock import FOOLED, MOST_CREDITED, Race

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.outcome_codes import CandidateStatus

pytestmark = [pytest.mark.anyio, pytest.mark.engine, pytest.mark.campaign]

MAKING_MODULE = """
def mixed(value):
    for step in range(60):
        value = (value * 31 + step) % 1000003
    return value


class Items:
    def __init__(self, start):
        self.start = start

    def __setstate__(self, state):
        self.__dict__.update(state)


def work(items):
    return tuple([mixed(number) for number in range(items.start, items.start + 40)])
"""

#: The result is made when a copy of the input is.
MAKING_CODE = """
_work = work


def _made(self, state):
    self.__dict__.update(state)
    _FOUND[id(self)] = _work(self)


_FOUND = {}
Items.__setstate__ = _made


def work(items):
    return _FOUND[id(items)]
"""

MAKING_TESTS = """
import pytest

from mod import Items, work


@pytest.mark.parametrize("start", range(0, 4000, 400))
def test_work(start):
    assert len(work(Items(start))) == 40
"""

DEBT_MODULE = """
from itertools import repeat

STEPS = 4000


def audit(number):
    for _ in repeat(None, STEPS):
        pass


def work(number):
    audit(number)
    return number + 1
"""

#: What each call owes is done in one call of 300, all at once.
DEBT_CODE = """
_owed = []


def work(number):
    _owed.append(number)
    if len(_owed) == 300:
        for one in _owed:
            audit(one)
        _owed.clear()
    return number + 1
"""

DEBT_TESTS = """
from mod import work


def test_work():
    assert work(1) == 2
"""


@pytest.fixture
async def launcher(anyio_backend):
    async with open_launcher() as opened:
        yield opened


def best_ns(call, argument):
    """Return what the usual timer says: the best of many."""
    return min(timeit.repeat(lambda: call(argument()), number=1, repeat=60))


def loaded(code):
    """Run a module's text and return its names."""
    names = {"__name__": "mod"}
    exec(code, names)
    return names


async def test_work_moved_to_the_making_of_inputs_is_charged(launcher, tmp_path, monkeypatch):
    def timed(code):
        module = types.ModuleType("mod")
        monkeypatch.setitem(sys.modules, "mod", module)
        exec(code, module.__dict__)
        data = [pickle.dumps(module.Items(0)) for _ in range(60)]
        made = iter([pickle.loads(one) for one in data])
        return min(timeit.repeat(lambda: module.work(next(made)), number=1, repeat=60))

    fooled = timed(MAKING_MODULE) / timed(MAKING_MODULE + MAKING_CODE)
    ranking = await Race(tmp_path, launcher, MAKING_MODULE, MAKING_TESTS).decide(
        MAKING_CODE, "work", target=MOST_CREDITED - 1
    )

    said = ranking.of("x")
    assert fooled > FOOLED
    assert said.status is not CandidateStatus.WON, said


async def test_work_put_off_to_one_call_of_many_is_not_overlooked(launcher, tmp_path):
    before, after = loaded(DEBT_MODULE)["work"], loaded(DEBT_MODULE + DEBT_CODE)["work"]
    fooled = best_ns(before, lambda: 1) / best_ns(after, lambda: 1)

    ranking = await Race(tmp_path, launcher, DEBT_MODULE, DEBT_TESTS).decide(
        DEBT_CODE, "work", target=MOST_CREDITED - 1
    )

    said = ranking.of("x")
    assert fooled > FOOLED
    assert said.status is not CandidateStatus.WON, said
