"""Messages between the daemon and a worker process, over a socket pair, framed as the launcher's are."""

from __future__ import annotations

import socket
from contextlib import suppress

import anyio

from codeflash_parallel.process.launcher.launcher_link import received
from codeflash_parallel.process.message_frames import FrameDecoder, Message, pack


class WorkerChannel:
    """One end of the socket pair."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._sending = anyio.Lock()
        self._frames = FrameDecoder()
        self._ready: list[Message] = []

    async def send(self, message: Message) -> None:
        """Send one message whole.

        Raises:
            ConnectionError: the other end is gone.
        """
        data = memoryview(pack(message))
        async with self._sending:
            with anyio.CancelScope(shield=True):  # half a frame would break the protocol
                while data:
                    data = data[await self._some(data) :]

    async def _some(self, data: memoryview) -> int:
        while True:
            try:
                return self._socket.send(data)
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def receive(self) -> Message | None:
        """Return the next message of the other end, `None` when it is gone."""
        while not self._ready:
            data = await received(self._socket)
            if not data:
                return None
            self._ready += self._frames.feed(data)
        return self._ready.pop(0)

    def finish(self) -> None:
        """Announce that no more messages follow."""
        with suppress(OSError):  # the other end is gone
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end; the other one notices."""
        self._socket.close()
