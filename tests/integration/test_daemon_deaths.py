"""Daemons that are killed while jobs run: a job that takes its daemon along shall not do so for ever."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from daemon_support import LONG_S, Place, project_place, until
from harness import processes_of
from queue_lab import SetClock, open_lab

from codeflash_parallel import JobState
from codeflash_parallel.queue.queue_errors import LeaseLost
from codeflash_parallel.queue.sync_client import EvalQueueClient

#: A candidate whose check goes on until it is killed, without using the processor.
HANGS = "import time\n\ndef total(values):\n    time.sleep(3600)  # {}\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with project_place(tmp_path, monkeypatch) as made:
        yield made


def killed_daemon(place: Place, running: int, *, crashes: int = 0, **settings: object) -> None:
    """Start a daemon, and kill it when so many jobs run that were lost so often.

    A job that a killed daemon ran is `running` until the next one, which serves already, has taken it back.
    """
    daemon = place.start(**settings)
    with place.client() as client:
        until(lambda: [job.crashes for job in client.list(states=(JobState.RUNNING,))] == [crashes] * running)
    daemon.kill()
    daemon.wait()


def names_running(client: EvalQueueClient) -> set[str]:
    return {job.submitter for job in client.list(states=(JobState.RUNNING,))}


def test_an_attempt_counts_whose_daemon_died_but_not_one_after_a_power_cut(tmp_path: Path) -> None:
    now = SetClock()
    with open_lab(tmp_path, now, max_attempts=2) as lab:
        first, second = lab.submit("a"), lab.submit("b")
        claimed = {job.submitter: job for job in (lab.claimed(), lab.claimed())}
        assert lab.store.abandon(first.job_id, claimed["a"].fence, now(later_s=5.0)) == JobState.QUEUED
        found = lab.store.job(first.job_id)
        assert (found.crashes, found.machinery_faults, found.fault[:11]) == (1, 0, "DAEMON_DIED")
        with pytest.raises(LeaseLost):
            lab.complete(claimed["a"])

        now.boot_id = "second start"
        assert lab.store.abandon(second.job_id, claimed["b"].fence, now()) == JobState.QUEUED
        found = lab.store.job(second.job_id)
        assert (found.crashes, found.machinery_faults, found.fault[:9]) == (0, 1, "MACHINE_R")

        again = lab.claimed()
        assert again.fault.startswith("DAEMON_DIED")  # whoever starts it can tell
        assert lab.store.abandon(again.job_id, again.fence, now()) == JobState.DEAD


@pytest.mark.slow
def test_a_job_whose_daemon_dies_each_time_is_dead_and_one_that_was_drained_is_not(place: Place) -> None:
    with place.client() as client:
        future = client.submit(place.request(HANGS))
        killed_daemon(place, 1, max_attempts=2)
        assert future.status().job.state is JobState.RUNNING
        killed_daemon(place, 1, crashes=1, max_attempts=2)
        last = place.start(max_attempts=2, drain_s=0.0)
        job = client.wait(future.job_id, LONG_S)
        assert (job.state, job.crashes, job.fault) == (
            JobState.DEAD,
            2,
            "DAEMON_DIED: the daemon died while it ran",
        )
        until(lambda: future.job_id in client.daemon.last_fault)
        until(lambda: future.job_id in place.results())
        assert place.results()[future.job_id]["state"] == "dead"

        client.retry(future.job_id)
        assert future.job_id not in place.results()  # until it ends again
        until(lambda: future.status().job.state is JobState.RUNNING)
        last.terminate()
        assert last.wait(LONG_S) == 0
        job = future.status().job
        assert (job.state, job.crashes) == (JobState.QUEUED, 0)


@pytest.mark.witness
@pytest.mark.slow
def test_a_stuck_worker_holds_up_no_cancel(place: Place) -> None:
    place.start()
    with place.client() as client:
        future = client.submit(place.request(HANGS))
        until(lambda: "behavior" in future.status().job.progress)
        (worker,) = client.daemon.workers
        os.kill(worker.pid, signal.SIGSTOP)
        begun = time.monotonic()
        assert future.cancel()
        assert (
            time.monotonic() - begun < 10.0
        )  # it is 0.7 s on an idle machine; a worker may take 15 s to drain
        assert not Path(f"/proc/{worker.pid}").exists()
        assert all("daemon" in str(one) for one in processes_of(place.cache))


@pytest.mark.witness
@pytest.mark.slow
def test_who_may_have_killed_a_daemon_runs_with_nobody_beside_it(place: Place) -> None:
    with place.client() as client:
        futures = {name: client.submit(place.request(HANGS.format(name), submitter=name)) for name in "ab"}
        killed_daemon(place, 2, max_concurrent=2)
        futures["c"] = client.submit(place.request(HANGS.format("c"), submitter="c"))
        place.start(max_concurrent=2)
        seen = []
        for _ in range(2):
            until(lambda: client.daemon.slots_busy > 0)  # it has sent both back before
            (name,) = names_running(client)
            assert client.daemon.slots_busy == 1
            assert futures[name].cancel()
            seen.append(name)
        assert "c" not in seen
