from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.dispatch.step_times import ProcessUsage
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import Machine, read_machine
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.setup.machine_shares import (
    CheckCapacity,
    at_once,
    cores_of_a_check,
    memory_limit_of,
    shares_of,
    slots_used,
)
from codeflash_parallel.warm.server_recycling import LONGEST_S, MOST_FORKS, Wear, worn

GIB, MIB = 1 << 30, 1 << 20
MACHINE: Machine = read_machine()._replace(cores=8, quota_cores=8.0, memory_bytes=32 * GIB + GIB // 2)


def test_memory_is_divided_among_the_checks_of_all_who_share_the_machine():
    settings = Settings(parallel_candidates=3)
    alone, shared = (shares_of(MACHINE, settings, sharers) for sharers in (1, 4))
    assert (alone.free_bytes, alone.memory_bytes) == (32 * GIB, 8 * GIB)
    assert (shared.free_bytes, shared.memory_bytes) == (8 * GIB, 2 * GIB)
    assert 4 * (shared.slots + 1) * shared.memory_bytes <= alone.free_bytes


def test_a_limit_that_was_asked_for_is_kept_and_no_check_gets_too_little():
    assert shares_of(MACHINE, Settings(memory_limit=100), 4).memory_bytes == 100 << 20
    assert shares_of(MACHINE._replace(memory_bytes=GIB), Settings(), 64).memory_bytes == GIB // 2


@pytest.mark.parametrize(("baseline_mib", "limit_mib"), [(0, 8192), (4096, 8192), (5000, 10000)])
def test_a_share_leaves_room_for_a_candidate_that_takes_more_than_a_large_baseline(
    baseline_mib: int, limit_mib: int
) -> None:
    settings = Settings(parallel_candidates=3)
    limit_bytes = memory_limit_of(shares_of(MACHINE, settings), settings, baseline_mib * MIB)
    assert limit_bytes == limit_mib * MIB


def test_a_limit_that_the_baseline_would_not_keep_is_refused_and_the_least_one_is_named() -> None:
    settings = Settings(memory_limit=124)
    assert memory_limit_of(shares_of(MACHINE, settings), settings, 99 * MIB) == 124 * MIB
    with pytest.raises(UsageError, match=r"124 MiB, and the baseline's own tests take 100 MiB") as caught:
        memory_limit_of(shares_of(MACHINE, settings), settings, 100 * MIB)
    assert (caught.value.code, "at least 125" in caught.value.hint) == ("BAD_SETTING", True)


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


FRESH = Wear(forks=3, age_s=10.0, rss_at_ready_bytes=100 << 20, rss_bytes=101 << 20)


@pytest.mark.parametrize(
    ("wear", "why"),
    [
        (FRESH, ""),
        (replace(FRESH, rss_bytes=0), "it is gone"),
        (replace(FRESH, forks=MOST_FORKS), f"it has made {MOST_FORKS} forks"),
        (replace(FRESH, age_s=LONGEST_S), "it is 30 minutes old"),
        (replace(FRESH, rss_bytes=300 << 20), "it has grown by 200 MiB"),
        (replace(FRESH, rss_at_ready_bytes=10 << 20, rss_bytes=60 << 20), ""),
    ],
)
def test_a_template_is_replaced_when_it_is_worn(wear: Wear, why: str) -> None:
    assert worn(wear) == why
