from __future__ import annotations

import pytest

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import Machine, read_machine
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.run.setup.machine_shares import memory_limit_of, shares_of

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
