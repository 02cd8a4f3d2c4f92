"""If any part of the daemon fails to start, what was started is stopped."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.queue.daemon import daemon
from codeflash_parallel.queue.daemon.daemon import ServeOptions, open_daemon
from codeflash_parallel.queue.errors import QueueDamaged
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.sync_client import EvalQueueClient
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

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
        tasks.cancel_scope.cancel()


async def test_a_file_that_is_damaged_is_refused(options: ServeOptions) -> None:
    async with open_daemon(options):
        pass
    (options.folder / "queue.sqlite3").write_bytes(b"this is no database" * 1000)
    with pytest.raises(QueueDamaged):
        async with open_daemon(options):
            pass
