"""One child as the evaluator holds it: its pipes, its events, the launcher's report; the gate of a fork."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

import anyio

from codeflash_parallel.process.launcher.pipe_reader import (
    AS_MADE,
    CHUNK_BYTES,
    RECORDS_BYTES,
    BoundedOutput,
    ClippedOutput,
    OutputPipe,
    PipeReader,
    Sink,
)
from codeflash_parallel.process.message_channel import receive_some, send_all
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ChannelClosed, ProcessExit, ProcessLimits, Watch

#: Longest line a child may send; more is no protocol of ours.
_LINE_BYTES = 64 * 1024 * 1024
#: How much of an unexpected line goes into a message.
_WORDS = 500
RECORD_FLOOD = "record flood"
#: What a pipe of a child that runs to its end should hold.
_ROOM_BYTES = {"stdout": CHUNK_BYTES, "stderr": CHUNK_BYTES, "records": RECORDS_BYTES}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessMarkers:
    """By what a job's processes are known, wherever they hide.

    Attributes:
        marker: value of an environment variable.
        tag: a resource limit; 0: none.
    """

    marker: str
    tag: int


class ChildConnection:
    """The pipes and the fate of one child. Not for use outside this package."""

    def __init__(
        self, number: int, marks: ProcessMarkers, limits: ProcessLimits, watch: Watch | None = None
    ) -> None:
        self.number = number
        self.marks = marks
        self.limits = limits
        self.pid = 0
        self.started = anyio.Event()
        self.ended = anyio.Event()
        self.sent = False
        self.pumping = False
        self.control: socket.socket | None = None
        self._child_control: socket.socket | None = None
        self._scope = anyio.CancelScope()
        self._pumped = anyio.Event()
        self._out = ClippedOutput(limits.output_bytes)
        self._err = ClippedOutput(limits.output_bytes)
        self._records = BoundedOutput(limits.record_bytes, watch)
        self._outlets: dict[str, OutputPipe] = {}
        self._report: Message = {}
        self._exit: ProcessExit | None = None

    def connect(self, pipes: Collection[str]) -> None:
        """Make the pipes. Whoever calls this calls `close`, whatever happens.

        Args:
            pipes: of ``stdout``, ``stderr``, ``records`` and ``control``; the last is a two-way line channel.
        """
        sinks: dict[str, Sink] = {"stdout": self._out, "stderr": self._err, "records": self._records}
        for name in pipes:
            if name == "control":
                self.control, self._child_control = socket.socketpair()
                self.control.setblocking(False)
            elif "control" in pipes:  # who is told what to do writes little at once, and is there for long
                self._outlets[name] = OutputPipe(sinks[name], AS_MADE)
            else:
                self._outlets[name] = OutputPipe(sinks[name], _ROOM_BYTES[name])

    def descriptors(self) -> dict[str, int]:
        """Return the child's ends of the pipes, in the order in which they were made."""
        ends = {name: outlet.write_end for name, outlet in self._outlets.items()}
        if self._child_control is not None:
            ends["control"] = self._child_control.fileno()
        return ends

    def handed_over(self) -> None:
        """Close the child's ends of the pipes: it, or who will start it, has them now."""
        for outlet in self._outlets.values():
            outlet.close_write_end()
        if self._child_control is not None:
            self._child_control.close()

    async def pump(self, kill: Callable[[str], Awaitable[None]]) -> None:
        """Drain the pipes until they end, the job has ended or `stop_pump` is called.

        Args:
            kill: called once when there is a flood of records, with words about it.
        """
        try:
            with self._scope, contextlib.closing(PipeReader(self._outlets.values())) as drain:
                flooded = False
                while await drain.more():
                    if self._records.flooded and not flooded:
                        flooded = True
                        await kill(RECORD_FLOOD)
        finally:
            self._pumped.set()

    def stop_pump(self) -> None:
        """Stop draining: what is still in the pipes is taken by `close`."""
        self._scope.cancel()

    async def drained(self) -> None:
        """Stop draining, and wait until no task waits for the pipes any more: then they can be closed."""
        self.stop_pump()
        if self.pumping:
            await self._pumped.wait()

    def note(self, report: Message) -> None:
        """Take a message of the launcher."""
        if report["t"] == "started":
            self.pid = report["pid"]
        elif not self.ended.is_set():
            self._report = report
            self.ended.set()
            self.stop_pump()
            if self.control is not None:  # what has arrived can still be read, then it ends
                with contextlib.suppress(OSError):
                    self.control.shutdown(socket.SHUT_RDWR)
        self.started.set()

    def close(self) -> ProcessExit:
        """Take what is left in the pipes, close them, and return how it ended."""
        for outlet in self._outlets.values():
            outlet.close()
        for end in (self.control, self._child_control):
            if end is not None:
                end.close()
        if self._exit is None:
            self._exit = self._describe()
        return self._exit

    def _describe(self) -> ProcessExit:
        report = self._report
        flooded = self._records.flooded
        return ProcessExit(
            ended=ExitKind.KILLED if flooded else ExitKind(report.get("ended", ExitKind.KILLED)),
            status=report.get("status", 0),
            cpu_ns=report.get("cpu_ns", 0),
            wall_ns=report.get("wall_ns", 0),
            max_rss_bytes=report.get("max_rss_bytes", 0),
            leaked=tuple(report.get("leaked", ())),
            unkillable=tuple(report.get("unkillable", ())),
            stdout=self._out.text(),
            stderr=self._err.text(),
            records=self._records.content(),
            message=RECORD_FLOOD if flooded else report.get("message", "the launcher does not answer"),
        )


class ProtocolError(Exception):
    """A child says something else than it is to say."""


class ControlChannel:
    """The evaluator's end of a child's line channel (`result.runtime_protocols.LineChannel`).

    Made by `Launcher.open`.

    Attributes:
        connection: the child; not for use outside this package.
    """

    def __init__(
        self, connection: ChildConnection, finish: Callable[[ChildConnection], Awaitable[ProcessExit]]
    ) -> None:
        assert connection.control is not None
        self.connection = connection
        self._socket = connection.control
        self._finish = finish
        self._pending = bytearray()

    @property
    def pid(self) -> int:
        """The child's process id; 0 if it could not be started."""
        return self.connection.pid

    @property
    def ended(self) -> bool:
        """Whether the child has ended, or could not be started."""
        return self.connection.ended.is_set()

    async def send(self, line: bytes, /, descriptors: Sequence[int] = ()) -> None:
        """Write one line; a newline is added where there is none.

        Args:
            descriptors: what the child gets along with the line's first byte.

        Raises:
            ChannelClosed: the child has closed its end, or has ended.
        """
        try:
            await send_all(self._socket, line.removesuffix(b"\n") + b"\n", descriptors)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    async def receive(self, deadline_s: float, /) -> bytes:
        """Return the next line without its newline.

        Raises:
            ChannelClosed: the child has closed its end, or has ended.
            TimeoutError: no whole line came in time; what came of it is kept for the next call.
        """
        searched = 0
        with anyio.fail_after(deadline_s):
            while (end := self._pending.find(b"\n", searched)) < 0:
                searched = len(self._pending)
                await self._fill()
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    async def receive_message(self, deadline_s: float, kind: str) -> Message:
        """Return the next line, which is to be a message of a kind.

        Raises:
            ChannelClosed, TimeoutError: as `receive`.
            ProtocolError: the line is something else; in the child's own words where it says why.
        """
        line = await self.receive(deadline_s)
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        match message:
            case {"t": said} if said == kind:
                return dict(message)
            case {"t": "refused", "why": str(why)}:
                raise ProtocolError(why)
        raise ProtocolError(f"it says {line[:_WORDS]!r}")

    async def _fill(self) -> None:
        if len(self._pending) > _LINE_BYTES:
            raise ChannelClosed(f"a line of more than {_LINE_BYTES} bytes")
        try:
            data = await receive_some(self._socket)
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("the child has closed its end")
        self._pending += data

    async def close(self) -> ProcessExit:
        """Kill the tree if it still runs, and return how it ended; a second call returns the same."""
        return await self._finish(self.connection)


class ForkGate:
    """The pipe before which a fork waits: it goes on when it has read a byte, and leaves when it ends."""

    def __init__(self) -> None:
        try:
            self.entrance, self.key = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise no_pipes(error) from error

    def is_passed(self) -> bool:
        """Tell, once the launcher has opened it, whether the fork has gone on."""
        poll = select.poll()
        poll.register(self.entrance, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close both ends."""
        os.close(self.entrance)
        os.close(self.key)


def no_pipes(error: OSError) -> EnvironmentFault:
    """Return the fault of a machine on which we get no descriptors."""
    return EnvironmentFault(
        "TOO_MANY_FILES",
        f"No pipes can be made for a child: {error}.",
        "Raise the limit of open files (ulimit -n).",
    )
