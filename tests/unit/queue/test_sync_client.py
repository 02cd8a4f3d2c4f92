"""The client's side of the connection, against daemons that are not there, do not answer, or answer nonsense."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import fake

from codeflash_parallel import (
    EnvironmentFault,
    EvalQueueClient,
    JobKind,
    JobState,
    UnknownJob,
)
from codeflash_parallel.queue.daemon_protocol import DaemonInfo, alive_line, answer_line
from codeflash_parallel.queue.jobs import JobRequest, WaitReason, now
from codeflash_parallel.queue.queue_errors import NoQueue, QueueFull
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store

REQUEST = JobRequest(kind=JobKind.CHECK, key="a" * 64, payload="{}", submitter="me")
INFO = DaemonInfo(pid=1, version="x", slots=1, slots_busy=0)

Calls = Callable[[EvalQueueClient], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "queue"
    made.mkdir(mode=0o700)
    return made


def code_of(call: Calls, folder: Path) -> str:
    with EvalQueueClient(folder) as client, pytest.raises(EnvironmentFault) as caught:
        call(client)
    return caught.value.code


def test_without_a_daemon_jobs_are_kept_and_nobody_waits(folder: Path) -> None:
    with EvalQueueClient(folder) as client:
        assert client.daemon is None
        future = client.submit(REQUEST)
        assert (future.receipt.is_new, future.receipt.place.reason) == (True, WaitReason.NO_DAEMON)
        assert not future.done()
        assert client.submit(REQUEST).job_id == future.job_id
        assert [(job.job_id, job.payload) for job in client.list(submitter="me")] == [(future.job_id, "")]
        assert client.list(submitter="you") == ()
        assert client.health().depth == 1
        client.pause()
        assert client.health().paused
        client.unpause()
        assert future.cancel()
        assert future.status().job.state is JobState.CANCELLED
        with pytest.raises(UnknownJob):
            client.job("none")
        other = client.submit(REQUEST)
        assert other.receipt.is_new
        with pytest.raises(TimeoutError):
            other.result(0.3)  # until its deadline, a daemon may be started
    assert code_of(lambda client: client.wait(other.job_id), folder) == "NO_DAEMON"


def test_who_only_looks_makes_no_queue(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    looks: list[Calls] = [
        lambda client: client.list(),
        lambda client: client.dead(),
        lambda client: client.health(),
        lambda client: client.metrics(),
        lambda client: client.status("1-a"),
        lambda client: client.wait("1-a", 60),
        lambda client: client.cancel("1-a"),
        lambda client: client.retry("1-a"),
        lambda client: client.unpause(),
    ]
    with EvalQueueClient(folder) as client:
        for look in looks:
            with pytest.raises(NoQueue, match="nowhere") as caught:
                look(client)
            assert caught.value.code == "NO_QUEUE"
        assert client.daemon is None
        assert not folder.exists()
        client.pause()
        assert client.health().paused


def test_a_silent_daemon_is_stalled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeflash_parallel.queue.daemon_protocol.STALLED_S", 0.1)
    with fake(folder, lambda _connection: None):
        calls: list[Calls] = [
            lambda client: client.daemon,
            lambda client: client.submit(REQUEST),
            lambda client: client.wait(client.list()[0].job_id, 60),
        ]
        assert [code_of(call, folder) for call in calls] == ["DAEMON_STALLED"] * 3


def _slowly(connection: socket.socket) -> None:
    connection.recv(4096)
    for _ in range(5):
        time.sleep(0.1)
        connection.sendall(alive_line())
    connection.sendall(answer_line(INFO))


def test_a_slow_daemon_that_says_so_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "codeflash_parallel.queue.daemon_protocol.STALLED_S", 0.4
    )  # less than the answer takes
    with fake(folder, _slowly), EvalQueueClient(folder) as client:
        assert client.daemon == INFO


def _leaves(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.close()


def test_a_daemon_that_goes_away_leaves_it_to_the_files(folder: Path) -> None:
    with fake(folder, _leaves), EvalQueueClient(folder) as client:
        assert client.submit(REQUEST).receipt.is_new
        assert client.daemon is None
    with EvalQueueClient(folder) as client:
        assert len(client.list()) == 1


def test_a_client_uses_the_rules_of_the_daemon_that_served_last(folder: Path) -> None:
    with EvalQueueClient(folder, QueueSettings(max_queue_size=5)) as client:
        assert client.submit(REQUEST).receipt.is_new
        with Store.open(folder, QueueSettings(max_queue_size=1, max_concurrent=7)) as store:
            store.serve(QueueSettings(max_queue_size=1, max_concurrent=7), ("DB_*",), now())
        with pytest.raises(QueueFull):
            client.submit(replace(REQUEST, key="b" * 64))
        assert client.health().slots == 7


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b'{"answer": 1}\n', b'{"else": 1}\n'])
def test_nonsense_is_a_fault(folder: Path, line: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(line)

    with fake(folder, answer):
        assert code_of(lambda client: client.daemon, folder) == "BAD_ANSWER"


def test_a_folder_that_is_a_file_is_unfit(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert code_of(lambda client: client.list(), tmp_path / "file") == "QUEUE_UNFIT"
