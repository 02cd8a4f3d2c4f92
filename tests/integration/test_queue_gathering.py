"""Several that hand in at once: one of them does it for all, and each gets its own answer."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from linearizable import check_journal
from queue_children import child, said
from queue_lab import open_lab

from codeflash_parallel.evalqueue import gathering, intake
from codeflash_parallel.evalqueue.clock import now
from codeflash_parallel.evalqueue.database import Database
from codeflash_parallel.evalqueue.gathering import ask, leading
from codeflash_parallel.evalqueue.handover import turn
from codeflash_parallel.evalqueue.refusals import QueueUnfit, SubmitterLimit
from codeflash_parallel.evalqueue.store import Check
from codeflash_parallel.model.jobs import Budget, JobKind, JobRequest, JobState, Priority, Receipt

TERMS = b"terms "
LONG_S = 60.0

#: A process that hands in, and says so when it can be asked and when it has done it.
LEADER = """
    from codeflash_parallel.evalqueue import database, gathering, intake
    database.TURN_S = 60.0
    write, receipts = gathering._write, intake.Intake._receipts
    def leads(*args):
        write(*args)
        print("leads", flush=True)
    def done(*args):
        print("done", flush=True)
        sys.stdin.readline()
        return receipts(*args)
    gathering._write, intake.Intake._receipts = leads, done
    print("open", flush=True)
    sys.stdin.readline()
    lab.store.submit(__import__("queue_lab").request("the leader's"), now())
"""


@dataclass
class Crowd:
    """Threads that hand in, each at a queue that it has opened itself."""

    folder: Path
    pool: ThreadPoolExecutor
    leads: threading.Semaphore
    follows: threading.Semaphore
    changes: Counter[str] = field(default_factory=Counter)

    def lead(self, wanted: JobRequest, **settings: Any) -> Future[Receipt]:
        """Let one hand in, and return when others can put down something with it."""
        told = self._submit(wanted, settings)
        assert self.leads.acquire(timeout=LONG_S)
        return told

    def follow(self, wanted: JobRequest, **settings: Any) -> Future[Receipt]:
        """Let one hand in, and return when it has put that down."""
        told = self._submit(wanted, settings)
        assert self.follows.acquire(timeout=LONG_S)
        return told

    def _submit(self, wanted: JobRequest, settings: dict[str, Any]) -> Future[Receipt]:
        def handed_in() -> Receipt:
            with open_lab(self.folder, now, Check.HEADER, **settings) as lab:
                return lab.store.submit(wanted, now())

        return self.pool.submit(handed_in)


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    with ThreadPoolExecutor(max_workers=8) as pool:
        made = Crowd(tmp_path / "queue", pool, threading.Semaphore(0), threading.Semaphore(0))
        answer, write, changing = gathering._answer, gathering._write, Database.changing

        def told_follows(*args: Any) -> bytes | None:
            made.follows.release()
            return answer(*args)

        def told_leads(*args: Any) -> None:
            write(*args)
            made.leads.release()

        def counted(*args: Any) -> Any:
            made.changes["changes"] += 1
            return changing(*args)

        with open_lab(made.folder):
            pass
        monkeypatch.setattr(intake, "TURN_S", LONG_S)
        monkeypatch.setattr("codeflash_parallel.evalqueue.database.TURN_S", LONG_S)
        monkeypatch.setattr(gathering, "_answer", told_follows)
        monkeypatch.setattr(gathering, "_write", told_leads)
        monkeypatch.setattr(Database, "changing", counted)
        yield made


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Have the turn, so that others wait for theirs."""
    with turn(folder / "turns", 1.0):
        yield


@contextmanager
def held_for(folder: Path, leader: subprocess.Popen[str]) -> Iterator[None]:
    """Have the turn while a process has begun to lead, and waits for it."""
    assert said(leader) == "open"
    with held(folder):
        print(file=leader.stdin, flush=True)
        assert said(leader) == "leads"
        yield


def wanted(key: str, **more: Any) -> JobRequest:
    return JobRequest(**{"kind": JobKind.CHECK, "key": key, "payload": "{}", "submitter": key, **more})


def test_those_who_wait_are_one_change_and_each_has_its_receipt(crowd: Crowd):
    with held(crowd.folder):
        told = [crowd.lead(wanted("0"))]
        told += [crowd.follow(wanted(str(n), run="r", priority=Priority.LOW)) for n in range(1, 6)]
    receipts = [one.result(LONG_S) for one in told]
    assert crowd.changes["changes"] == 1
    assert [receipt.job.key for receipt in receipts] == list("012345")
    assert [receipt.job.number for receipt in receipts] == [1, 2, 3, 4, 5, 6]
    assert all(receipt.is_new for receipt in receipts)
    with open_lab(crowd.folder) as lab:
        for receipt in receipts:
            assert lab.store.job(receipt.job.job_id) == receipt.job
            assert lab.store.place(receipt.job.job_id, now()) == receipt.place
    assert len(check_journal(crowd.folder).submitted) == 6


def test_equal_keys_that_come_together_are_one_job(crowd: Crowd):
    with held(crowd.folder):
        told = [crowd.lead(wanted("same")), crowd.follow(wanted("same")), crowd.follow(wanted("same"))]
    receipts = [one.result(LONG_S) for one in told]
    assert len({receipt.job.job_id for receipt in receipts}) == 1
    assert [receipt.is_new for receipt in receipts] == [True, False, False]


def test_one_that_is_refused_is_told_itself_and_changes_nothing_for_the_others(crowd: Crowd):
    limit = {"per_submitter_queued": 1}
    with held(crowd.folder):
        told = [crowd.lead(wanted("a"), **limit)]
        told += [crowd.follow(wanted(key), **limit) for key in ("b", "c")]
        refused = crowd.follow(wanted("b again", submitter="b", budget=Budget(jobs=3)), **limit)
    assert all(one.result(LONG_S).is_new for one in told)
    with pytest.raises(SubmitterLimit) as raised:
        refused.result(LONG_S)
    assert raised.value.submitter == "b"
    with open_lab(crowd.folder) as lab:
        assert lab.store._database.number("SELECT SUM(budget_jobs) FROM shares") == 0
        assert len(lab.store.jobs()) == len(told)


def test_a_leader_that_is_refused_hands_in_for_the_others(crowd: Crowd):
    limit = {"per_submitter_queued": 1}
    crowd.lead(wanted("first", submitter="a"), **limit).result(LONG_S)
    with held(crowd.folder):
        refused, taken = crowd.lead(wanted("2", submitter="a"), **limit), crowd.follow(wanted("3"), **limit)
    assert taken.result(LONG_S).is_new
    with pytest.raises(SubmitterLimit):
        refused.result(LONG_S)
    assert crowd.changes["changes"] == 2


def test_who_goes_by_other_settings_hands_in_by_itself(crowd: Crowd):
    with held(crowd.folder):
        told = [crowd.lead(wanted("a")), crowd.lead(wanted("b"), max_queue_size=7)]
    assert all(one.result(LONG_S).is_new for one in told)
    assert crowd.changes["changes"] == 2


def test_what_is_too_long_for_a_packet_is_handed_in_alone(crowd: Crowd):
    long = wanted("b", payload="x" * 200_000)
    with held(crowd.folder):
        told = [crowd.lead(wanted("a")), crowd.lead(long)]
    assert [one.result(LONG_S).job.payload for one in told] == ["{}", long.payload]


def test_a_result_too_long_for_a_packet_is_looked_up(crowd: Crowd):
    with open_lab(crowd.folder, now) as lab:
        lab.submit(key="known")
        lab.complete(lab.claimed(), "x" * 200_000)
    with held(crowd.folder):
        crowd.lead(wanted("a"))
        told = crowd.follow(wanted("known"))
    receipt = told.result(LONG_S)
    assert (receipt.is_new, len(receipt.job.result)) == (False, 200_000)


def test_who_waits_for_one_that_is_killed_hands_in_by_itself(crowd: Crowd):
    with child(crowd.folder, LEADER) as leader, held_for(crowd.folder, leader):
        told = [crowd.follow(wanted("a")), crowd.follow(wanted("b"))]
        leader.kill()
        leader.wait()
    assert all(one.result(LONG_S).is_new for one in told)
    assert sorted(check_journal(crowd.folder).submitted.values()) == ["a", "b"]


@pytest.mark.parametrize("end", [JobState.QUEUED, JobState.CANCELLED])
def test_what_a_leader_has_done_before_it_was_killed_is_not_done_again(crowd: Crowd, end: JobState):
    with child(crowd.folder, LEADER) as leader:
        with held_for(crowd.folder, leader):
            told = crowd.follow(wanted("a"))
        assert said(leader) == "done"
        with open_lab(crowd.folder, now) as lab:
            done = lab.store.by_key("a")
            assert done is not None
            if end is JobState.CANCELLED:
                lab.store.cancel(done.job_id, now())
        leader.kill()
    receipt = told.result(LONG_S)
    assert (receipt.job.job_id, receipt.is_new, receipt.job.state) == (done.job_id, True, end)
    assert sorted(check_journal(crowd.folder).submitted.values()) == ["a", "the leader's"]


def test_who_does_not_wait_any_more_is_not_handed_in(crowd: Crowd, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(intake, "TURN_S", 0.05)
    monkeypatch.setattr("codeflash_parallel.evalqueue.database.TURN_S", 0.05)
    with child(crowd.folder, LEADER) as leader:
        with held_for(crowd.folder, leader):
            leader.send_signal(signal.SIGSTOP)
            told = crowd.follow(wanted("a"))
        receipt = told.result(LONG_S)
        with open_lab(crowd.folder, now) as lab:
            lab.store.cancel(receipt.job.job_id, now())
        leader.send_signal(signal.SIGCONT)
        assert said(leader) == "done"
    assert receipt.is_new
    with open_lab(crowd.folder) as lab:
        states = [(job.key, job.state) for job in lab.store.jobs()]
    assert states == [("the leader's", JobState.QUEUED), ("a", JobState.CANCELLED)]


def test_nonsense_is_not_answered_and_does_no_harm(crowd: Crowd):
    with held(crowd.folder):
        told = crowd.lead(wanted("a"))
        written = (crowd.folder / "submitting").read_bytes()
        name = b"\0" + written.partition(b"\0")[2].rstrip(b"\n")
        strangers = [put(name, text) for text in (b"nonsense", b"[1, 2]", b'{"kind": 1}')]
    assert told.result(LONG_S).is_new
    for stranger in strangers:
        with stranger:
            assert stranger.recv(10) == b""
    assert check_journal(crowd.folder).submitted == {1: "a"}


def put(name: bytes, text: bytes) -> socket.socket:
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stranger.connect(name)
    stranger.send(text)
    return stranger


def test_somebody_elses_process_is_neither_asked_nor_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "submitting"
    with leading(path, TERMS) as leader:
        name = gathering._leader(path, TERMS)
        with put(name, b"wanted"):
            monkeypatch.setattr(gathering.os, "geteuid", lambda: 12345)
            assert ask(path, TERMS, lambda: b"wanted", 5.0) is None
            assert leader.gather() == []


def test_who_comes_too_late_is_told_so(tmp_path: Path):
    path = tmp_path / "submitting"
    with leading(path, TERMS) as leader:
        assert leader.gather() == []
        assert ask(path, TERMS, lambda: b"wanted", 5.0) is None
    assert ask(path, TERMS, lambda: b"wanted", 5.0) is None
    assert ask(tmp_path / "none", TERMS, lambda: b"wanted", 5.0) is None


def test_what_was_not_read_was_not_done(tmp_path: Path):
    path = tmp_path / "submitting"
    with leading(path, TERMS):
        asking = put(gathering._leader(path, TERMS), b"wanted")
    with asking:
        assert gathering._answer(asking, 5.0) is None


def test_a_name_left_over_leads_into_no_other_queue(crowd: Crowd, tmp_path: Path):
    other = replace(crowd, folder=tmp_path / "other")
    other.lead(wanted("b")).result(LONG_S)
    terms = (other.folder / "submitting").read_bytes().partition(b"\0")[0]
    with held(crowd.folder):
        told = [crowd.lead(wanted("a"))]
        name = (crowd.folder / "submitting").read_bytes().partition(b"\0")[2]
        (other.folder / "submitting").write_bytes(terms + b"\0" + name)
        told.append(other.follow(wanted("c")))
    assert all(one.result(LONG_S).is_new for one in told)
    assert check_journal(crowd.folder).submitted == {1: "a"}
    assert check_journal(other.folder).submitted == {1: "b", 2: "c"}


@pytest.mark.parametrize(
    "bad",
    [
        {"start_after_s": float("inf")},
        {"start_after_s": 1e30},
        {"start_after_s": "soon"},
        {"run": "\udcff"},
        {"submitter": ["b"]},
        {"payload": None},
    ],
)
def test_what_cannot_be_written_is_the_fault_of_its_own_submitter(crowd: Crowd, bad: dict[str, Any]):
    with held(crowd.folder):
        told = [crowd.lead(wanted("a"))]
        unfit = crowd.follow(wanted("b", **bad))
        told.append(crowd.follow(wanted("c")))
    assert all(one.result(LONG_S).is_new for one in told)
    assert isinstance(unfit.exception(LONG_S), (ValueError, TypeError, OverflowError, sqlite3.Error))
    assert sorted(check_journal(crowd.folder).submitted.values()) == ["a", "c"]


def test_nesting_without_end_is_no_slip(crowd: Crowd):
    with held(crowd.folder):
        told = crowd.lead(wanted("a"))
        terms, _, name = (crowd.folder / "submitting").read_bytes().partition(b"\0")
        stranger = put(b"\0" + name.rstrip(b"\n"), terms + b"[" * 90_000)
    with stranger:
        assert told.result(LONG_S).is_new
        assert stranger.recv(10) == b""


@pytest.mark.parametrize(("make", "why"), [(os.mkdir, "Is a directory"), (os.mkfifo, "No such device")])
def test_what_is_no_file_in_the_place_of_the_name_is_said(tmp_path: Path, make: Any, why: str):
    with open_lab(tmp_path) as lab:
        make(tmp_path / "submitting")
        with pytest.raises(QueueUnfit, match=f"submitting: {why}"):
            lab.submit()


def test_who_has_left_has_left_where_a_fork_has_the_socket_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answer, copies = gathering._answer, list[socket.socket]()

    def copied(mine: socket.socket, longest_s: float) -> bytes | None:
        copies.append(mine.dup())
        return answer(mine, longest_s)

    monkeypatch.setattr(gathering, "_answer", copied)
    path = tmp_path / "submitting"
    with leading(path, TERMS) as leader:
        assert ask(path, TERMS, lambda: b"wanted", 0.0) == b""
        with copies[0]:
            assert leader.gather() == []


def test_who_is_let_go_of_is_told_so_where_a_fork_has_the_sockets_too(tmp_path: Path):
    path = tmp_path / "submitting"
    with leading(path, TERMS) as leader:
        name = gathering._leader(path, TERMS)
        with put(name, TERMS + b"wanted") as asking, leader._listening.dup():
            (follower,) = leader.gather()
            assert ask(path, TERMS, lambda: b"wanted", LONG_S) is None
            with follower._connection.dup():
                leader.close()
                asking.settimeout(LONG_S)
                assert asking.recv(10) == b""
