"""One job's way through the store, and its key."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from queue_lab import SetClock, open_lab, request

from codeflash_parallel.queue.jobs import JobState, Priority
from codeflash_parallel.queue.queue_errors import LeaseLost, UnknownJob
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.database import NAME, connect
from codeflash_parallel.queue.store.store import Store


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
        assert lab.submit(key=job.key) == done
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
        with pytest.raises(UnknownJob):
            lab.store.job("7-\udcff")  # as the command line gives what is no UTF-8


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


def test_slots_default_to_what_the_machine_bears(tmp_path: Path):
    with Store.open(tmp_path, QueueSettings()) as store:
        assert store.slots >= 1
