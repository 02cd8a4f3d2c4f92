"""A client's end of a connection to the daemon."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from codeflash_parallel.queue.daemon_protocol import (
    MAX_LINE,
    STALLED_S,
    DaemonAnswer,
    JobEvent,
    Request,
    read_reply,
    request_line,
)
from codeflash_parallel.queue.errors import queue_unfit
from codeflash_parallel.queue.queue_settings import SOCKET_NAME
from codeflash_parallel.result.errors import EnvironmentFault


@contextmanager
def socket_of(folder: Path) -> Iterator[str]:
    """Give a short name of a daemon's socket: the kernel takes 107 bytes at most.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET_NAME}"
    finally:
        os.close(handle)


class DaemonConnection:
    """A connection, made by `open`; a context manager."""

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
        except OSError as error:
            connected.close()
            match error:
                case FileNotFoundError() | ConnectionRefusedError():  # there never was one; it was killed
                    return None
                case TimeoutError() | BlockingIOError():
                    raise _stalled(folder) from error
                case PermissionError():
                    message = f"The queue in {folder} cannot be used: {error.strerror}."
                    raise EnvironmentFault("NOT_YOUR_QUEUE", message, "Name another folder.") from error
                case _:
                    raise queue_unfit(folder, error) from error
        return cls(folder, connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, call: str, arguments: Mapping[str, Any]) -> Any:
        """Make a call and return its answer.

        Raises:
            CodeflashParallelError: what the daemon raised.
            EnvironmentFault: `DAEMON_STALLED`.
            ConnectionError: the daemon has gone away.
        """
        *_, answer = self._replies(Request(call, arguments))
        assert isinstance(answer, DaemonAnswer)
        return answer.value

    def events(self, call: str, arguments: Mapping[str, Any]) -> Iterator[JobEvent]:
        """Make a call and yield its events. Raise as `ask`."""
        for reply in self._replies(Request(call, arguments)):
            if isinstance(reply, JobEvent):
                yield reply

    def _replies(self, request: Request) -> Iterator[JobEvent | DaemonAnswer]:
        try:
            self._socket.sendall(request_line(request))
            reply = None
            while not isinstance(reply, DaemonAnswer):
                line = self._lines.readline(MAX_LINE)
                if not line.endswith(b"\n"):
                    raise ConnectionResetError(f"the daemon of {self._folder} has gone away")
                reply = read_reply(line, request)
                if reply is not None:
                    yield reply
        except TimeoutError as error:
            raise _stalled(self._folder) from error


def _stalled(folder: Path) -> EnvironmentFault:
    return EnvironmentFault(
        "DAEMON_STALLED",
        f"The daemon of {folder} has said nothing for {STALLED_S:g} s.",
        "End it and start `codeflash-parallel serve` again: no job is lost by that.",
    )
