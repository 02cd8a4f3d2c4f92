"""How many checks run at once, and threads in a slot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.dispatch.step_times import ProcessUsage
from codeflash_parallel.run.setup.check_concurrency import (
    CheckCapacity,
    at_once,
    cores_of_a_check,
    slots_used,
)

SECOND = 10**9
NOTHING_KNOWN = Baseline(
    targets=(),
    python="",
    pytest="",
    plugins=(),
    rootdir="",
    inifile="",
    selected=(),
    expected={},
    executing=(),
)
ROOM = CheckCapacity(slots=8, cores=4.0, memory_bytes=8 << 30)


def used(cores: float, seconds: float = 1.0) -> ProcessUsage:
    return ProcessUsage(cpu_ns=int(cores * seconds * SECOND), wall_ns=int(seconds * SECOND))


def test_the_baseline_alone_says_how_many_cores_a_check_takes() -> None:
    assert cores_of_a_check(used(2.0), []) == pytest.approx(2.0)
    # Beside others each gets less of the cores than it would take.
    assert cores_of_a_check(used(2.0), [used(1.0), used(0.9)]) == pytest.approx(2.0)
    assert cores_of_a_check(used(0.1), [used(1.0)]) == pytest.approx(1.0)


def test_where_nothing_was_measured_a_check_takes_one_core() -> None:
    assert cores_of_a_check(ProcessUsage(cpu_ns=0, wall_ns=0), []) == 1.0
    assert cores_of_a_check(ProcessUsage(cpu_ns=900_000, wall_ns=999_999), []) == 1.0


def test_only_the_latest_checks_count() -> None:
    assert cores_of_a_check(used(0.5), [used(4.0)] + [used(1.0)] * 16) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("cores_each", "expected"), [(1.0, 4), (0.1, 8), (2.0, 2), (1.1, 4), (3.0, 1), (9.0, 1)]
)
def test_as_many_checks_as_keep_the_cores_busy(cores_each: float, expected: int) -> None:
    assert at_once(ROOM, cores_each=cores_each, bytes_each=0) == expected


def test_memory_sets_a_limit_and_one_always_runs() -> None:
    assert at_once(ROOM, cores_each=0.5, bytes_each=3 << 30) == 2
    assert at_once(replace(ROOM, memory_bytes=0), cores_each=0.5, bytes_each=1 << 30) == 1


@given(
    st.integers(1, 64),
    st.floats(0.5, 128),
    st.integers(0, 1 << 40),
    st.floats(0.01, 64),
    st.integers(0, 1 << 36),
)
def test_never_more_than_slots_never_less_than_one(
    slots: int, cores: float, memory: int, each: float, need: int
) -> None:
    room = CheckCapacity(slots=slots, cores=cores, memory_bytes=memory)
    assert 1 <= at_once(room, cores_each=each, bytes_each=need) <= slots


@pytest.mark.parametrize(
    ("slots", "candidates", "cpu_ns", "used"),
    [(2, 20, 10**9, 2), (8, 20, 10**9, 2), (8, 20, 10**8, 8), (8, 1, 10**8, 1), (8, 20, 0, 2)],
)
def test_slots_that_get_no_candidate_need_no_servers(
    slots: int, candidates: int, cpu_ns: int, used: int
) -> None:
    room = CheckCapacity(slots=slots, cores=2.0, memory_bytes=1 << 40)
    baseline = replace(NOTHING_KNOWN, cpu_ns=cpu_ns, wall_ns=SECOND, rss_bytes=1 << 20)
    assert slots_used(room, baseline, candidates) == used
