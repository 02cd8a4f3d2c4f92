"""The evaluator's half of the launcher: its process, the orders to it, and the life of each child."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

import codeflash_parallel
from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.child_connection import (
    ChildConnection,
    ControlChannel,
    ForkGate,
    ProtocolError,
    no_pipes,
)
from codeflash_parallel.process.machine import LEAST_DESCRIPTORS, too_few_descriptors
from codeflash_parallel.process.message_channel import MessageChannel
from codeflash_parallel.process.message_frames import (
    CONTROL_FD,
    RECORDS_FD,
    Message,
    marker_of,
    portable,
    tag_of,
)
from codeflash_parallel.process.supervisor.supervised_job import KILL_S
from codeflash_parallel.result.errors import EnvironmentFault, InternalError
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import (
    ChannelClosed,
    ChildCommand,
    ProcessExit,
    ProcessLimits,
    ServerGone,
    Watch,
)

#: The launcher's program. Isolated and without site-packages it starts in a few milliseconds, stays small (a
#: small process forks fast) and is the same whatever the user's environment says. It imports its half of this
#: package, which needs the standard library only; our folder comes last, so that nothing in it hides that
#: library.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.process.supervisor.supervisor_loop import main; main()"
)
#: A launcher starts in some 30 ms; a machine that needs this long is unfit for anything.
_START_S = 30.0
#: The launcher reports a tree as unkillable after `KILL_S`; it is stuck itself when nothing comes by then.
_ANSWER_S = KILL_S + 3.0
#: A fork and its adoption take some milliseconds; a template that needs this long is stuck.
_FORK_S = 10.0
#: Where a template looks for the gate among the descriptors that come with an order: after the outputs.
_GATE_AT = 3
#: The pipes of a fork of a bare interpreter.
_FORK_PIPES = ("stdout", "stderr", "records", "control")
#: Rounds of killing what a dead launcher has left.
_ROUNDS = 20

#: Brings about the process of a connection: makes the pipes, hands them over, has it started or adopted.
Begin = Callable[[ChildConnection], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LauncherProcess:
    """A launcher that runs.

    Attributes:
        popen: the process.
        link: our end of the socket pair.
        prefix: what the markers of its jobs start with; unique on this host.
    """

    popen: subprocess.Popen[bytes]
    link: socket.socket
    prefix: str

    def stop(self) -> None:
        """End it, and every job it has; blocks for as long as the killing takes (2 s at most)."""
        self.link.close()
        try:
            self.popen.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def start_launcher_process() -> LauncherProcess:
    """Start a launcher.

    Raises:
        EnvironmentFault: the machine cannot start a process, or too few files may be open for one.
    """
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < LEAST_DESCRIPTORS and allowed != resource.RLIM_INFINITY:
        raise too_few_descriptors(f"the limit is {allowed}")
    home = Path(codeflash_parallel.__file__).resolve().parent.parent
    ours, theirs = socket.socketpair()
    with theirs:
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, str(home), str(theirs.fileno())]
        try:
            popen = subprocess.Popen(
                [*argv, str(os.getpid())],
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            ours.close()
            raise EnvironmentFault("CANNOT_START_PROCESS", f"No process can be started: {error}.") from error
    return LauncherProcess(popen=popen, link=ours, prefix=f"{secrets.token_hex(8)}-")


@asynccontextmanager
async def open_launcher() -> AsyncIterator[Launcher]:
    """Open a launcher; leaving the block kills every job that still runs, and ends it.

    Its process comes up meanwhile: the first child waits for it, and is told if it does not.

    Raises:
        EnvironmentFault: as `start_launcher_process`.
    """
    process = start_launcher_process()
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            launcher = Launcher(process, tasks)
            tasks.start_soon(launcher.listen)
            try:
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
    """Start children and tell how they end. Made by `open_launcher`."""

    def __init__(self, process: LauncherProcess, tasks: TaskGroup) -> None:
        self._process = process
        self._tasks = tasks
        self._listening = anyio.CancelScope(shield=True)
        self._answered = anyio.Event()
        self._up = False
        self._channel = MessageChannel(process.link)
        #: Set once the launcher's messages have ended and every job is settled.
        self._gone = anyio.Event()
        self._fault = ""
        self._top_tag = 0
        self._numbers = itertools.count(1)
        self._connections: dict[int, ChildConnection] = {}

    @property
    def memory_bytes(self) -> int:
        """Resident memory of the launcher and of all that it has started, shared pages divided."""
        pid = self._process.popen.pid
        found = [pid, *(entry.pid for entry in process_table.descendants(pid))]
        return sum(map(process_table.proportional_bytes, found))

    # --- Runner ----------------------------------------------------------------------------------------

    async def run(self, command: ChildCommand, /) -> ProcessExit:
        """Run a child to its end.

        What happens to the child is a value. Cancelling kills its whole tree before the cancellation goes
        on.

        Raises:
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        await self._ready()
        begin = partial(self._start, command, _pipes(command))
        return await self.follow(self.reserve(command.limits, watch=command.watch), begin)

    async def open(self, command: ChildCommand, /) -> ControlChannel:
        """Start a child with a control channel; its output is kept while it runs.

        Raises:
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        await self._ready()
        begin = partial(self._start, command, [*_pipes(command), "control"])
        return await self.hold(self.reserve(command.limits), begin)

    async def fork_server(self, command: ChildCommand, deadline_s: float, /) -> LauncherForkServer:
        """Start a bare interpreter from which children can be forked.

        Args:
            command: made by `start_command` with `Control.LINES`, of a spec with the mode `forkserver`.
            deadline_s: how long it may take to come up.

        Raises:
            ServerGone: it does not come up.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        channel = await self.open(command)
        try:
            await channel.receive_message(deadline_s, "ready")
            await self.rest(channel)
        except (ChannelClosed, TimeoutError, ProtocolError) as error:
            message = f"The fork server does not come up: {error}."
            raise ServerGone(message, await channel.close()) from error
        except BaseException:
            await channel.close()
            raise
        return LauncherForkServer(self, channel)

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
        if self._gone.is_set():
            raise InternalError("LAUNCHER_DIED", f"The launcher process is gone: {self._fault}.")
        number = next(self._numbers)
        tag = tag_of(self._top_tag, number, generation)
        marker = marker_of(self._process.prefix, number)
        self._connections[number] = connection = ChildConnection(number, marker, tag, limits, watch)
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
            gate: descriptor of the pipe on which it waits for `message_frames.GO`.
        """
        await self._send({**_order("adopt", connection), "pid": pid}, [gate])
        connection.sent = True
        await connection.started.wait()

    async def fork(
        self, template: ControlChannel, order: Message, gate: ForkGate, connection: ChildConnection
    ) -> None:
        """Have a template fork a process for a connection, adopt it, and let it go on.

        Args:
            order: the template's own part of it.

        Raises:
            ChannelClosed, TimeoutError: the template is gone, or stuck.
            ProtocolError: it has not forked.
        """
        order = {"op": "fork", "marker": connection.marker, "tag": connection.tag, **order}
        ends = list(connection.descriptors().values())
        ends.insert(_GATE_AT, gate.entrance)
        with anyio.fail_after(_FORK_S):
            await template.send(json.dumps(order).encode(), ends)
            answer = await template.receive_message(_FORK_S, "forked")
            if not isinstance(pid := answer.get("pid"), int):
                raise ProtocolError(f"it answers {answer}")
            connection.handed_over()
            await self.adopt(connection, pid, gate.key)

    async def rest(self, channel: ControlChannel) -> None:
        """Watch no longer what a process uses: from now on it only waits, and is forked."""
        await self._send({"op": "rest", "job": channel.connection.number})

    # --- life of a job ---------------------------------------------------------------------------------

    async def _start(self, command: ChildCommand, pipes: list[str], connection: ChildConnection) -> None:
        connection.connect(pipes)
        ends = connection.descriptors()
        order = {
            **_order("start", connection),
            "argv": [portable(_numbered(argument)) for argument in command.argv],
            "cwd": portable(str(command.cwd)),
            "environment": {portable(k): portable(v) for k, v in command.environment.items()},
            "descriptors": list(ends),
        }
        await self._send(order, list(ends.values()))
        connection.sent = True
        connection.handed_over()

    async def _kill(self, connection: ChildConnection, why: str) -> None:
        await self._send({"op": "kill", "job": connection.number, "why": why})

    async def _send(self, order: Message, descriptors: Sequence[int] = ()) -> None:
        """Send one order whole, or not at all."""
        if self._gone.is_set():
            return
        try:
            await self._channel.send(order, descriptors, _ANSWER_S)
        except ConnectionError:
            await self._gone.wait()  # the listener sees the same end and settles every job
        except TimeoutError:
            self._process.popen.kill()

    async def _finish(self, connection: ChildConnection) -> ProcessExit:
        """Kill the job if it still runs, wait for the report, and let go of it."""
        if connection.sent and not connection.ended.is_set():
            with anyio.move_on_after(_ANSWER_S, shield=True):
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
            while (message := await self._channel.receive()) is not None:
                self._take(message)
            await self._settle_all()
            self._gone.set()
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

    async def _ready(self) -> None:
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
        with anyio.move_on_after(_ANSWER_S, shield=True):
            await self._send({"op": "quit"})
            await self._gone.wait()
        self._listening.cancel()
        for connection in tuple(self._connections.values()):
            await self._finish(connection)


class LauncherForkServer:
    """A bare interpreter off which children are forked.

    Unlike a warm server (`warm.warm_server`) it has run nothing of a project; a child does whatever its
    command says, as if it had been started anew, in an environment of its own.
    Made by `Launcher.fork_server`.
    """

    def __init__(self, launcher: Launcher, channel: ControlChannel) -> None:
        self._launcher = launcher
        self._channel = channel
        self._talking = anyio.Lock()

    async def open(self, command: ChildCommand, /) -> ControlChannel:
        """Fork a child with a control channel.

        Args:
            command: made by `start_command` with `Control.LINES`; its interpreter must be the server's.

        Raises:
            ServerGone: the server has died or does not answer.
            InternalError: the launcher is gone.
            EnvironmentFault: no descriptors are left.
        """
        with closing(ForkGate()) as gate:
            connection = self._launcher.reserve(command.limits, generation=1)
            return await self._launcher.hold(connection, partial(self._fork, gate, command))

    async def close(self) -> ProcessExit:
        """End the server; its children go on. A second call returns the same."""
        async with self._talking:
            return await self._channel.close()

    async def _fork(self, gate: ForkGate, command: ChildCommand, connection: ChildConnection) -> None:
        """Have a child forked and adopted, and let it run; not to be cancelled in between."""
        connection.connect(_FORK_PIPES)
        order = {"spec": command.argv[2], "environment": dict(command.environment)}
        async with self._talking:
            with anyio.CancelScope(shield=True):
                try:
                    await self._launcher.fork(self._channel, order, gate, connection)
                except (ChannelClosed, TimeoutError, ProtocolError) as error:
                    raise ServerGone(
                        f"The fork server is gone: {error}.", await self._channel.close()
                    ) from error


def _pipes(command: ChildCommand) -> list[str]:
    asked = any("{records}" in argument for argument in command.argv)
    return ["stdout", "stderr", "records"] if asked else ["stdout", "stderr"]


def _order(op: str, connection: ChildConnection) -> Message:
    limits = connection.limits
    return {
        "op": op,
        "job": connection.number,
        "marker": connection.marker,
        "tag": connection.tag,
        "cpu_s": limits.cpu_s,
        "wall_s": limits.wall_s,
        "memory_bytes": limits.memory_bytes,
    }


def _numbered(argument: str) -> str:
    return argument.replace("{records}", str(RECORDS_FD)).replace("{control}", str(CONTROL_FD))
