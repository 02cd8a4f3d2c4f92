"""The evaluator's ends of a child's pipes: read without blocking, keep a bounded part."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Protocol

import anyio

from codeflash_parallel.result.runtime_protocols import Watch

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


class Sink(Protocol):
    """Keeps what was read."""

    def write(self, data: memoryview, /) -> None:
        """Take some bytes; the view is only valid during the call."""
        ...


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


class PipeMemory:
    """What all our pipes may hold, in bytes: the tests that we start need pipes of the same user, too.

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
