"""One child as the evaluator holds it: its pipes, its events, the launcher's report; the gate of a fork."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import sys
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path

import anyio

from codeflash_parallel.process.message_channel import receive_some, send_all
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ChannelClosed, ProcessExit, ProcessLimits, Watch

#: One read; also the size we ask for most pipes, so that a chatty child is not stopped every 64 KiB.
CHUNK_BYTES = 256 * 1024
#: A child writes a few bytes for each of its tests. To be woken for each of them would cost more than some
#: tests do: after a small read we let it write on for so long, in seconds, and longer after the next one.
_SHORTEST_PAUSE_S = 0.04
_LONGEST_PAUSE_S = 0.32
#: A read of so many bytes, or of half a pipe, is no small one: a pipe that is filled stops its writer.
_MUCH_BYTES = CHUNK_BYTES // 8
#: Reads after the end of a job: the pipe's content, no more, should an unkillable writer still fill it.
_LAST_READS = 4
#: Room for what a check writes all at once, at its end: recorded calls. Without it the check waits for our
#: next read, for as long as the pause is by then. It is also the most that an ordinary user may ask for.
RECORDS_BYTES = _LAST_READS * CHUNK_BYTES
#: What makes a pipe stay as the kernel makes it: for those in which little is written at once.
AS_MADE = 0
#: The sizes that we ask for. A user who has spent much may be granted the first and not the second.
_SIZES = (CHUNK_BYTES, RECORDS_BYTES)
#: How many pages all pipes of an ordinary user may hold before each new one gets two. See pipe(7).
_USER_PAGES = Path("/proc/sys/fs/pipe-user-pages-soft")

#: Every read lands here first: reading and keeping happen without an await in between.
_buffer = memoryview(bytearray(CHUNK_BYTES))

#: Longest line a child may send; more is no protocol of ours.
_LINE_BYTES = 64 * 1024 * 1024
#: How much of an unexpected line goes into a message.
_WORDS = 500
RECORD_FLOOD = "record flood"
#: What a pipe of a child that runs to its end should hold.
_ROOM_BYTES = {"stdout": CHUNK_BYTES, "stderr": CHUNK_BYTES, "records": RECORDS_BYTES}


class ClippedOutput:
    """Keep the head and the tail of an output."""

    def __init__(self, limit_bytes: int) -> None:
        self._half = max(limit_bytes // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def write(self, data: memoryview) -> None:
        """Take some bytes."""
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._half:
            self._shorten()

    def text(self) -> str:
        """Return what was kept, decoded, with a line about what was left out."""
        self._shorten()
        gap = f"\n... {self._left_out} bytes left out ...\n".encode() if self._left_out else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")

    def _shorten(self) -> None:
        surplus = len(self._tail) - self._half
        if surplus > 0:
            self._left_out += surplus
            del self._tail[:surplus]


class BoundedOutput:
    """Keep everything up to a limit, and know when it was passed.

    Args:
        limit_bytes: what is kept.
        watch: receives every piece as it arrives.
    """

    def __init__(self, limit_bytes: int, watch: Watch | None = None) -> None:
        self._limit, self._watch = limit_bytes, watch
        self._data = bytearray()
        self.flooded = False

    def write(self, data: memoryview) -> None:
        """Take some bytes; those beyond the limit are dropped."""
        room = self._limit - len(self._data)
        self.flooded = self.flooded or len(data) > room
        self._data += data[: max(room, 0)]
        if self._watch is not None:
            self._watch(bytes(data))

    def content(self) -> bytes:
        """Return what was kept."""
        return bytes(self._data)


#: Keeps what was read.
Sink = ClippedOutput | BoundedOutput


class PipeMemory:
    """Capacity of all our pipes, in bytes: the tests that we start need pipes of the same user, too.

    Where a user's pipes hold more than the kernel's limit, it makes each new one an eighth as large as usual,
    and a test that writes to its own pipe before it reads from it hangs.
    """

    def __init__(self, share_bytes: int) -> None:
        self._share = share_bytes
        self._held: dict[int, int] = {}

    def enlarge(self, pipe: int, room_bytes: int) -> None:
        """Count a new pipe, and enlarge it as far as the share and the kernel allow."""
        self._held[pipe] = size = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)
        for larger in _SIZES:
            if size < larger <= room_bytes and sum(self._held.values()) - size + larger <= self._share:
                with contextlib.suppress(OSError):
                    self._held[pipe] = size = fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, larger)

    def release(self, pipe: int) -> None:
        """Forget a pipe that is about to be closed."""
        del self._held[pipe]


@cache
def pipe_memory() -> PipeMemory:
    """Return what this process's pipes share: half of what an ordinary user may have."""
    try:
        pages = int(_USER_PAGES.read_text())
    except (OSError, ValueError):
        pages = 0
    # 0 stands for no limit.
    return PipeMemory(pages * os.sysconf("SC_PAGE_SIZE") // 2 or sys.maxsize)


class OutputPipe:
    """A pipe whose write end is for the child and whose read end we drain into a sink.

    Args:
        sink: keeps what is read.
        room_bytes: what the pipe should hold; where pipe memory is spent, it is less.
    """

    def __init__(self, sink: Sink, room_bytes: int = CHUNK_BYTES) -> None:
        self._sink = sink
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        pipe_memory().enlarge(self._read_end, room_bytes)

    def fileno(self) -> int:
        """Return the descriptor that we read from."""
        return self._read_end

    def take(self) -> int:
        """Read once; return how many bytes came, 0 at the end."""
        count = os.readv(self._read_end, [_buffer])
        self._sink.write(_buffer[:count])
        return count

    def is_much(self, count: int) -> bool:
        """Say whether a read of so many bytes may have been all that the pipe can hold."""
        return count >= min(_MUCH_BYTES, fcntl.fcntl(self._read_end, fcntl.F_GETPIPE_SZ) // 2)

    def close_write_end(self) -> None:
        """Leave the write end to the child."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        """Take what is there now, and close."""
        self.close_write_end()
        if self._read_end >= 0:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_LAST_READS):
                    if not self.take():
                        break
            pipe_memory().release(self._read_end)
            os.close(self._read_end)
            self._read_end = -1


class PipeReader:
    """Reads several outlets in one go: to wait for each by itself costs more than many a check.

    Args:
        outlets: open, and they stay so until this is closed.
    """

    def __init__(self, outlets: Iterable[OutputPipe]) -> None:
        self._outlets = {outlet.fileno(): outlet for outlet in outlets}
        self._pause_s = _SHORTEST_PAUSE_S
        self._poll = select.epoll()
        for end in self._outlets:
            self._poll.register(end, select.EPOLLIN)

    async def more(self) -> bool:
        """Wait for what is written next, and read it; return whether anybody can write any more.

        A grandchild may hold a write end for long.
        """
        if not self._outlets:
            return False
        await anyio.wait_readable(self._poll.fileno())
        if self._read():
            self._pause_s = _SHORTEST_PAUSE_S
        elif self._outlets:
            await anyio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return bool(self._outlets)

    def _read(self) -> bool:
        """Read once from each outlet in which something is; return whether it was much anywhere."""
        much = False
        for end, _ in self._poll.poll(0):
            count = self._outlets[end].take()
            much = much or self._outlets[end].is_much(count)
            if not count:
                self._poll.unregister(end)
                del self._outlets[end]
        return much

    def close(self) -> None:
        """Stop watching; the outlets stay open."""
        self._poll.close()


class ChildConnection:
    """The pipes and the fate of one child. Not for use outside this package.

    Args:
        marker, tag: by what its processes are known, wherever they hide: the value of an environment
            variable, and a resource limit (0: none).
    """

    def __init__(
        self, number: int, marker: str, tag: int, limits: ProcessLimits, watch: Watch | None = None
    ) -> None:
        self.number = number
        self.marker, self.tag = marker, tag
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
    """The evaluator's end of a child's two-way line channel. Made by `Launcher.open`.

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
