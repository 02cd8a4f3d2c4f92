"""If any part of the daemon fails to start, what was started is stopped."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from queue_cases import DAEMON

from codeflash_parallel.queue import daemon_protocol
from codeflash_parallel.queue.daemon import daemon
from codeflash_parallel.queue.daemon.daemon import RequestHandler, ServeOptions, open_daemon
from codeflash_parallel.queue.daemon_protocol import DaemonInfo, ask_daemon, read_info, socket_of
from codeflash_parallel.queue.queue_errors import QueueDamaged, UnknownJob
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.sync_client import EvalQueueClient
from codeflash_parallel.result.errors import EnvironmentFault, InternalError, UsageError

pytestmark = pytest.mark.anyio

_PR_GET_CHILD_SUBREAPER = 37


@pytest.fixture
def anyio_backend() -> str:
    """The daemon has one event loop."""
    return "asyncio"


@pytest.fixture
def options(tmp_path: Path) -> ServeOptions:
    return ServeOptions(
        folder=tmp_path / "queue", cache_dir=tmp_path / "cache", settings=QueueSettings(max_concurrent=1)
    )


def is_subreaper() -> bool:
    found = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found), 0, 0, 0)
    return bool(found.value)


def descriptors() -> set[str]:
    """Return what of the queue is open in this process."""
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names are enough
    names = [str(link.readlink()) for link in links if os.path.lexists(link)]
    return {name for name in names if "/queue" in name}


PARTS = (
    "host_quiet", "_own_folder", "_daemon_lock", "Store", "Publication", "_recovered_cache", "open_worker_pool",
    "_listening", "Dispatcher", "RequestHandler",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
async def test_each_part_that_fails(
    options: ServeOptions, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fails(*_arguments: object) -> None:
        raise RuntimeError("no more")

    with monkeypatch.context() as patched:
        if part == "Store":
            patched.setattr(daemon.Store, "open", fails)
        else:
            patched.setattr(daemon, part, fails)
        with pytest.raises(RuntimeError, match="no more"):
            async with open_daemon(options):
                pytest.fail("it started")
    assert not (options.folder / "daemon.socket").exists()
    assert not is_subreaper()
    assert descriptors() == set()

    async with open_daemon(options):
        assert (options.folder / "daemon.socket").is_socket()
        assert is_subreaper()
    assert descriptors() == set()
    assert not is_subreaper()


async def test_a_second_one_is_refused_and_harms_nobody(options: ServeOptions) -> None:
    async with open_daemon(options):
        with pytest.raises(UsageError) as caught:
            async with open_daemon(options):
                pytest.fail("there are two")
        assert caught.value.code == "DAEMON_RUNNING"
        assert str(os.getpid()) in caught.value.message
        assert (options.folder / "daemon.socket").is_socket()
    async with open_daemon(options):
        pass


async def test_the_folder_is_made_ours_alone(options: ServeOptions) -> None:
    options.folder.mkdir(mode=0o755)
    async with open_daemon(options):
        assert stat.S_IMODE(options.folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((options.folder / "daemon.socket").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_the_folder_of_somebody_else_is_refused(options: ServeOptions) -> None:
    options.folder.mkdir()
    os.chown(options.folder, 1234, -1)
    with pytest.raises(EnvironmentFault) as caught:
        async with open_daemon(options):
            pytest.fail("it is not ours")
    assert caught.value.code == "NOT_YOUR_QUEUE"


async def test_a_long_path_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 200) / "queue"
    options = ServeOptions(folder=folder, cache_dir=tmp_path / "cache")
    async with open_daemon(options) as made, anyio.create_task_group() as tasks:
        tasks.start_soon(made.run)
        with EvalQueueClient(folder) as client:
            info = await anyio.to_thread.run_sync(lambda: client.daemon)
            assert info is not None
            assert info.pid == os.getpid()
        await anyio.wait_all_tasks_blocked()  # the connection's end is seen: cancelling meanwhile loses it
        tasks.cancel_scope.cancel()


async def test_a_file_that_is_damaged_is_refused(options: ServeOptions) -> None:
    async with open_daemon(options):
        pass
    (options.folder / "queue.sqlite3").write_bytes(b"this is no database" * 1000)
    with pytest.raises(QueueDamaged):
        async with open_daemon(options):
            pass


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
        await anyio.wait_all_tasks_blocked()  # the last connection's end is seen
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


@pytest.mark.slow
async def test_a_call_that_takes_long_shows_signs_of_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "ALIVE_S", 0.05)
    monkeypatch.setattr(daemon_protocol, "STALLED_S", 1.0)
    async with served(tmp_path):
        assert await ask(tmp_path, "wait", job_id="1-a", max_s=1.5) is None
