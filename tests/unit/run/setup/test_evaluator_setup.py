"""Slots, cores and memory of one evaluator, and how many checks run at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import Machine, read_machine
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.setup.evaluator_setup import Shares, checks_at_once, memory_limit_of, shares_of

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
SHARES = Shares(slots=8, cores=4.0, free_bytes=8 << 30, memory_bytes=0)
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


def baseline(cores: float = 1.0, rss_bytes: int = 0, wall_ns: int = SECOND) -> Baseline:
    return replace(NOTHING_KNOWN, cpu_ns=int(cores * wall_ns), wall_ns=wall_ns, rss_bytes=rss_bytes)


@pytest.mark.parametrize(
    ("cores_each", "expected"), [(1.0, 4), (0.1, 8), (2.0, 2), (1.1, 4), (3.0, 1), (9.0, 1), (0, 4)]
)
def test_as_many_checks_as_keep_the_cores_busy(cores_each: float, expected: int) -> None:
    assert checks_at_once(SHARES, 8, baseline(cores_each)) == expected


def test_a_baseline_that_is_too_short_tells_nothing_of_cores() -> None:
    assert checks_at_once(SHARES, 8, baseline(0.1, wall_ns=999_999)) == 4


def test_memory_sets_a_limit_and_one_always_runs() -> None:
    assert checks_at_once(SHARES, 8, baseline(0.5, rss_bytes=2 << 30), server_bytes=1 << 30) == 2
    assert checks_at_once(replace(SHARES, free_bytes=0), 8, baseline(rss_bytes=1 << 30)) == 1


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
    shares = replace(SHARES, cores=cores, free_bytes=memory)
    assert 1 <= checks_at_once(shares, slots, baseline(each, rss_bytes=need)) <= slots
