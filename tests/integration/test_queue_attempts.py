"""Attempts at a job of the store, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_lab import open_lab

from codeflash_parallel.queue.jobs import JobState, WaitReason
from codeflash_parallel.queue.queue_errors import LeaseLost
from codeflash_parallel.queue.store.database import NAME, connect
from codeflash_parallel.result.errors import UsageError

HOUR_S = 3600.0


def test_three_crashes_and_a_job_is_dead_with_its_last_output(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        job = lab.submit()
        states = [lab.fail(lab.claimed(), output=f"output {n}") for n in range(3)]
        assert states == [JobState.QUEUED, JobState.QUEUED, JobState.DEAD]
        dead = lab.store.job(job.job_id)
        assert (dead.crashes, dead.fault, dead.last_output, dead.cpu_s) == (3, "CRASHED", "output 2", 3.0)
        assert lab.claim() is None

        place = lab.store.retry(job.job_id, lab.now())
        assert place.position == 1
        again = lab.claimed()
        assert (again.crashes, again.fence) == (0, 4)
        lab.complete(again)
        with pytest.raises(UsageError, match="not dead"):
            lab.store.retry(job.job_id, lab.now())


def test_faults_of_the_machine_have_a_budget_of_their_own_pauses_and_no_price(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        job = lab.submit()
        lab.fail(lab.claimed())
        before = vtimes(tmp_path)
        assert lab.fail(lab.claimed(), machinery=True, fault="INFRA_DISK") == JobState.QUEUED
        assert vtimes(tmp_path) == before
        assert lab.claim() is None
        assert lab.store.place(job.job_id, lab.now()).reason is WaitReason.BACKOFF
        pause_s = lab.store.next_change(lab.now())
        assert pause_s == 2.0
        lab.now(later_s=pause_s)
        assert lab.fail(lab.claimed(), machinery=True) == JobState.QUEUED
        assert lab.store.next_change(lab.now()) == 4.0
        lab.now(later_s=4.0)
        assert lab.fail(lab.claimed(), machinery=True) == JobState.DEAD
        dead = lab.store.job(job.job_id)
        assert (dead.crashes, dead.machinery_faults, dead.cpu_s) == (1, 3, 1.0)


def vtimes(folder: Path) -> list[tuple[object, ...]]:
    connection = connect(folder / NAME)
    try:
        return [tuple(row) for row in connection.execute("SELECT * FROM accounts")]
    finally:
        connection.close()


def test_a_worker_without_a_sign_of_life_loses_its_job_which_keeps_its_place(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=1) as lab:
        job, other = lab.submit("a"), lab.submit("a")
        stopped = lab.claimed()
        assert lab.store.next_change(lab.now()) == 30.0
        lab.store.heartbeat(job.job_id, stopped.fence, "", lab.now(later_s=29))
        lab.now(later_s=29)
        assert lab.claim() is None
        lab.now(later_s=1)
        taken = lab.claimed()
        assert (taken.job_id, taken.fence, taken.crashes) == (job.job_id, 2, 1)
        assert "LEASE_EXPIRED" in taken.fault
        with pytest.raises(LeaseLost):
            lab.complete(stopped, "too late")
        lab.complete(taken, "in time")
        assert lab.store.job(job.job_id).result == "in time"
        assert lab.claimed().job_id == other.job_id


def test_a_released_job_keeps_its_place_and_is_charged_nothing(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        first = lab.submit("a")
        lab.submit("a")
        before = vtimes(tmp_path)
        job = lab.claimed()
        assert vtimes(tmp_path) != before
        lab.store.release(job.job_id, job.fence, lab.now())
        assert vtimes(tmp_path) == before
        back = lab.store.job(first.job_id)
        assert (back.state, back.crashes) == (JobState.QUEUED, 0)
        assert lab.store.place(first.job_id, lab.now()).position == 1


# Ends


def test_cancel_is_a_state_and_verdicts_stay(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        waiting, running, done = lab.submit("a"), lab.submit("b"), lab.submit("c")
        jobs = {job.job_id: job for job in (lab.claimed(), lab.claimed(), lab.claimed())}
        lab.store.release(waiting.job_id, jobs[waiting.job_id].fence, lab.now())
        lab.complete(jobs[done.job_id], "verdict")
        ends = [lab.store.cancel(job.job_id, lab.now()) for job in (waiting, running, done)]
        assert ends == [JobState.CANCELLED, JobState.CANCELLED, JobState.DONE]
        assert lab.store.job(done.job_id).result == "verdict"
        with pytest.raises(LeaseLost):
            lab.complete(jobs[running.job_id])
        assert lab.claim() is None


def test_jobs_expire_and_are_told_so(tmp_path: Path):
    with open_lab(tmp_path, queue_timeout=HOUR_S) as lab:
        old = lab.submit("a")
        lab.now(later_s=HOUR_S - 1)
        young = lab.submit("a")
        assert lab.store.next_change(lab.now()) == 1.0
        lab.now(later_s=1)
        assert lab.store.place(old.job_id, lab.now()).position == 0
        assert lab.state(old) == JobState.EXPIRED
        assert "QUEUE_TIMEOUT" in lab.store.job(old.job_id).fault
        assert lab.claimed().job_id == young.job_id


def test_a_job_that_starts_later_expires_only_when_it_has_waited(tmp_path: Path):
    with open_lab(tmp_path, queue_timeout=HOUR_S) as lab:
        job = lab.submit(start_after_s=2 * HOUR_S)
        lab.now(later_s=HOUR_S + 1)
        assert lab.claim() is None
        lab.now(later_s=HOUR_S - 1)
        assert lab.store.place(job.job_id, lab.now()).position == 1
        lab.now(later_s=HOUR_S)
        assert lab.claim() is None
        assert lab.state(job) == JobState.EXPIRED
