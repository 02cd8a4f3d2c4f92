"""A job in a worker: its end is told to the store once, in the form that its ending asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from queue_lab import Lab, open_lab

from codeflash_parallel.queue.daemon.job_supervisor import AbortReason, JobSupervisor, ThreadedStore
from codeflash_parallel.queue.daemon.worker_pool import Ending, WorkerDeath
from codeflash_parallel.queue.jobs import Job, JobState, now
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.result.errors import EnvironmentFault

pytestmark = pytest.mark.anyio

ERROR = {"t": "done", "result": {"document": None, "error": {"code": "RED"}}}
DONE = {"t": "done", "result": {"document": {"verdict": "winner"}, "error": None}}
FAULTED = {"t": "faulted", "fault": "DISK_FULL", "message": "It is full."}
PARTIAL = {**FAULTED, "result": DONE["result"]}


class FakeWorker:
    """A worker that ends a job as it was told to, or hangs until it is killed; it answers or not."""

    def __init__(self, ending: Ending | None, *, answers: bool = True) -> None:
        self.ending, self._alive = ending, answers
        self.job_id = self.progress = ""
        self.answers, self.cpu_s, self.is_alive = 0, 1.0, True
        self.killed = anyio.Event()

    async def perform(self, _assignment: object) -> Ending:
        if self.ending is None:
            await self.killed.wait()
        return self.ending or WorkerDeath(begun=True, how="was killed by signal 9", last_output="last words")

    async def ask(self) -> None:
        self.answers += self._alive

    async def stop(self, _assignment: object) -> None:
        self.ending = {"t": "stopped"}
        self.killed.set()

    def release(self, _warm_for: str) -> None:
        self.job_id = ""


class FakePool:
    def __init__(self, worker: FakeWorker | None) -> None:
        self.worker = worker

    def hire(self, _warm_for: str) -> FakeWorker:
        if self.worker is None:
            raise EnvironmentFault("CANNOT_START_PROCESS", "No worker can be started.")
        return self.worker

    async def kill(self, worker: FakeWorker) -> None:
        worker.killed.set()


def supervised(lab: Lab, worker: FakeWorker | None, **settings: Any) -> JobSupervisor:
    chosen = QueueSettings(**{"lease": 0.4, "heartbeat": 0.1, **settings})
    workers: Any = FakePool(worker)
    return JobSupervisor(job=lab.claimed(), workers=workers, store=ThreadedStore(lab.store), settings=chosen)


async def ended(tmp_path: Path, worker: FakeWorker | None, **settings: Any) -> Job:
    with open_lab(tmp_path, now, **settings) as lab:  # type: ignore[arg-type]
        job = lab.submit()
        with anyio.fail_after(30):
            await supervised(lab, worker, **settings).run(1)
        return lab.store.job(job.job_id)


@pytest.mark.parametrize(
    ("ending", "state", "counts", "fault"),
    [
        (DONE, JobState.DONE, (0, 0), ""),
        (ERROR, JobState.DONE, (0, 0), ""),
        (FAULTED, JobState.QUEUED, (0, 1), "DISK_FULL"),
        (PARTIAL, JobState.QUEUED, (0, 1), "DISK_FULL"),
        ({"t": "stopped"}, JobState.QUEUED, (0, 0), ""),
        (WorkerDeath(begun=True, how="died", last_output=""), JobState.QUEUED, (1, 0), "WORKER_DIED"),
        (WorkerDeath(begun=False, how="died", last_output=""), JobState.QUEUED, (0, 1), "WORKER_DIED"),
    ],
)
async def test_each_ending_is_told_as_what_it_is(
    tmp_path: Path, ending: Ending, state: JobState, counts: tuple[int, int], fault: str
) -> None:
    job = await ended(tmp_path, FakeWorker(ending))
    assert (job.state, (job.crashes, job.machinery_faults), job.fault) == (state, counts, fault)


async def test_with_the_last_attempt_the_verdicts_of_the_others_are_kept(tmp_path: Path) -> None:
    job = await ended(tmp_path, FakeWorker(PARTIAL), max_attempts=1)
    assert json.loads(job.result)["document"] == {"verdict": "winner"}


async def test_a_job_without_a_worker_is_tried_again_later(tmp_path: Path) -> None:
    job = await ended(tmp_path, None)
    assert (job.state, job.fault) == (JobState.QUEUED, "CANNOT_START_PROCESS")


async def test_a_worker_that_does_not_answer_is_killed(tmp_path: Path) -> None:
    job = await ended(tmp_path, FakeWorker(None, answers=False), max_attempts=1)
    assert (job.state, job.fault, "last words" in job.last_output) == (JobState.DEAD, "STALLED", True)


async def test_a_job_that_runs_for_too_long_ends_with_an_error(tmp_path: Path) -> None:
    job = await ended(tmp_path, FakeWorker(None), job_timeout=0.3)
    assert json.loads(job.result)["error"]["code"] == "JOB_TIMEOUT"


async def test_a_job_that_is_drained_is_sent_back_without_a_fault(tmp_path: Path) -> None:
    with open_lab(tmp_path, now) as lab:  # type: ignore[arg-type]
        job = lab.submit()
        supervisor = supervised(lab, FakeWorker(None))
        async with anyio.create_task_group() as group:
            group.start_soon(supervisor.run, 1)
            await anyio.sleep(0.1)
            await supervisor.break_off(AbortReason.DRAINED)
        found = lab.store.job(job.job_id)
    assert (found.state, found.crashes, found.machinery_faults) == (JobState.QUEUED, 0, 0)
