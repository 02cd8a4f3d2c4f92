"""The daemon's answers to its clients' calls."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.process.host_lock import token_holder
from codeflash_parallel.queue.daemon.dispatcher import Dispatcher
from codeflash_parallel.queue.daemon_protocol import (
    ALIVE_S,
    MAX_LINE,
    DaemonInfo,
    alive_line,
    answer_line,
    error_line,
    read_request,
)
from codeflash_parallel.queue.errors import QueueDamaged
from codeflash_parallel.result.errors import CodeflashParallelError, InternalError, first_of

#: pid, user, group
_CREDENTIALS = struct.Struct("iII")


class RequestHandler:
    """Answers calls on any number of connections."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._answers: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "ping": self._ping,
            "look": dispatcher.look,
            "wait": dispatcher.wait,
        }

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection until its client leaves; close it if it is another user's."""
        async with stream:
            if not _is_ours(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - it is no Django
                return
            buffered = BufferedByteReceiveStream(stream)
            try:
                while True:
                    await self._answer(stream, await buffered.receive_until(b"\n", MAX_LINE))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the client left while it was answered

    async def _answer(self, stream: SocketStream, line: bytes) -> None:
        async def send_heartbeats() -> None:
            while True:
                await anyio.sleep(ALIVE_S)
                await stream.send(alive_line())

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(send_heartbeats)
                answer = await self._answer_line(line)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as error:  # a heartbeat to a client that left
            raise first_of(error) from None
        await stream.send(answer)

    async def _answer_line(self, line: bytes) -> bytes:
        try:
            call, arguments = read_request(line)
            return answer_line(await self._answers[call](**arguments))
        except CodeflashParallelError as error:
            if isinstance(error, QueueDamaged):
                self._dispatcher.wake()  # it ends the daemon
            return error_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the daemon
            return error_line(InternalError("UNEXPECTED", f"{type(error).__name__}: {error}"))

    async def _ping(self) -> DaemonInfo:
        return self._dispatcher.info()._replace(token_holder=token_holder(os.environ))


def _is_ours(peer: socket.socket) -> bool:
    """Return whether the other end is our own user or root, whatever the file's permissions are by now."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in {os.geteuid(), 0}
