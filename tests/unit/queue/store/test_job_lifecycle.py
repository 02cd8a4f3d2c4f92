"""What holds jobs of the store back, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_lab import SetClock, open_lab, request

from codeflash_parallel.queue.jobs import Budget, JobKind, JobState, Overflow, WaitReason
from codeflash_parallel.queue.queue_errors import (
    BudgetSpent,
    QueueFull,
    RateLimited,
    SubmitterLimit,
    UnknownKind,
)


def test_a_job_that_starts_later_is_in_nobodys_way_and_joins_the_end(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=1) as lab:
        later = lab.submit("a", start_after_s=60.0)
        assert lab.store.place(later.job_id, lab.now()).reason is WaitReason.LATER
        assert lab.store.next_change(lab.now()) == 60.0
        assert lab.claim() is None
        others = [lab.submit("a") for _ in range(2)]
        lab.now(later_s=60)
        assert lab.store.place(later.job_id, lab.now()).position == 3
        order = []
        while (job := lab.claim()) is not None:
            order.append(job.job_id)
            lab.complete(job)
        assert order == [*(job.job_id for job in others), later.job_id]


def test_limits_of_a_submitter_and_of_a_kind_block_nobody_else(tmp_path: Path):
    limits = {"per_submitter_running": 1, "kind_limits": {"race": 1}}
    with open_lab(tmp_path, **limits) as lab:
        flood = [lab.submit("a") for _ in range(3)]
        races = [lab.submit(who, kind=JobKind.RACE) for who in "bc"]
        free = lab.submit("d")
        started = {lab.claimed().job_id for _ in range(3)}
        assert started == {flood[0].job_id, races[0].job_id, free.job_id}
        assert lab.claim() is None
        assert lab.store.place(flood[1].job_id, lab.now()).reason is WaitReason.SUBMITTER
        assert lab.store.place(races[1].job_id, lab.now()).reason is WaitReason.KIND


def test_who_is_held_back_by_a_limit_of_its_own_saves_nothing_up(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=9, kind_limits={"race": 1}) as lab:
        lab.submit("c", kind=JobKind.RACE), lab.claimed()
        lab.submit("a", kind=JobKind.RACE)
        for _ in range(10):
            lab.submit("b")
        for _ in range(5):
            lab.complete(lab.claimed(), cpu_s=10.0)
        for _ in range(5):
            lab.submit("a")
        order = ""
        for _ in range(8):
            job = lab.claimed()
            lab.complete(job, cpu_s=10.0)
            order += job.submitter
        assert "aaa" not in order
        assert order.count("a") in {4, 5}


def test_a_submitter_held_back_within_its_run_saves_nothing_up(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=9, kind_limits={"race": 1}) as lab:
        lab.submit("c", kind=JobKind.RACE, run="r"), lab.claimed()
        lab.submit("a", kind=JobKind.RACE, run="r")
        for _ in range(10):
            lab.submit("b", run="r")
        for _ in range(5):
            lab.complete(lab.claimed(), cpu_s=10.0)
        for _ in range(5):
            lab.submit("a", run="r")
        order = ""
        for _ in range(8):
            job = lab.claimed()
            lab.complete(job, cpu_s=10.0)
            order += job.submitter
        assert "aaa" not in order


def test_all_slots_are_busy_and_a_finished_job_starts_the_next(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=2) as lab:
        jobs = [lab.submit() for _ in range(3)]
        first, _ = lab.claimed(), lab.claimed()
        assert lab.claim() is None
        place = lab.store.place(jobs[2].job_id, lab.now())
        assert (place.position, place.reason) == (1, WaitReason.SLOTS)
        lab.complete(first)
        assert lab.claimed().job_id == jobs[2].job_id


def test_a_rate_holds_starts_back_until_its_span_is_over(tmp_path: Path):
    with open_lab(tmp_path, rate_limit="2/1m") as lab:
        jobs = [lab.submit("a") for _ in range(3)]
        other = lab.submit("b")
        lab.complete(lab.claimed())
        lab.now(later_s=20)
        started = [lab.claimed().job_id for _ in range(2)]
        assert set(started) == {jobs[1].job_id, other.job_id}
        assert lab.claim() is None
        assert lab.store.place(jobs[2].job_id, lab.now()).reason is WaitReason.RATE
        assert lab.store.next_change(lab.now()) == 30.0  # the leases
        for job in lab.store.jobs(states={JobState.RUNNING}):
            lab.complete(job)
        assert lab.store.next_change(lab.now()) == 40.0  # the first start is a minute old
        lab.now(later_s=40)
        assert lab.claimed().job_id == jobs[2].job_id


def test_a_paused_queue_takes_jobs_and_starts_none(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        running = (lab.submit(), lab.claimed())[1]
        lab.store.pause(now())
        job = lab.submit()
        assert lab.store.place(job.job_id, now()).reason is WaitReason.PAUSED
        assert lab.claim() is None
        lab.complete(running)
    with open_lab(tmp_path, now) as lab:
        assert lab.store.health(now()).paused
        assert lab.claim() is None
        lab.store.unpause(now())
        assert lab.claimed().job_id == job.job_id


# Refusals


def test_a_full_queue_refuses(tmp_path: Path):
    with open_lab(tmp_path, max_queue_size=2) as lab:
        lab.submit(), lab.submit(key="k")
        with pytest.raises(QueueFull) as refused:
            lab.submit()
        assert refused.value.limit == 2
        assert not lab.store.submit(request("k"), lab.now()).is_new
        lab.claimed()
        lab.submit()


def test_a_full_queue_drops_the_oldest_where_it_is_told_to_and_says_so(tmp_path: Path):
    with open_lab(tmp_path, max_queue_size=2, overflow=Overflow.DROP_OLDEST) as lab:
        jobs = [lab.submit() for _ in range(3)]
        assert [lab.state(job) for job in jobs] == [JobState.DROPPED, JobState.QUEUED, JobState.QUEUED]
        assert "QUEUE_FULL" in lab.store.job(jobs[0].job_id).fault


def test_a_submitter_has_so_many_waiting_and_no_more(tmp_path: Path):
    with open_lab(tmp_path, per_submitter_queued=2) as lab:
        lab.submit("a"), lab.submit("a", run="r")
        with pytest.raises(SubmitterLimit) as refused:
            lab.submit("a")
        assert (refused.value.submitter, refused.value.limit) == ("a", 2)
        lab.submit("b")
        lab.claimed()
        lab.submit("a" if lab.store.jobs(states={JobState.RUNNING})[0].submitter == "a" else "b")


def test_what_could_not_start_before_it_expires_is_refused_with_the_time_to_try_again(tmp_path: Path):
    with open_lab(tmp_path, rate_limit="2/1m", queue_timeout=120.0) as lab:
        for _ in range(4):
            lab.submit("a")
        with pytest.raises(RateLimited) as refused:
            lab.submit("a")
        assert refused.value.retry_after_s == 30.0
        lab.claimed()
        lab.submit("a")


@pytest.mark.parametrize("how", ["cancelled", "lease lost", "daemon died"])
def test_what_nobody_has_measured_counts_by_the_clock(tmp_path: Path, how: str):
    with open_lab(tmp_path) as lab:
        lab.submit(run="r", budget=Budget(cpu_s=10.0))
        job = lab.claimed()
        lab.store.heartbeat(job.job_id, job.fence, "", lab.now(later_s=10))
        if how == "cancelled":
            lab.store.cancel(job.job_id, lab.now())
        elif how == "daemon died":
            lab.store.abandon(job.job_id, job.fence, lab.now())
        else:
            lab.now(later_s=30)
        with pytest.raises(BudgetSpent, match="cpu_s is 10 of 10"):
            lab.submit(run="r")


def test_a_dead_job_is_not_done_again_when_its_run_is_spent(tmp_path: Path):
    with open_lab(tmp_path, max_attempts=1) as lab:
        job = lab.submit(run="r", budget=Budget(cpu_s=2.0, jobs=1))
        lab.fail(lab.claimed())
        lab.store.retry(job.job_id, lab.now())  # it is no further job
        lab.fail(lab.claimed())
        with pytest.raises(BudgetSpent, match="cpu_s is 2 of 2"):
            lab.store.retry(job.job_id, lab.now())
        assert lab.state(job) == JobState.DEAD


def test_a_budget_refuses_with_the_figure_and_the_first_one_holds(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit(run="r", budget=Budget(cpu_s=5.0, jobs=3))
        lab.complete(lab.claimed(), cpu_s=6.0)
        with pytest.raises(BudgetSpent) as refused:
            lab.submit(run="r", budget=Budget(cpu_s=1000.0))
        assert (refused.value.figure, refused.value.spent, refused.value.limit) == ("cpu_s", 6.0, 5.0)
        lab.submit(run="other")

        for _ in range(2):
            lab.submit(run="s", budget=Budget(jobs=2))
        with pytest.raises(BudgetSpent, match="jobs is 2 of 2"):
            lab.submit(run="s")

        lab.submit(run="t", budget=Budget(wall_s=60.0))
        lab.now(later_s=60.0)
        with pytest.raises(BudgetSpent, match="wall_s"):
            lab.submit(run="t")


def test_an_unknown_kind_is_refused(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        with pytest.raises(UnknownKind, match="no-kind"):
            lab.submit(kind="no-kind")
        assert lab.store.jobs() == ()
