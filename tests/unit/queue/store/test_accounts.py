"""Virtual times, and the time for which attempts have run."""

from __future__ import annotations

from pathlib import Path

from queue_lab import SetClock, open_lab


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
