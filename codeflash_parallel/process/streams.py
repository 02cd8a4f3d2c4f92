"""The evaluator's ends of a child's pipes: read without blocking, keep a bounded part."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections.abc import Iterable
from typing import Protocol

import anyio

#: One read; also the size we ask for the pipes, so that a chatty child is not stopped every 64 KiB.
CHUNK_BYTES = 256 * 1024
#: A child writes a few bytes for each of its tests. To be woken for each of them would cost more than some
#: tests do: after a small read we let it write on for so long, in seconds, and longer after the next one.
_SHORTEST_PAUSE_S = 0.04
_LONGEST_PAUSE_S = 0.32
#: A read of so many bytes is no small one: a pipe that is filled stops its writer.
_MUCH_BYTES = CHUNK_BYTES // 8
#: Reads after the end of a job: the pipe's content, no more, should an unkillable writer still fill it.
_LAST_READS = 4
#: Room for what a check writes all at once, at its end: recorded calls. Without it the check waits for our
#: next read, for as long as the pause is by then. It is also the most that an ordinary user may ask for.
RECORDS_BYTES = _LAST_READS * CHUNK_BYTES

#: Every read lands here first: reading and keeping happen without an await in between.
_buffer = memoryview(bytearray(CHUNK_BYTES))


class Sink(Protocol):
    """Keeps what was read."""

    def write(self, data: memoryview, /) -> None:
        """Take some bytes; the view is only valid during the call."""
        ...


class Clip:
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


class Records:
    """Keep everything up to a limit, and know when it was passed."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._data = bytearray()
        self.flooded = False

    def write(self, data: memoryview) -> None:
        """Take some bytes; those beyond the limit are dropped."""
        room = self._limit - len(self._data)
        self.flooded = self.flooded or len(data) > room
        self._data += data[: max(room, 0)]

    def content(self) -> bytes:
        """Return what was kept."""
        return bytes(self._data)


class Outlet:
    """A pipe whose write end is for the child and whose read end we drain into a sink.

    Args:
        sink: keeps what is read.
        room_bytes: what the pipe should hold; where the user's share of pipe memory is spent, it is less.
    """

    def __init__(self, sink: Sink, room_bytes: int = CHUNK_BYTES) -> None:
        self._sink = sink
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        for size in sorted({CHUNK_BYTES, room_bytes}):
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, size)

    def fileno(self) -> int:
        """Return the descriptor that we read from."""
        return self._read_end

    def take(self) -> int:
        """Read once; return how many bytes came, 0 at the end."""
        count = os.readv(self._read_end, [_buffer])
        self._sink.write(_buffer[:count])
        return count

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
            os.close(self._read_end)
            self._read_end = -1


class Drain:
    """Reads several outlets in one go: to wait for each by itself costs more than many a check.

    Args:
        outlets: open, and they stay so until this is closed.
    """

    def __init__(self, outlets: Iterable[Outlet]) -> None:
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
        if self._read() >= _MUCH_BYTES:
            self._pause_s = _SHORTEST_PAUSE_S
        elif self._outlets:
            await anyio.sleep(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return bool(self._outlets)

    def _read(self) -> int:
        """Read once from each outlet in which something is; return how many bytes came."""
        total = 0
        for end, _ in self._poll.poll(0):
            count = self._outlets[end].take()
            total += count
            if not count:
                self._poll.unregister(end)
                del self._outlets[end]
        return total

    def close(self) -> None:
        """Stop watching; the outlets stay open."""
        self._poll.close()
