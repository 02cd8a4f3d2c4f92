"""Messages over a socket: the evaluator's to its launcher, the daemon's to a worker, and back."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence
from contextlib import suppress

import anyio

from codeflash_parallel.process.message_frames import FrameDecoder, Message, pack

#: One read.
_CHUNK_BYTES = 256 * 1024


class MessageChannel:
    """One end of a socket pair; frames both ways."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._sending = anyio.Lock()
        self._frames = FrameDecoder()
        self._ready: list[Message] = []

    async def send(
        self, message: Message, descriptors: Sequence[int] = (), deadline_s: float = math.inf
    ) -> None:
        """Send one message whole.

        Args:
            descriptors: what the other end gets along with it.
            deadline_s: how long it may take.

        Raises:
            ConnectionError: the other end is gone.
            TimeoutError: it does not read; half a frame may be under way.
        """
        async with self._sending:
            with anyio.fail_after(deadline_s, shield=True):  # half a frame would break the protocol
                await send_all(self._end, pack(message), descriptors)

    async def receive(self) -> Message | None:
        """Return the next message of the other end, `None` when it is gone."""
        while not self._ready:
            try:
                data = await receive_some(self._end)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._ready += self._frames.feed(data)
        return self._ready.pop(0)

    def finish(self) -> None:
        """Announce that no more messages follow."""
        with suppress(OSError):  # the other end is gone
            self._end.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end; the other one notices."""
        self._end.close()


async def send_all(end: socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Write to a socket that does not block; the descriptors go along with the first byte."""
    left = memoryview(data)
    while left:
        try:
            sent = socket.send_fds(end, [left], descriptors) if descriptors else end.send(left)
        except BlockingIOError:
            await anyio.wait_writable(end)
        else:
            left, descriptors = left[sent:], ()


async def receive_some(end: socket.socket) -> bytes:
    """Return what has come on a socket that does not block; nothing: the other end is gone."""
    while True:
        try:
            return end.recv(_CHUNK_BYTES)
        except BlockingIOError:
            await anyio.wait_readable(end)
