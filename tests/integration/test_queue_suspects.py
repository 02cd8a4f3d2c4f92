"""Jobs whose daemon died while they ran: each runs alone, in both directions, until it has its result."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_lab import Lab, SetClock, open_lab

from codeflash_parallel.queue.jobs import Job, JobKind, JobState, WaitReason


def suspect(lab: Lab, submitter: str = "a") -> Job:
    """Have a job run while its daemon dies, and return it as it waits again."""
    job = lab.submit(submitter)
    claimed = lab.claimed()
    assert claimed.job_id == job.job_id
    lab.store.abandon(job.job_id, claimed.fence, lab.now())
    return lab.store.job(job.job_id)


def reason(lab: Lab, job: Job) -> WaitReason:
    return lab.store.place(job.job_id, lab.now()).reason


def test_a_suspect_waits_until_nothing_runs_and_nothing_starts_meanwhile(tmp_path: Path) -> None:
    with open_lab(tmp_path, strategy="fifo") as lab:
        runs, also = lab.submit("a"), lab.submit("b")
        running = {job.job_id: job for job in (lab.claimed(), lab.claimed())}
        waits = suspect(lab, "c")
        later = lab.submit("d")
        assert lab.claim() is None
        assert (reason(lab, waits), reason(lab, later)) == (WaitReason.ALONE, WaitReason.TURN)

        lab.complete(running[runs.job_id])
        assert lab.claim() is None
        lab.complete(running[also.job_id])
        alone = lab.claimed()
        assert alone.job_id == waits.job_id

        assert lab.claim() is None
        assert reason(lab, later) is WaitReason.ALONE
        lab.complete(alone)
        assert not lab.store.job(waits.job_id).suspect
        assert lab.claimed().job_id == later.job_id


def test_a_suspect_does_not_start_while_the_processes_of_another_job_end(tmp_path: Path) -> None:
    with open_lab(tmp_path) as lab:
        waits = suspect(lab)
        assert lab.claim(ending=1) is None
        assert lab.claimed().job_id == waits.job_id


def test_a_suspect_that_is_held_back_holds_nobody_up(tmp_path: Path) -> None:
    now = SetClock()
    with open_lab(tmp_path, now, strategy="fifo") as lab:
        lab.submit("a"), lab.submit("b")
        first, second = lab.claimed(), lab.claimed()
        lab.store.abandon(first.job_id, first.fence, now())
    with open_lab(tmp_path, now, strategy="fifo", kind_limits={"check": 1}) as lab:
        other = lab.submit("c", kind=JobKind.RACE)
        assert reason(lab, first) is WaitReason.KIND
        third = lab.claimed()
        assert third.job_id == other.job_id
        lab.complete(second)
        lab.submit("d", kind=JobKind.RACE)
        assert (reason(lab, first), lab.claim()) == (WaitReason.ALONE, None)
        lab.complete(third)
        assert lab.claimed().job_id == first.job_id


@pytest.mark.parametrize("shed", ["machinery", "crash", "drained", "power cut", "retried"])
def test_suspicion_is_not_shed(tmp_path: Path, shed: str) -> None:
    now = SetClock()
    with open_lab(tmp_path, now, max_attempts=2) as lab:
        job = suspect(lab)
        claimed = lab.claimed()
        match shed:
            case "machinery":
                lab.fail(claimed, machinery=True, fault="INFRA_DISK")
                now(later_s=60)
            case "crash":
                assert lab.fail(claimed, fault="STALLED") == JobState.DEAD
                lab.store.retry(job.job_id, now())
            case "drained":
                lab.store.release(job.job_id, claimed.fence, now())
            case "power cut":
                now.boot_id = "second start"
                lab.store.abandon(job.job_id, claimed.fence, now())
                now(later_s=60)
            case "retried":
                assert lab.store.abandon(job.job_id, claimed.fence, now()) == JobState.DEAD
                lab.store.retry(job.job_id, now())
    with open_lab(tmp_path, now, max_attempts=2) as lab:
        assert lab.claimed().job_id == job.job_id
        lab.submit("b")
        assert lab.claim() is None
