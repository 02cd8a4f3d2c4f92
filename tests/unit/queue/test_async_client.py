"""The client of the queue for asynchronous code."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_daemon import fake

from codeflash_parallel import (
    AsyncEvalQueueClient,
    EnvironmentFault,
    EvalQueueClient,
    Evaluator,
    JobKind,
    JobState,
    RaceMode,
    Replacement,
    RunResult,
    Settings,
    Submission,
    UsageError,
)
from codeflash_parallel.queue.async_client import _announce, evaluate_queued
from codeflash_parallel.queue.daemon_protocol import alive_line
from codeflash_parallel.queue.jobs import JobRequest
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.events import RunFinished
from codeflash_parallel.run.provider_requests import Providers

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
        job_id = (await client.submit(REQUEST)).job.job_id
        with pytest.raises(EnvironmentFault) as caught:
            await client.result(job_id)
        assert caught.value.code == "NO_DAEMON"
        with pytest.raises(TimeoutError):
            await client.result(job_id, 0.5)
        assert await client.cancel(job_id) is JobState.CANCELLED
        assert (await client.status(job_id)).job.state is JobState.CANCELLED


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


@pytest.mark.anyio
async def test_a_callable_cannot_repair_in_another_process(folder: Path) -> None:
    def repair(_request: object) -> None:
        return None

    provided: Any = Providers(repairer=repair)  # type: ignore[arg-type]
    candidate = Submission(id=CandidateId("c"), content=Replacement(code="x"))
    with pytest.raises(UsageError) as caught:
        await evaluate_queued(RaceMode.CHECK.value, folder, Settings(), [candidate], provided, ())
    assert (caught.value.code, "repair_command" in caught.value.hint) == ("QUEUE_NEEDS_COMMAND", True)


def test_observers_are_told_the_end_of_the_run() -> None:
    events: list[object] = []
    result = RunResult(run_id="r", complete=True)
    _announce(result, [events.append])
    assert events == [RunFinished(run_id="r", result=result)]


@pytest.mark.anyio
async def test_a_run_is_gone_on_with_in_this_process_only(folder: Path) -> None:
    async with Evaluator(folder, Settings(executor="queue", queue_dir=str(folder))) as evaluator:
        with pytest.raises(UsageError, match='executor = "local"') as caught:
            await evaluator.resume("20260101-000000-abcdef")
    assert caught.value.code == "QUEUE_CANNOT_RESUME"
