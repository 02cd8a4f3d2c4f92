"""The evaluator's end of the socket to its launcher."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import anyio

from codeflash_parallel.process.launcher.launcher_process import ANSWER_S, LauncherProcess
from codeflash_parallel.process.message_frames import FrameDecoder, Message, pack

#: One read.
_CHUNK_BYTES = 256 * 1024


class LauncherLink:
    """Frames both ways.

    Attributes:
        gone: set by who reads the messages, once they have ended and every job is settled.
    """

    def __init__(self, process: LauncherProcess) -> None:
        self.gone = anyio.Event()
        self._process = process
        self._sending = anyio.Lock()

    async def send(self, message: Message, descriptors: list[int] | None = None) -> None:
        """Send one frame whole, or not at all."""
        async with self._sending:
            with anyio.move_on_after(ANSWER_S, shield=True) as scope:
                await self._write(memoryview(pack(message)), descriptors or [])
            if scope.cancelled_caught:  # stuck, and half a frame may be under way
                self._process.popen.kill()

    async def _write(self, data: memoryview, descriptors: list[int]) -> None:
        link = self._process.link
        while data and not self.gone.is_set():
            try:
                sent = socket.send_fds(link, [data], descriptors) if descriptors else link.send(data)
            except BlockingIOError:
                await anyio.wait_writable(link)
            except (BrokenPipeError, ConnectionResetError):
                await self.gone.wait()  # the listener sees the same end and settles every job
            else:
                data, descriptors = data[sent:], []

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the launcher's messages until it ends."""
        frames = FrameDecoder()
        while data := await received(self._process.link):
            for message in frames.feed(data):
                yield message


async def received(end: socket.socket) -> bytes:
    """Return what the other end of a connection has sent; nothing: it is gone."""
    while True:
        await anyio.wait_readable(end)
        try:
            return end.recv(_CHUNK_BYTES)
        except BlockingIOError:
            continue
        except ConnectionResetError:
            return b""
