from __future__ import annotations

from codeflash_parallel.engine.shares import shares_of
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.process.machine import Machine, read_machine

GIB = 1 << 30
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
