"""A call that is tried out ends in time, whether it computes or waits, and its end is no outcome."""

from __future__ import annotations

import itertools
import queue
import signal
import time
from collections.abc import Iterator

import pytest

from codeflash_parallel._runner.process.call_limits import CallTimeout, awaited, limited
from codeflash_parallel._runner.replay.target_functions import LazyResolver


def waiting() -> Iterator[int]:
    yield 1
    yield queue.Queue().get()


def computing() -> Iterator[int]:
    yield 1
    yield sum(1 for _ in itertools.count())


def patient() -> Iterator[int]:
    yield 1
    yield from ()
    time.sleep(3600)


@pytest.mark.parametrize(("made", "ending"), [(waiting, awaited), (computing, limited), (patient, awaited)])
def test_a_generator_that_is_read_too_far_is_ended(made, ending):
    with pytest.raises(CallTimeout), ending(0.02):
        LazyResolver().settle(made(), 5)


@pytest.mark.parametrize(("ending", "number"), [(awaited, signal.SIGALRM), (limited, signal.SIGVTALRM)])
def test_what_ends_in_time_leaves_nothing_behind(ending, number):
    before = signal.getsignal(number)
    with ending(3600):
        assert LazyResolver().settle(iter([1, 2]), 5).items == [1, 2]
    assert signal.getsignal(number) is before
    timers = [signal.getitimer(which) for which in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL)]
    assert timers == [(0.0, 0.0), (0.0, 0.0)]
