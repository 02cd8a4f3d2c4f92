"""Queues for tests, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from codeflash_parallel.queue.jobs import Budget, Instant, Job, JobKind, JobRequest, JobState
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.database import DatabaseFileCheck
from codeflash_parallel.queue.store.store import Store

#: No two jobs have the same key unless a test says so.
KEYS = count(1)


@dataclass(slots=True)
class SetClock:
    """A machine's two clocks, set by the test."""

    boot_s: float = 1000.0
    wall_s: float = 1_700_000_000.0
    boot_id: str = "first start"

    def __call__(self, *, later_s: float = 0.0) -> Instant:
        self.boot_s += later_s
        self.wall_s += later_s
        return Instant(wall_s=self.wall_s, boot_s=self.boot_s, boot_id=self.boot_id)


@dataclass(slots=True)
class Lab:
    """An open queue, its clock, and short ways to use it."""

    store: Store
    now: SetClock
    folder: Path

    def submit(self, submitter: str = "a", key: str = "", **more: Any) -> Job:
        wanted = {"kind": JobKind.CHECK, "payload": "{}", **more}
        request = JobRequest(key=key or f"key {next(KEYS)}", submitter=submitter, **wanted)
        return self.store.submit(request, self.now()).job

    def claim(self, **more: Any) -> Job | None:
        return self.store.claim("w", self.now(), **more)

    def claimed(self) -> Job:
        job = self.claim()
        assert job is not None
        return job

    def complete(self, job: Job, result: str = "{}", cpu_s: float = 1.0) -> None:
        self.store.complete(job.job_id, job.fence, result, self.now(), cpu_s=cpu_s, wall_s=cpu_s)

    def fail(self, job: Job, *, machinery: bool = False, output: str = "", fault: str = "CRASHED") -> str:
        return self.store.fail(
            job.job_id, job.fence, self.now(), fault=fault, machinery=machinery, last_output=output,
            cpu_s=1.0, wall_s=1.0,
        )  # fmt: skip

    def state(self, job: Job) -> str:
        return self.store.job(job.job_id).state


@contextmanager
def open_lab(
    folder: Path,
    now: SetClock | None = None,
    check: DatabaseFileCheck = DatabaseFileCheck.FULL,
    **settings: Any,
) -> Iterator[Lab]:
    """Open a queue with four slots, unless the settings say otherwise."""
    chosen = QueueSettings(**{"max_concurrent": 4, **settings})
    with Store.open(folder, chosen, check) as store:
        yield Lab(store=store, now=now or SetClock(), folder=folder)


def request(key: str) -> JobRequest:
    """Return a request that says as little as can be."""
    return JobRequest(kind=JobKind.CHECK, key=key, payload="{}", submitter="a")


def lived_in(lab: Lab) -> tuple[Job, ...]:
    """Let a queue have one job in each state, and return them."""
    done, dead, running = lab.submit("a", run="r", budget=Budget(jobs=9)), lab.submit("b"), lab.submit("c")
    claimed = {job.job_id: job for job in (lab.claimed(), lab.claimed(), lab.claimed())}
    lab.complete(claimed[done.job_id], '{"verdict": 1}')
    assert lab.fail(claimed[dead.job_id], output="its last words") == JobState.DEAD
    assert lab.state(running) == JobState.RUNNING
    gone = lab.submit("b")
    lab.store.cancel(gone.job_id, lab.now())
    lab.submit("a"), lab.submit("b", start_after_s=1000.0)
    return lab.store.jobs()
