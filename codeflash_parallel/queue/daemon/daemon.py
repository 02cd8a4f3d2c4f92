"""The daemon: its parts are started one after the other and stopped in the opposite order."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.process.files import wait_for_lock
from codeflash_parallel.process.host_lock import host_quiet, token_holder
from codeflash_parallel.process.local_socket import peer_is_ours
from codeflash_parallel.queue.daemon.dispatcher import Dispatcher, Publication
from codeflash_parallel.queue.daemon.job_supervisor import ThreadedStore
from codeflash_parallel.queue.daemon.worker_pool import open_worker_pool
from codeflash_parallel.queue.daemon_protocol import (
    ALIVE_S,
    MAX_LINE,
    DaemonInfo,
    alive_line,
    answer_line,
    error_line,
    read_request,
    socket_of,
)
from codeflash_parallel.queue.jobs import now
from codeflash_parallel.queue.queue_errors import QueueDamaged
from codeflash_parallel.queue.queue_settings import SOCKET_NAME, QueueSettings
from codeflash_parallel.queue.store.database import DatabaseFileCheck, understood
from codeflash_parallel.queue.store.store import Store
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
    first_of,
)
from codeflash_parallel.workspace.cleanup import recover


class RequestHandler:
    """Answers calls on any number of connections."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._answers: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "ping": self._ping,
            "look": dispatcher.look,
            "wait": dispatcher.wait,
        }

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection until its client leaves; close it if it is another user's."""
        async with stream:
            if not peer_is_ours(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - it is no Django
                return
            buffered = BufferedByteReceiveStream(stream)
            try:
                while True:
                    await self._answer(stream, await buffered.receive_until(b"\n", MAX_LINE))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the client left while it was answered

    async def _answer(self, stream: SocketStream, line: bytes) -> None:
        async def send_heartbeats() -> None:
            while True:
                await anyio.sleep(ALIVE_S)
                await stream.send(alive_line())

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(send_heartbeats)
                answer = await self._answer_line(line)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as error:  # a heartbeat to a client that left
            raise first_of(error) from None
        await stream.send(answer)

    async def _answer_line(self, line: bytes) -> bytes:
        try:
            call, arguments = read_request(line)
            return answer_line(await self._answers[call](**arguments))
        except CodeflashParallelError as error:
            if isinstance(error, QueueDamaged):
                self._dispatcher.wake()  # it ends the daemon
            return error_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the daemon
            return error_line(InternalError("UNEXPECTED", f"{type(error).__name__}: {error}"))

    async def _ping(self) -> DaemonInfo:
        return self._dispatcher.info()._replace(token_holder=token_holder(os.environ))


#: The lock that says which process is the daemon of a folder; it holds that process's id.
_LOCK = "daemon.lock"
#: Clients that may wait to be accepted.
_BACKLOG = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeOptions:
    """Options of a daemon.

    Attributes:
        folder: of the queue; created for this user only if it does not exist.
        cache_dir: where workers keep mirrors, slots and results.
        pass_env: names and patterns of our variables that jobs may ask for, beside those that tests need.
        where: settings that say on which hosts jobs are evaluated; by default on this one.
        drain_s: seconds that running jobs may take to end when the daemon is to end.
        on_end: program and arguments of a command that is run when a job has ended; empty: none.
        on_ready: called once clients are answered.
    """

    folder: Path
    cache_dir: Path
    settings: QueueSettings = field(default_factory=QueueSettings)
    pass_env: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    drain_s: float = 60.0
    on_end: tuple[str, ...] = ()
    on_ready: Callable[[DaemonInfo], None] = lambda _info: None


def serve(options: ServeOptions) -> None:
    """Run jobs of a queue until SIGTERM or SIGINT: the first drains, the second ends the daemon at once.

    Raises:
        UsageError: `DAEMON_RUNNING`: there is one for this folder; `QUIET_UNUSABLE`.
        EnvironmentFault: the queue's files are unfit, or belong to another user.

    .. versionadded:: 0.1.0
    """
    anyio.run(_serve, options, backend="asyncio")


async def _serve(options: ServeOptions) -> None:
    try:
        async with open_daemon(options) as daemon:
            await daemon.run()
    except BaseExceptionGroup as group:
        raise first_of(group) from None


@dataclass(frozen=True, slots=True)
class Daemon:
    """A daemon that can be run; made by `open_daemon`."""

    options: ServeOptions
    dispatcher: Dispatcher
    handler: RequestHandler
    listener: Listener[SocketStream]

    async def run(self) -> None:
        """Serve until a signal ends it."""
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with anyio.create_task_group() as clients, anyio.create_task_group() as tasks:
                clients.start_soon(self.listener.serve, self.handler.serve)

                async def obey() -> None:
                    async for _signal in signals:
                        self.dispatcher.end()

                tasks.start_soon(obey)
                self.options.on_ready(self.dispatcher.info())
                await self.dispatcher.run()
                tasks.cancel_scope.cancel()
                clients.cancel_scope.cancel()


@asynccontextmanager
async def open_daemon(options: ServeOptions) -> AsyncIterator[Daemon]:
    """Start all parts of a daemon; if one cannot start, those before it are stopped."""
    folder, settings = options.folder, options.settings
    host_quiet(os.environ)  # where that fails, every worker would fail
    _own_folder(folder)
    with _daemon_lock(folder), Store.open(folder, settings, DatabaseFileCheck.FULL) as opened:
        opened.serve(settings, options.pass_env, now())
        store = ThreadedStore(opened)
        async with (
            _recovered_cache(options.cache_dir),
            open_worker_pool(
                folder, options.cache_dir, store.slots, options.pass_env, options.where
            ) as workers,
            _listening(folder) as listener,
        ):
            with understood(folder):
                publication = Publication(folder, workers, options.on_end)
            dispatcher = Dispatcher(store, workers, publication, settings, folder, options.drain_s)
            yield Daemon(options, dispatcher, RequestHandler(dispatcher), listener)


def _own_folder(folder: Path) -> None:
    """Create the folder, or make sure that it is ours; only we may use it."""
    with understood(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid == os.geteuid():
            folder.chmod(0o700)
            return
    hint = "Name another folder with --queue-dir."
    raise EnvironmentFault("NOT_YOUR_QUEUE", f"{folder} belongs to another user.", hint)


@contextmanager
def _daemon_lock(folder: Path) -> Iterator[None]:
    """Be the only daemon of the folder."""
    with understood(folder):
        lock = wait_for_lock(folder / _LOCK, 0.0)
    if lock is None:
        pid = (folder / _LOCK).read_text(encoding="ascii", errors="replace") or "unknown"
        message = f"Process {pid} is the daemon of {folder} already."
        raise UsageError("DAEMON_RUNNING", message, "Use that one, or end it first.")
    with lock:
        os.ftruncate(lock.fd, 0)
        os.pwrite(lock.fd, str(os.getpid()).encode("ascii"), 0)
        yield


@asynccontextmanager
async def _recovered_cache(cache: Path) -> AsyncIterator[None]:
    """Remove what dead workers have left in the cache: before those of other daemons, at the end our own."""
    await recover(cache)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await recover(cache)


@asynccontextmanager
async def _listening(folder: Path) -> AsyncIterator[Listener[SocketStream]]:
    """Listen to clients; we hold the lock, so a socket file that is there belongs to a dead daemon."""
    with understood(folder), socket_of(folder) as address:
        (folder / SOCKET_NAME).unlink(missing_ok=True)
        listener = await anyio.create_unix_listener(address, mode=0o600, backlog=_BACKLOG)
    try:
        async with listener:
            yield listener
    finally:
        (folder / SOCKET_NAME).unlink(missing_ok=True)
