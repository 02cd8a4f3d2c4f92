"""Processes that use the queue and are stopped, or die."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from linearizable import check_history, record_history
from queue_children import child, said
from queue_lab import open_lab

from codeflash_parallel.queue.queue_errors import QueueBusy


def test_a_worker_stopped_beyond_its_lease_is_refused_when_it_goes_on(tmp_path: Path):
    body = """
        job = lab.claimed()
        print(job.job_id, flush=True)
        sys.stdin.readline()
        try:
            lab.complete(job, "too late")
        except Exception as error:
            print(error.code, flush=True)
    """
    from codeflash_parallel.queue.jobs import now

    with open_lab(tmp_path, now, lease=0.2, heartbeat=0.1) as lab:
        lab.submit()
    with child(tmp_path, body) as worker, open_lab(tmp_path, now, lease=0.2, heartbeat=0.1) as lab:
        name = said(worker)
        worker.send_signal(signal.SIGSTOP)
        lab.store._database.execute("UPDATE jobs SET lease_ms = 1")  # it has been stopped for long
        taken = lab.claimed()
        assert (taken.job_id, taken.fence) == (name, 2)
        lab.complete(taken, "in time")
        worker.send_signal(signal.SIGCONT)
        print(file=worker.stdin, flush=True)
        assert said(worker) == "LEASE_LOST"
        assert lab.store.job(name).result == "in time"


def test_a_process_that_dies_within_a_transaction_leaves_nothing_of_it(tmp_path: Path):
    body = """
        with lab.store._database.changing(now()):
            lab.store._lifecycle._insert(__import__("queue_lab").request("half"), "alone a", 5, now())
            print("inside", flush=True)
            sys.stdin.readline()
    """
    with open_lab(tmp_path) as lab:
        record_history(tmp_path)
        lab.submit()
    with child(tmp_path, body) as writer:
        assert said(writer) == "inside"
        writer.kill()
        writer.wait()
    with open_lab(tmp_path) as lab:
        assert len(lab.store.jobs()) == 1
        lab.submit()
    history = check_history(tmp_path)
    assert len(history.submitted) == 2
    assert "half" not in history.submitted.values()


def test_a_process_that_is_stopped_while_it_has_the_turn_holds_the_others_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("codeflash_parallel.queue.store.database._TURN_S", 0.05)
    script = f"""
import fcntl, sys
with open({str(tmp_path / "turns")!r}, "w") as turns:
    fcntl.flock(turns, fcntl.LOCK_EX)
    print("mine", flush=True)
    sys.stdin.readline()
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder,
        open_lab(tmp_path) as lab,
    ):
        assert said(holder) == "mine"
        holder.send_signal(signal.SIGSTOP)
        lab.submit()
        assert len(lab.store.jobs()) == 1
        holder.send_signal(signal.SIGKILL)


def test_the_file_held_by_one_that_is_stopped_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codeflash_parallel.queue.store.database._TURN_S", 0.05)
    monkeypatch.setattr("codeflash_parallel.queue.store.database._BUSY_S", 0.05)
    body = """
        with lab.store._database.changing(now()):
            print("inside", flush=True)
            sys.stdin.readline()
    """
    with open_lab(tmp_path) as lab, child(tmp_path, body) as writer:
        assert said(writer) == "inside"
        with pytest.raises(QueueBusy):
            lab.submit()
        assert lab.store.jobs() == ()
        print(file=writer.stdin, flush=True)
        writer.wait(30)
        lab.submit()


def test_two_that_open_at_once_make_one_queue(tmp_path: Path):
    body = """
        lab.store.submit(__import__("queue_lab").request(sys.argv[1] + str(__import__("os").getpid())), now())
        print("done", flush=True)
    """
    folder = tmp_path / "deep" / "queue"
    with child(folder, body) as one, child(folder, body) as two, child(folder, body) as three:
        assert [said(one), said(two), said(three)] == ["done"] * 3
    with open_lab(folder) as lab:
        assert len(lab.store.jobs()) == 3
    assert not list(folder.glob("*damaged*"))
