"""The client of the queue for asynchronous code."""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import pytest
from fake_daemon import fake

from codeflash_parallel import AsyncEvalQueueClient, EnvironmentFault, EvalQueueClient, JobKind
from codeflash_parallel.queue.daemon_protocol import alive_line
from codeflash_parallel.queue.jobs import JobRequest

REQUEST = JobRequest(kind=JobKind.CHECK, key="a" * 64, payload="{}", submitter="me")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "queue"
    made.mkdir(mode=0o700)
    return made


@pytest.mark.anyio
async def test_the_same_without_threads_of_one_s_own(folder: Path) -> None:
    async with AsyncEvalQueueClient(folder) as client:
        assert await client.daemon() is None
        future = await client.submit(REQUEST)
        with pytest.raises(EnvironmentFault) as caught:
            await future.result()
        assert caught.value.code == "NO_DAEMON"
        with pytest.raises(TimeoutError):
            await future.result(0.5)
        assert await future.cancel()
        assert await future.done()


@pytest.mark.anyio
async def test_a_silent_daemon_is_stalled_for_tasks_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("codeflash_parallel.queue.daemon_protocol.STALLED_S", 0.1)
    with fake(folder, lambda _connection: None):
        async with AsyncEvalQueueClient(folder) as client:
            for call in (client.daemon, lambda: client.submit(REQUEST), client.pause):
                with pytest.raises(EnvironmentFault) as caught:
                    await call()
                assert caught.value.code == "DAEMON_STALLED"


@pytest.mark.anyio
async def test_waiting_can_be_cancelled(folder: Path) -> None:
    def stays_alive(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(alive_line())

    with EvalQueueClient(folder) as before:
        job = before.submit(REQUEST)
    with fake(folder, stays_alive):
        async with AsyncEvalQueueClient(folder) as client:
            with anyio.move_on_after(0.2) as scope:
                await client.wait(job.job_id)
            assert scope.cancelled_caught
