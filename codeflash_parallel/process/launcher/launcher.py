"""The evaluator's half of the launcher: the one way in which it starts children."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.child_connection import (
    ChildConnection,
    ControlChannel,
    ProcessMarkers,
)
from codeflash_parallel.process.launcher.fork_gate import no_pipes
from codeflash_parallel.process.launcher.fork_server import LauncherForkServer, start_fork_server
from codeflash_parallel.process.launcher.launcher_link import LauncherLink
from codeflash_parallel.process.launcher.launcher_orders import (
    adopt_order,
    kill_order,
    rest_order,
    start_order,
)
from codeflash_parallel.process.launcher.launcher_process import (
    ANSWER_S,
    LauncherProcess,
    start_launcher_process,
)
from codeflash_parallel.process.message_frames import Message, marker_of, tag_of
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessExit, ProcessLimits, Watch

#: A launcher starts in some 30 ms; a machine that needs this long is unfit for anything.
_START_S = 30.0
#: Rounds of killing what a dead launcher has left.
_ROUNDS = 20

#: Brings about the process of a connection: makes the pipes, hands them over, has it started or adopted.
Begin = Callable[[ChildConnection], Awaitable[None]]


@asynccontextmanager
async def open_launcher(process: LauncherProcess | None = None) -> AsyncIterator[Launcher]:
    """Open a launcher; leaving the block kills every job that still runs, and ends it.

    Args:
        process: one that was started earlier; it is stopped here all the same.

    Raises:
        InternalError: the launcher does not come up.
    """
    process = process or start_launcher_process()
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            launcher = Launcher(process, tasks)
            tasks.start_soon(launcher.listen)
            try:
                await launcher.ready()
                yield launcher
            except BaseException as error:
                failure = error
                raise
            finally:
                await launcher.leave()
    except BaseExceptionGroup:
        # The group is an accident of our own task group: callers get what their block raised.
        if failure is None:
            raise
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(process.stop)
    if failure is not None:
        raise failure


class Launcher:
    """Start children and tell how they end (a `ProcessRunner`). Made by `open_launcher`."""

    def __init__(self, process: LauncherProcess, tasks: TaskGroup) -> None:
        self._process = process
        self._tasks = tasks
        self._listening = anyio.CancelScope(shield=True)
        self._answered = anyio.Event()
        self._up = False
        self._link = LauncherLink(process)
        self._fault = ""
        self._top_tag = 0
        self._numbers = itertools.count(1)
        self._connections: dict[int, ChildConnection] = {}

    # --- Runner ----------------------------------------------------------------------------------------

    async def run(self, command: ChildCommand, /) -> ProcessExit:
        """Run a child to its end.

        What happens to the child is a value. Cancelling kills its whole tree before the cancellation goes
        on.

        Raises:
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        begin = partial(self._start, command, _pipes(command))
        return await self.follow(self.reserve(command.limits, watch=command.watch), begin)

    async def open(self, command: ChildCommand, /) -> ControlChannel:
        """Start a child with a control channel; its output is kept while it runs.

        Raises:
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        begin = partial(self._start, command, [*_pipes(command), "control"])
        return await self.hold(self.reserve(command.limits), begin)

    async def fork_server(self, command: ChildCommand, deadline_s: float, /) -> LauncherForkServer:
        """Start a bare interpreter from which children can be forked.

        Args:
            command: made by `guest_command` with `Control.LINES`, of a spec with the mode `forkserver`.
            deadline_s: how long it may take to come up.

        Raises:
            ServerGone: it does not come up.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        return await start_fork_server(self, command, deadline_s)

    # --- processes that somebody else starts -----------------------------------------------------------

    def reserve(
        self, limits: ProcessLimits, generation: int = 0, watch: Watch | None = None
    ) -> ChildConnection:
        """Return the connection of a process to be, for `follow` or `hold`.

        Args:
            limits: of the process and its descendants.
            generation: how many forks of templates lie between it and the launcher.
            watch: receives its records as they arrive.

        Raises:
            InternalError: the launcher is gone.
        """
        if self._link.gone.is_set():
            raise InternalError("LAUNCHER_DIED", f"The launcher process is gone: {self._fault}.")
        number = next(self._numbers)
        tag = tag_of(self._top_tag, number, generation)
        marks = ProcessMarkers(marker=marker_of(self._process.prefix, number), tag=tag)
        self._connections[number] = connection = ChildConnection(number, marks, limits, watch)
        return connection

    async def follow(self, connection: ChildConnection, begin: Begin) -> ProcessExit:
        """Have a process begun and follow it to its end, as `run` does."""
        try:
            await begin(connection)
            await connection.pump(partial(self._kill, connection))
            await connection.ended.wait()
        except OSError as error:
            raise no_pipes(error) from error
        finally:
            await self._finish(connection)
        return connection.close()

    async def hold(self, connection: ChildConnection, begin: Begin) -> ControlChannel:
        """Have a process begun and return its control channel, as `open` does."""
        try:
            await begin(connection)
            connection.pumping = True
            self._tasks.start_soon(connection.pump, partial(self._kill, connection))
            await connection.started.wait()
        except BaseException as error:
            await self._finish(connection)
            if isinstance(error, OSError):
                raise no_pipes(error) from error
            raise
        return ControlChannel(connection, self._finish)

    async def adopt(self, connection: ChildConnection, pid: int, gate: int) -> None:
        """Make a process, orphaned below the launcher, the main process of a connection; then let it go on.

        If it is gone, the connection has ended as `NOT_STARTED` when this returns.

        Args:
            gate: descriptor of the pipe on which it waits for `wire.GO`.
        """
        await self._link.send(adopt_order(connection, pid), [gate])
        connection.sent = True
        await connection.started.wait()

    async def rest(self, channel: ControlChannel) -> None:
        """Watch no longer what a process uses: from now on it only waits, and is forked."""
        await self._link.send(rest_order(channel.connection))

    # --- life of a job ---------------------------------------------------------------------------------

    async def _start(self, command: ChildCommand, pipes: list[str], connection: ChildConnection) -> None:
        connection.connect(pipes)
        await self._link.send(start_order(connection, command), list(connection.descriptors().values()))
        connection.sent = True
        connection.handed_over()

    async def _kill(self, connection: ChildConnection, why: str) -> None:
        await self._link.send(kill_order(connection, why))

    async def _finish(self, connection: ChildConnection) -> ProcessExit:
        """Kill the job if it still runs, wait for the report, and let go of it."""
        if connection.sent and not connection.ended.is_set():
            with anyio.move_on_after(ANSWER_S, shield=True):
                await self._kill(connection, "no longer needed")
                await connection.ended.wait()
        self._connections.pop(connection.number, None)
        with anyio.CancelScope(shield=True):
            await connection.drained()
        return connection.close()

    # --- the launcher's messages -----------------------------------------------------------------------

    async def listen(self) -> None:
        """Take the launcher's messages until it or we leave. Shielded: cancelled jobs need their reports."""
        with self._listening:
            async for message in self._link.messages():
                self._take(message)
            await self._settle_all()
            self._link.gone.set()
            self._answered.set()

    def _take(self, message: Message) -> None:
        match message["t"]:
            case "ready":
                self._up = True
                self._top_tag = message["top_tag"]
                self._answered.set()
            case "fault":
                self._fault = message["message"]
            case _ if (connection := self._connections.get(message["job"])) is not None:
                connection.note(message)

    async def _settle_all(self) -> None:
        """After the launcher's unexpected end: kill what it has left, and end every job."""
        self._fault = self._fault or "it was killed"
        await self._kill_marked()
        for connection in self._connections.values():
            message = "the launcher process died"
            connection.note({"t": "ended", "ended": ExitKind.KILLED, "message": message})

    async def _kill_marked(self) -> None:
        for _ in range(_ROUNDS):
            pids = process_table.marked(self._process.prefix)
            if not pids:
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.02)

    async def ready(self) -> None:
        """Wait until the launcher is up.

        Raises:
            InternalError: it does not come up.
        """
        with anyio.move_on_after(_START_S):
            await self._answered.wait()
        if not self._up:
            raise InternalError("LAUNCHER_DIED", f"The launcher process did not start: {self._fault}.")

    async def leave(self) -> None:
        """Kill every job that still runs, and end the launcher."""
        with anyio.move_on_after(ANSWER_S, shield=True):
            await self._link.send({"op": "quit"})
            await self._link.gone.wait()
        self._listening.cancel()
        for connection in tuple(self._connections.values()):
            await self._finish(connection)


def _pipes(command: ChildCommand) -> list[str]:
    asked = any("{records}" in argument for argument in command.argv)
    return ["stdout", "stderr", "records"] if asked else ["stdout", "stderr"]
