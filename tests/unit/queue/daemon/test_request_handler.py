"""Answers of the daemon on its socket, with a dispatcher that does nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from queue_cases import DAEMON

from codeflash_parallel.queue import daemon_protocol
from codeflash_parallel.queue.daemon import request_handler
from codeflash_parallel.queue.daemon.request_handler import RequestHandler
from codeflash_parallel.queue.daemon_protocol import DaemonInfo, ask_daemon, read_info, socket_of
from codeflash_parallel.queue.errors import UnknownJob
from codeflash_parallel.result.errors import InternalError, UsageError

pytestmark = pytest.mark.anyio


class Dispatching:
    """A dispatcher that knows one job."""

    def info(self) -> DaemonInfo:
        return DAEMON

    async def look(self, job_id: str) -> None:
        if job_id == "none":
            raise UnknownJob(job_id=job_id)
        if job_id:
            raise ValueError("a defect")

    async def wait(self, job_id: str, max_s: float) -> None:
        await anyio.sleep(max_s)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[None]:
    with socket_of(folder) as address:
        listener = await anyio.create_unix_listener(address)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, RequestHandler(Dispatching()).serve)  # type: ignore[arg-type]
        yield
        group.cancel_scope.cancel()


async def ask(folder: Path, call: str, **arguments: object) -> object:
    return await anyio.to_thread.run_sync(partial(ask_daemon, folder, call, **arguments))


async def test_calls_are_answered_and_errors_are_raised(tmp_path: Path) -> None:
    async with served(tmp_path):
        assert read_info(await ask(tmp_path, "ping")).pid == DAEMON.pid
        assert await ask(tmp_path, "look", job_id="") is None
        with pytest.raises(UsageError) as refused:
            await ask(tmp_path, "look", job_id="none")
        assert refused.value.code == "UNKNOWN_JOB"
        with pytest.raises(InternalError, match="ValueError: a defect"):
            await ask(tmp_path, "look", job_id="1-a")
        with pytest.raises(UsageError) as refused:
            await ask(tmp_path, "bake")
        assert refused.value.code == "BAD_CALL"
    with pytest.raises(ConnectionError):
        await ask(tmp_path, "ping")


async def test_a_call_that_takes_long_shows_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_handler, "ALIVE_S", 0.05)
    monkeypatch.setattr(daemon_protocol, "STALLED_S", 1.0)
    async with served(tmp_path):
        assert await ask(tmp_path, "wait", job_id="1-a", max_s=1.5) is None
