"""The daemon: its parts, started one after the other and stopped in the opposite order."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import Listener, SocketStream

from codeflash_parallel.process.host_lock.reader_writer_lock import host_quiet
from codeflash_parallel.queue.client.daemon_connection import socket_of
from codeflash_parallel.queue.daemon.dispatcher import Dispatcher
from codeflash_parallel.queue.daemon.notifications import Notifications
from codeflash_parallel.queue.daemon.request_handler import RequestHandler
from codeflash_parallel.queue.daemon.result_files import ResultFiles
from codeflash_parallel.queue.daemon.store_threads import ThreadedStore
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.protocol.messages import DaemonInfo
from codeflash_parallel.queue.protocol.socket_path import SOCKET_NAME
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.database import understood
from codeflash_parallel.queue.store.store import DatabaseFileCheck, Store
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.run.state.fault_conversion import first_of
from codeflash_parallel.workspace.cleanup import recover

#: The lock that says which process is the daemon of a folder; it holds that process's number.
_LOCK = "daemon.lock"
#: Clients that may wait to be accepted.
_BACKLOG = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """What a daemon is told.

    Attributes:
        folder: of the queue; made, for nobody else, if it is not there.
        cache_dir: where workers keep mirrors, slots and results.
        pass_env: names and patterns of our own variables that jobs may ask for; no others reach candidates
            than those that tests commonly need.
        drain_s: how long jobs that run may go on when the daemon is to end.
        on_ready: called once clients are answered.
    """

    folder: Path
    cache_dir: Path
    settings: QueueSettings = field(default_factory=QueueSettings)
    pass_env: tuple[str, ...] = ()
    drain_s: float = 60.0
    on_ready: Callable[[DaemonInfo], None] = lambda _info: None


def serve(options: ServeOptions) -> None:
    """Take jobs from a queue until SIGTERM or SIGINT: the first one drains, the second one ends it at once.

    Raises:
        UsageError: `DAEMON_RUNNING`: there is one for this folder; `QUIET_UNUSABLE`.
        EnvironmentFault: the queue's files are unfit, or belong to somebody else.

    .. versionadded:: 0.1.0
    """
    anyio.run(_served, options, backend="asyncio")


async def _served(options: ServeOptions) -> None:
    try:
        async with open_daemon(options) as daemon:
            await daemon.run()
    except BaseExceptionGroup as group:
        raise first_of(group) from None


@dataclass(slots=True)
class Daemon:
    """The parts of a daemon as far as they have been started. Made by `open_daemon`."""

    options: ServeOptions
    notices: Notifications = field(default_factory=Notifications)
    store: Store = field(init=False)
    desk: ThreadedStore = field(init=False)
    files: ResultFiles = field(init=False)
    crew: WorkerPool = field(init=False)
    listener: Listener[SocketStream] = field(init=False)

    async def run(self) -> None:
        """Serve until a signal ends it."""
        dispatching = Dispatcher(
            self.desk, self.crew, self.notices, self.files, self.options.settings, self.options.drain_s
        )
        answering = RequestHandler(self.desk, self.notices, dispatching, self.options.pass_env)
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as clients, anyio.create_task_group() as tasks:
                clients.start_soon(self.listener.serve, answering.serve)

                async def obey() -> None:
                    async for _signal in signals:
                        dispatching.end()

                tasks.start_soon(obey)
                self.options.on_ready(dispatching.info())
                await dispatching.run()
                tasks.cancel_scope.cancel()
                clients.cancel_scope.cancel()


@asynccontextmanager
async def open_daemon(options: ServeOptions) -> AsyncIterator[Daemon]:
    """Start all parts of a daemon; where one cannot start, those before it are stopped, as at the end."""
    daemon = Daemon(options=options)
    async with AsyncExitStack() as stack:
        for part in PARTS:
            await stack.enter_async_context(part(daemon))
        yield daemon


# --- parts -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def _quiet(_daemon: Daemon) -> AsyncIterator[None]:
    """Refuse where every worker would: nothing is to be timed beside what we cannot keep away."""
    host_quiet(os.environ)
    yield


@asynccontextmanager
async def _folder(daemon: Daemon) -> AsyncIterator[None]:
    """Have a folder that is ours alone."""
    folder = daemon.options.folder
    with understood(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid == os.geteuid():
            folder.chmod(0o700)
    if status.st_uid != os.geteuid():
        hint = "Name another folder with --queue-dir."
        raise EnvironmentFault("NOT_YOUR_QUEUE", f"{folder} belongs to another user.", hint)
    yield


@asynccontextmanager
async def _lock(daemon: Daemon) -> AsyncIterator[None]:
    """Be the only daemon of the folder."""
    with understood(daemon.options.folder):
        handle = os.open(daemon.options.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.read(handle, 32).decode("ascii", "replace") or "unknown"
            message = f"Process {who} is the daemon of {daemon.options.folder} already."
            raise UsageError("DAEMON_RUNNING", message, "Use that one, or end it first.") from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode("ascii"), 0)
        yield
    finally:
        os.close(handle)


@asynccontextmanager
async def _store(daemon: Daemon) -> AsyncIterator[None]:
    """Open the queue, every page of it checked."""
    options = daemon.options
    opening = Store.open(options.folder, options.settings, DatabaseFileCheck.FULL)
    daemon.store = await anyio.to_thread.run_sync(opening.__enter__)
    daemon.desk = ThreadedStore(daemon.store)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(opening.__exit__, None, None, None)


@asynccontextmanager
async def _files(daemon: Daemon) -> AsyncIterator[None]:
    """Have a folder for result files."""
    with understood(daemon.options.folder):
        daemon.files = ResultFiles(daemon.options.folder)
    yield


@asynccontextmanager
async def _leftovers(daemon: Daemon) -> AsyncIterator[None]:
    """Remove what dead workers have left in the cache: those of daemons before us, at the end our own."""
    await recover(daemon.options.cache_dir)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await recover(daemon.options.cache_dir)


@asynccontextmanager
async def _crew(daemon: Daemon) -> AsyncIterator[None]:
    """Be able to start workers."""
    options, size = daemon.options, daemon.desk.slots
    async with WorkerPool.open(options.folder, options.cache_dir, size, options.pass_env) as daemon.crew:
        yield


@asynccontextmanager
async def _socket(daemon: Daemon) -> AsyncIterator[None]:
    """Listen to clients; a socket file that a killed daemon has left is in nobody's use: we hold the lock."""
    folder = daemon.options.folder
    with understood(folder), socket_of(folder) as address:
        (folder / SOCKET_NAME).unlink(missing_ok=True)
        daemon.listener = await anyio.create_unix_listener(address, mode=0o600, backlog=_BACKLOG)
    try:
        async with daemon.listener:
            yield
    finally:
        (folder / SOCKET_NAME).unlink(missing_ok=True)


#: In the order in which they are started.
PARTS: tuple[Callable[[Daemon], AbstractAsyncContextManager[None]], ...] = (
    *(_quiet, _folder, _lock, _store, _files, _leftovers, _crew, _socket),
)
