"""Virtual times, and the time for which attempts have run."""

from __future__ import annotations

from pathlib import Path

import pytest
from queue_lab import SetClock, open_lab

from codeflash_parallel.queue.jobs import Priority, Strategy
from codeflash_parallel.queue.metrics import prometheus


def vtimes(lab) -> dict[tuple[str, str], int]:
    with lab.store._database.reading():
        return {(s, name): vtime for s, name, vtime, *_ in lab.store._database.rows("SELECT * FROM accounts")}


def test_a_claim_is_charged_with_what_is_expected_and_then_with_what_was_measured(tmp_path: Path) -> None:
    with open_lab(tmp_path, weights={"a": 2.0}) as lab:
        lab.submit("a"), lab.submit("b")
        first, second = lab.claimed(), lab.claimed()
        assert set(vtimes(lab).values()) == {500_000, 1_000_000}
        lab.complete(first, cpu_s=8.0)
        lab.fail(second, machinery=True)
        assert vtimes(lab)["alone a", ""] == vtimes(lab)["alone a", "a"] == 4_000_000
        assert vtimes(lab)["alone b", "b"] == 0


def test_busy_time_counts_every_attempt_and_never_decreases(tmp_path: Path) -> None:
    now = SetClock()
    with open_lab(tmp_path, now) as lab:
        lab.submit("a"), lab.submit("b"), lab.submit("c")
        done, freed, runs = lab.claimed(), lab.claimed(), lab.claimed()
        now(later_s=5.0)
        assert lab.store.health(now()).busy_s == 15.0
        lab.complete(done)
        lab.store.release(freed.job_id, freed.fence, now())
        assert lab.store.health(now()).busy_s == 15.0
        now(later_s=2.0)
        assert lab.store.health(now()).busy_s == 17.0
        lab.store.cancel(runs.job_id, now())
        now(later_s=100.0)
        assert lab.store.health(now()).busy_s == 17.0


def test_busy_time_ends_with_the_lease_of_a_worker_that_died_unnoticed(tmp_path: Path) -> None:
    now = SetClock()
    with open_lab(tmp_path, now, lease=30.0) as lab:
        lab.submit("a")
        lab.claimed()
        now(later_s=1000.0)
        assert lab.store.health(now()).busy_s == 30.0
        lab.claimed()
        assert lab.store.health(now()).busy_s == 30.0


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
        assert 'codeflash_parallel_queue_ended_jobs{state="dead",code="OUT_OF_MEMORY"} 1\n' in text
        assert "codeflash_parallel_queue_lease_age_seconds 5\n" in text


def test_who_is_to_start_later_has_not_begun_to_wait(tmp_path: Path):
    with open_lab(tmp_path) as lab:
        lab.submit(start_after_s=100.0)
        lab.now(later_s=50)
        assert lab.store.health(lab.now()).oldest_s == 0.0
        lab.submit()
        assert lab.store.health(lab.now(later_s=5)).oldest_s == 5.0


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
