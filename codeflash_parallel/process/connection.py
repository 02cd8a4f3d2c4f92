"""One child as the evaluator holds it: its pipes, its events, and the launcher's report."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable

import anyio

from codeflash_parallel.model.outcome import Ended
from codeflash_parallel.model.workspace import ChannelClosed, Command, Exit
from codeflash_parallel.process.streams import Clip, Outlet, Records
from codeflash_parallel.process.wire import CONTROL_FD, RECORDS_FD, Message, portable

#: Longest line a child may send; more is no protocol of ours.
_LINE_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
RECORD_FLOOD = "record flood"


class Connection:
    """The pipes and the fate of one child. Not for use outside this package."""

    def __init__(self, number: int, command: Command) -> None:
        self.number = number
        self.command = command
        self.pid = 0
        self.started = anyio.Event()
        self.ended = anyio.Event()
        self.sent = False
        self.pumping = False
        self.control: socket.socket | None = None
        self._child_control: socket.socket | None = None
        self._scope = anyio.CancelScope()
        self._pumped = anyio.Event()
        self._out = Clip(command.limits.output_bytes)
        self._err = Clip(command.limits.output_bytes)
        self._records = Records(command.limits.record_bytes)
        self._outlets: dict[str, Outlet] = {}
        self._report: Message = {}
        self._exit: Exit | None = None

    def connect(self) -> None:
        """Make the pipes. Whoever calls this calls `close`, whatever happens."""
        self._outlets["stdout"] = Outlet(self._out)
        self._outlets["stderr"] = Outlet(self._err)
        if any("{records}" in argument for argument in self.command.argv):
            self._outlets["records"] = Outlet(self._records)

    def connect_control(self) -> None:
        """Make the two-way line channel."""
        self.control, self._child_control = socket.socketpair()
        self.control.setblocking(False)

    def order(self, marker: str) -> tuple[Message, list[int]]:
        """Return the ``start`` order and the descriptors that go with it."""
        descriptors = {name: outlet.write_end for name, outlet in self._outlets.items()}
        if self._child_control is not None:
            descriptors["control"] = self._child_control.fileno()
        limits = self.command.limits
        message = {
            "op": "start",
            "job": self.number,
            "marker": marker,
            "argv": [portable(_numbered(argument)) for argument in self.command.argv],
            "cwd": portable(str(self.command.cwd)),
            "environment": {portable(k): portable(v) for k, v in self.command.environment.items()},
            "descriptors": list(descriptors),
            "cpu_s": limits.cpu_s,
            "wall_s": limits.wall_s,
            "memory_bytes": limits.memory_bytes,
        }
        return message, list(descriptors.values())

    def handed_over(self) -> None:
        """Close the child's ends of the pipes: the launcher has them now."""
        self.sent = True
        for outlet in self._outlets.values():
            outlet.close_write_end()
        if self._child_control is not None:
            self._child_control.close()

    async def pump(self, kill: Callable[[str], Awaitable[None]]) -> None:
        """Drain the pipes until they end or `stop_pump` is called; a flood of records is stopped."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    for name in self._outlets.keys() - {"records"}:
                        tasks.start_soon(self._outlets[name].pump)
                    if "records" in self._outlets:
                        tasks.start_soon(self._pump_records, kill)
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

    async def _pump_records(self, kill: Callable[[str], Awaitable[None]]) -> None:
        told = False
        outlet = self._outlets["records"]
        while True:
            await anyio.wait_readable(outlet.fileno())
            if not outlet.take():
                return
            if self._records.flooded and not told:
                told = True
                await kill(RECORD_FLOOD)

    def note(self, report: Message) -> None:
        """Take a message of the launcher."""
        if report["t"] == "started":
            self.pid = report["pid"]
        elif not self.ended.is_set():
            self._report = report
            self.ended.set()
            if self.control is not None:  # what has arrived can still be read, then it ends
                with contextlib.suppress(OSError):
                    self.control.shutdown(socket.SHUT_RDWR)
        self.started.set()

    def close(self) -> Exit:
        """Take what is left in the pipes, close them, and return how it ended."""
        for outlet in self._outlets.values():
            outlet.close()
        for end in (self.control, self._child_control):
            if end is not None:
                end.close()
        if self._exit is None:
            self._exit = self._describe()
        return self._exit

    def _describe(self) -> Exit:
        report = self._report
        flooded = self._records.flooded
        return Exit(
            ended=Ended.KILLED if flooded else Ended(report.get("ended", Ended.KILLED)),
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


class ControlChannel:
    """The evaluator's end of a child's line channel (`model.workspace.Channel`).

    Made by `Launcher.open`.
    """

    def __init__(self, connection: Connection, finish: Callable[[Connection], Awaitable[Exit]]) -> None:
        assert connection.control is not None
        self._connection = connection
        self._socket = connection.control
        self._finish = finish
        self._pending = bytearray()

    @property
    def pid(self) -> int:
        """The child's process id; 0 if it could not be started."""
        return self._connection.pid

    async def send(self, line: bytes, /) -> None:
        """Write one line; a newline is added where there is none.

        Raises:
            ChannelClosed: the child has closed its end, or has ended.
        """
        data = memoryview(line.removesuffix(b"\n") + b"\n")
        while data:
            try:
                data = data[self._socket.send(data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
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

    async def _fill(self) -> None:
        if len(self._pending) > _LINE_BYTES:
            raise ChannelClosed(f"a line of more than {_LINE_BYTES} bytes")
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(self._socket)
            return
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not data:
            raise ChannelClosed("the child has closed its end")
        self._pending += data

    async def close(self) -> Exit:
        """Kill the tree if it still runs, and return how it ended; a second call returns the same."""
        return await self._finish(self._connection)


def _numbered(argument: str) -> str:
    return argument.replace("{records}", str(RECORDS_FD)).replace("{control}", str(CONTROL_FD))
