"""A client's end of the connection to a daemon, for synchronous code."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeflash_parallel.queue.errors import queue_unfit
from codeflash_parallel.queue.protocol.messages import JobEvent, Request
from codeflash_parallel.queue.protocol.socket_path import SOCKET_NAME
from codeflash_parallel.queue.protocol.wire_format import (
    MAX_LINE,
    STALLED_S,
    DaemonAnswer,
    DaemonHeartbeat,
    read_reply,
    request_line,
)
from codeflash_parallel.result.errors import EnvironmentFault

#: What a caller does with events; most calls have none.
OnEvent = Callable[[JobEvent], None]


@contextmanager
def socket_of(folder: Path) -> Iterator[str]:
    """Give a name of a daemon's socket that is short enough: a socket's name has 107 bytes at most.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET_NAME}"
    finally:
        os.close(handle)


def stalled(folder: Path) -> EnvironmentFault:
    """Return the error of a daemon that does not answer."""
    return EnvironmentFault(
        "DAEMON_STALLED",
        f"The daemon of {folder} has said nothing for {STALLED_S:g} s.",
        "End it and start `codeflash-parallel serve` again: no job is lost by that.",
    )


def no_daemon(folder: Path) -> EnvironmentFault:
    """Return the error of a call that needs a daemon where there is none."""
    return EnvironmentFault(
        "NO_DAEMON",
        f"No daemon is running for {folder}.",
        "Start one with `codeflash-parallel serve`; jobs that are queued are kept.",
    )


def not_usable(folder: Path, error: OSError) -> EnvironmentFault:
    """Return the error of a queue of somebody else, or of what is no folder."""
    if not isinstance(error, PermissionError):
        return queue_unfit(folder, error)
    return EnvironmentFault(
        "NOT_YOUR_QUEUE", f"The queue in {folder} cannot be used: {error.strerror}.", "Name another folder."
    )


class DaemonConnection:
    """A connection; made by `DaemonConnection.open`, closed by leaving the block."""

    def __init__(self, folder: Path, connected: socket.socket) -> None:
        self._folder = folder
        self._socket = connected
        self._lines = connected.makefile("rb")

    @classmethod
    def open(cls, folder: Path) -> DaemonConnection | None:
        """Connect to the daemon of a folder; `None` if there is none.

        Raises:
            EnvironmentFault: `DAEMON_STALLED`, `NOT_YOUR_QUEUE`, or `QUEUE_UNFIT`.
        """
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(STALLED_S)
            with socket_of(folder) as address:
                connected.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):  # never was one; it was killed
            connected.close()
            return None
        except (TimeoutError, BlockingIOError) as error:
            connected.close()
            raise stalled(folder) from error
        except OSError as error:
            connected.close()
            raise not_usable(folder, error) from error
        return cls(folder, connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, request: Request, on_event: OnEvent = lambda _event: None) -> Any:
        """Make a call and return its answer.

        Raises:
            CodeflashParallelError: what the daemon raised.
            EnvironmentFault: `DAEMON_STALLED`.
            ConnectionError: the daemon has gone away.
        """
        for reply in self.replies(request):
            if isinstance(reply, DaemonAnswer):
                return reply.value
            on_event(reply)
        raise AssertionError(request)  # pragma: no cover - the replies end with an answer

    def replies(self, request: Request) -> Iterator[JobEvent | DaemonAnswer]:
        """Make a call and yield its events and, last, its answer. Raises as `ask` does."""
        self._send(request_line(request))
        while True:
            reply = read_reply(self._line(), request)
            if isinstance(reply, DaemonHeartbeat):
                continue
            yield reply
            if isinstance(reply, DaemonAnswer):
                return

    def _send(self, line: bytes) -> None:
        try:
            self._socket.sendall(line)
        except TimeoutError as error:
            raise stalled(self._folder) from error

    def _line(self) -> bytes:
        try:
            line = self._lines.readline(MAX_LINE)
        except TimeoutError as error:
            raise stalled(self._folder) from error
        if not line.endswith(b"\n"):
            raise ConnectionResetError(f"the daemon of {self._folder} has gone away")
        return line
