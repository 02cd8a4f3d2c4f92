from __future__ import annotations

import json
import sqlite3
import threading
from pathlib import Path

import pytest
from queue_lab import ALL, SetClock, open_lab

from codeflash_parallel.evalqueue.database import NAME, connect
from codeflash_parallel.evalqueue.figures import prometheus
from codeflash_parallel.evalqueue.refusals import (
    BudgetSpent,
    LeaseLost,
    QueueFull,
    RateLimited,
    SubmitterLimit,
    UnknownJob,
    UnknownKind,
)
from codeflash_parallel.evalqueue.store import Store
from codeflash_parallel.model.errors import UsageError
from codeflash_parallel.model.jobs import (
    Budget,
    JobKind,
    JobState,
    Overflow,
    Priority,
    Strategy,
    Waiting,
)
from codeflash_parallel.model.queue_settings import QueueSettings

HOUR_S = 3600.0


# One job's way


def test_a_job_goes_in_is_claimed_and_gets_its_result(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        job = lab.submit(payload='{"a": 1}', run="r", priority=Priority.HIGH)
        assert (job.state, job.fence, job.payload) == (JobState.QUEUED, 0, '{"a": 1}')
        claimed = lab.claimed()
        assert (claimed.job_id, claimed.state, claimed.fence) == (job.job_id, JobState.RUNNING, 1)
        lab.store.heartbeat(job.job_id, 1, "half", lab.now(later_s=5))
        assert lab.store.job(job.job_id).progress == "half"
        lab.complete(claimed, '{"x": 2}', cpu_s=3.0)
        done = lab.store.job(job.job_id)
        assert (done.state, done.result, done.cpu_s, done.wall_s) == (JobState.DONE, '{"x": 2}', 3.0, 3.0)
        assert lab.store.by_key(job.key) == done
        assert lab.claim() is None


def test_everything_is_there_when_the_queue_is_opened_again(tmp_path: Path):
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        waiting, running, done = lab.submit("a"), lab.submit("b"), lab.submit("c")
        first = [lab.claimed() for _ in range(3)]
        lab.store.release(first[0].job_id, first[0].fence, now())
        lab.complete(first[2])
        before = lab.store.jobs()
    with open_lab(tmp_path, now) as lab:
        assert lab.store.jobs() == before
        states = [lab.state(job) for job in (waiting, running, done)]
        assert states == [JobState.QUEUED, JobState.RUNNING, JobState.DONE]


def test_every_commit_waits_for_the_disk(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
        connection = connect(tmp_path / NAME)
        try:
            assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
            assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        finally:
            connection.close()
        assert lab.store._database.number("PRAGMA synchronous") == 2


def test_jobs_are_listed_the_newest_first_by_state_submitter_and_run(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        a, b, c = lab.submit("a"), lab.submit("b", run="r"), lab.submit("a", run="r")
        lab.store.cancel(a.job_id, lab.now())

        def ids(**chosen: object) -> list[str]:
            return [job.job_id for job in lab.store.jobs(**chosen)]

        assert ids() == [c.job_id, b.job_id, a.job_id]
        assert ids(limit=1) == [c.job_id]
        assert ids(states={JobState.CANCELLED}) == [a.job_id]
        assert ids(states={JobState.QUEUED, JobState.CANCELLED}, submitter="a") == [c.job_id, a.job_id]
        assert ids(run="r", submitter="b") == [b.job_id]
        assert ids(submitter="nobody") == []


def test_who_does_not_hold_a_job_can_do_nothing_to_it(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
        job = lab.claimed()
        lab.store.release(job.job_id, job.fence, lab.now())
        again = lab.claimed()
        assert again.fence == 2
        before = lab.store.jobs()
        for report in (
            lambda: lab.complete(job),
            lambda: lab.fail(job),
            lambda: lab.store.release(job.job_id, job.fence, lab.now()),
            lambda: lab.store.heartbeat(job.job_id, job.fence, "", lab.now()),
        ):
            with pytest.raises(LeaseLost):
                report()
        assert lab.store.jobs() == before
        lab.complete(again, "1")
        with pytest.raises(LeaseLost):
            lab.complete(again, "2")
        assert lab.store.job(job.job_id).result == "1"


def test_a_job_that_is_not_there_is_told(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        for ask in (
            lambda: lab.store.job("7-x"),
            lambda: lab.store.place("7-x", lab.now()),
            lambda: lab.store.cancel("7-x", lab.now()),
            lambda: lab.store.retry("7-x", lab.now()),
        ):
            with pytest.raises(UnknownJob, match="7-x"):
                ask()
        assert lab.store.by_key("nothing") is None


# Keys


def test_the_same_key_is_the_same_job_until_its_verdict_and_after(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        one = lab.submit("a", key="k")
        assert lab.submit("b", key="k").job_id == one.job_id
        job = lab.claimed()
        assert lab.submit("c", key="k").job_id == one.job_id
        lab.complete(job, "verdict")
        assert lab.submit("d", key="k").result == "verdict"
        assert lab.claim() is None
        assert lab.store.health(lab.now()).attempts == 1


def test_a_job_that_was_cancelled_can_be_asked_for_again_and_a_dead_one_cannot(tmp_path: Path):
    with open_lab(tmp_path, max_attempts=1) as lab:
        one = lab.submit(key="k")
        lab.store.cancel(one.job_id, lab.now())
        two = lab.submit(key="k")
        assert two.job_id != one.job_id
        lab.fail(lab.claimed())
        assert lab.submit(key="k").job_id == two.job_id
        assert lab.state(two) == JobState.DEAD


# Attempts


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
        assert lab.store.place(job.job_id, lab.now()).reason is Waiting.BACKOFF
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
        return [tuple(row) for row in connection.execute("SELECT share, vtime FROM shares ORDER BY share")]
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


# What holds jobs back


def test_a_job_that_starts_later_is_in_nobodys_way_and_joins_the_end(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=1) as lab:
        later = lab.submit("a", start_after_s=60.0)
        assert lab.store.place(later.job_id, lab.now()).reason is Waiting.LATER
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
        assert lab.store.place(flood[1].job_id, lab.now()).reason is Waiting.SUBMITTER
        assert lab.store.place(races[1].job_id, lab.now()).reason is Waiting.KIND


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
        assert (place.position, place.reason) == (1, Waiting.SLOTS)
        lab.complete(first)
        assert lab.claimed().job_id == jobs[2].job_id


def test_a_rate_holds_starts_back_until_the_minute_is_over(tmp_path: Path):
    with open_lab(tmp_path, rate_limit=2) as lab:
        jobs = [lab.submit("a") for _ in range(3)]
        other = lab.submit("b")
        lab.complete(lab.claimed())
        lab.now(later_s=20)
        started = [lab.claimed().job_id for _ in range(2)]
        assert set(started) == {jobs[1].job_id, other.job_id}
        assert lab.claim() is None
        assert lab.store.place(jobs[2].job_id, lab.now()).reason is Waiting.RATE
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
        assert lab.store.place(job.job_id, now()).reason is Waiting.PAUSED
        assert lab.claim() is None
        lab.complete(running)
    with open_lab(tmp_path, now) as lab:
        assert lab.store.health(now()).paused
        assert lab.claim() is None
        lab.store.unpause(now())
        assert lab.claimed().job_id == job.job_id


def test_a_worker_takes_the_kinds_that_it_names(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit(kind=JobKind.COMMAND)
        assert lab.claim(kinds=ALL - {JobKind.COMMAND}) is None
        assert lab.claim(kinds={JobKind.COMMAND}) is not None


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
    with open_lab(tmp_path, rate_limit=2, queue_timeout=120.0) as lab:
        for _ in range(4):
            lab.submit("a")
        with pytest.raises(RateLimited) as refused:
            lab.submit("a")
        assert refused.value.retry_after_s == 30.0
        lab.claimed()
        lab.submit("a")


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


# Order


@pytest.mark.parametrize("strategy", Strategy)
def test_the_store_serves_by_its_strategy(tmp_path: Path, strategy: Strategy):
    with open_lab(tmp_path, strategy=strategy, max_concurrent=100) as lab:
        who = [("a", Priority.LOW), ("a", Priority.CRITICAL), ("a", Priority.NORMAL), ("b", Priority.NORMAL)]
        jobs = [lab.submit(name, priority=priority) for name, priority in who]
        told = [lab.store.place(job.job_id, lab.now()).position for job in jobs]
        claims = [lab.claimed().job_id for _ in jobs]
        served = [claims.index(job.job_id) + 1 for job in jobs]
        expected = {
            Strategy.FAIR: [4, 1, 3, 2],
            Strategy.FIFO: [1, 2, 3, 4],
            Strategy.PRIORITY: [4, 1, 2, 3],
        }
        assert served == told == expected[strategy]


@pytest.mark.parametrize("strategy", Strategy)
def test_equals_are_served_in_the_order_of_insertion_whatever_their_clocks_say(
    tmp_path: Path, strategy: Strategy
):
    with open_lab(tmp_path, strategy=strategy) as lab:
        first = lab.submit("a")
        lab.now(later_s=-5.0)  # looked at the clock before, and came to the line after
        second = lab.submit("a")
        assert [lab.store.place(job.job_id, lab.now()).position for job in (first, second)] == [1, 2]
        assert lab.claimed().job_id == first.job_id


def test_hints_change_the_order_of_the_strategy_priority(tmp_path: Path):
    hint = {"strategy": Strategy.PRIORITY, "priority_hint": "recently-improved", "max_concurrent": 1}
    with open_lab(tmp_path, **hint) as lab:
        lab.submit("a"), lab.submit("b")
        for winner in (None, "candidate"):
            lab.complete(lab.claimed(), json.dumps({"document": {"winner": winner}}))
        first, second = lab.submit("a"), lab.submit("b")
        assert [lab.claimed().job_id, lab.store.place(first.job_id, lab.now()).position] == [second.job_id, 1]


def test_a_hint_of_the_users_is_loaded_and_its_failures_stop_nothing(tmp_path: Path):
    with (
        pytest.raises(UsageError, match="cannot be loaded"),
        open_lab(tmp_path, strategy=Strategy.PRIORITY, priority_hint="no_such_module:hint"),
    ):
        pass
    with open_lab(tmp_path, strategy=Strategy.PRIORITY, priority_hint="json:loads") as lab:
        job = lab.submit()
        assert lab.claimed().job_id == job.job_id


# Figures


def test_health_comes_from_the_rows(tmp_path: Path):
    with open_lab(tmp_path, max_concurrent=2, max_attempts=1) as lab:
        jobs = [lab.submit() for _ in range(4)]
        first = lab.claimed()
        lab.now(later_s=10)
        lab.complete(first)
        lab.fail(lab.claimed(), fault="OUT_OF_MEMORY: too much")
        lab.claimed()
        lab.now(later_s=5)
        health = lab.store.health(lab.now())
        assert (health.depth, health.running, health.slots, health.attempts) == (1, 1, 2, 3)
        assert (health.waits.count, health.waits.p50_s, health.services.p95_s) == (1, 0.0, 10.0)
        assert health.oldest_s == 15.0
        assert health.last_error == "OUT_OF_MEMORY: too much"
        assert health.lease_ages_s == {jobs[2].job_id: 5.0}
        assert health.results == {"done": 1, "dead OUT_OF_MEMORY": 1}
        text = prometheus(health)
        assert 'codeflash_parallel_queue_ended_jobs_total{state="dead",code="OUT_OF_MEMORY"} 1\n' in text
        assert "codeflash_parallel_queue_lease_age_seconds 5\n" in text


def test_waits_are_counted_once_however_many_attempts_there_are(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit()
        lab.now(later_s=3)
        lab.fail(lab.claimed())
        lab.now(later_s=100)
        lab.complete(lab.claimed())
        assert lab.store.health(lab.now()).waits.p50_s == 3.0


def test_labels_stay_bounded_whatever_faults_say(tmp_path: Path):
    with open_lab(tmp_path, max_attempts=1) as lab:
        for number in range(60):
            lab.submit()
            lab.fail(lab.claimed(), fault=f"CODE_{number}: x" if number % 6 else f"no code {number}")
        results = lab.store.health(lab.now()).results
        assert sum(results.values()) == 60
        assert len(results) <= 42
        assert results["dead"] == 10
        assert results["dead OTHER"] >= 9


# Threads


def test_threads_may_share_a_store(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        errors: list[BaseException] = []

        def work(number: int) -> None:
            try:
                for _ in range(10):
                    lab.store.submit(request(f"{number} {_}"), lab.now())
                    lab.store.health(lab.now())
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(lab.store.jobs()) == 40


def request(key: str):
    from codeflash_parallel.model.jobs import JobRequest

    return JobRequest(kind=JobKind.CHECK, key=key, payload="{}", submitter="a")


def test_slots_default_to_what_the_machine_bears(tmp_path: Path):
    with Store.open(tmp_path, QueueSettings()) as store:
        assert store.slots >= 1


def test_the_counts_of_lanes_are_those_of_the_rows(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        for who in "aab":
            lab.submit(who)
        lab.complete(lab.claimed())
        lab.submit(start_after_s=5.0)
        lab.claimed()
    connection = sqlite3.connect(tmp_path / NAME)
    with connection:
        counted = connection.execute("SELECT SUM(queued), SUM(ready), SUM(running) FROM lanes").fetchone()
        assert counted == (2, 1, 1)
    connection.close()
