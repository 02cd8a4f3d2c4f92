"""Hiring of workers: warm ones first, then new ones, then the one that has been idle longest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from codeflash_parallel.queue.daemon.worker_pool import Worker, WorkerPool


class NoProcesses(WorkerPool):
    """A pool whose workers are no processes."""

    def _start(self) -> Worker:
        return worker(self, "new")


def worker(
    pool: WorkerPool, warm_for: str, *, used_s: float = 0.0, job_id: str = "", alive: bool = True
) -> Worker:
    popen: Any = SimpleNamespace(poll=lambda: None if alive else 1, pid=0)
    channel: Any = SimpleNamespace(close=lambda: None)
    made = Worker(popen=popen, channel=channel, log=Path(), warm_for=warm_for, job_id=job_id, used_s=used_s)
    pool.workers.append(made)
    return made


@pytest.fixture
def pool(tmp_path: Path) -> WorkerPool:
    return NoProcesses(tmp_path, tmp_path, size=2)


def test_a_warm_worker_is_hired_before_a_new_one(pool: WorkerPool) -> None:
    warm = worker(pool, "a")
    assert pool.hire("a") is warm
    assert pool.hire("b").warm_for == "new"


def test_in_a_full_pool_the_one_that_has_been_idle_longest_is_hired(pool: WorkerPool) -> None:
    late, early = worker(pool, "a", used_s=2.0), worker(pool, "b", used_s=1.0)
    assert pool.hire("c") is early
    early.job_id = "1-a"
    assert pool.hire("c") is late


def test_neither_a_busy_nor_a_dead_worker_is_hired(pool: WorkerPool) -> None:
    busy, dead = worker(pool, "a", job_id="1-a"), worker(pool, "a", alive=False)
    assert pool.hire("a").warm_for == "new"
    assert busy in pool.workers
    assert dead not in pool.workers
