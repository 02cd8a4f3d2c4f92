"""Files and messages between a command with `--keep-warm` and the background process that runs it. Light.

::

    <cache>/warm/
      daemon.lock     held by the daemon; its number, its token and its stamp, readable for its user only
      daemon.socket
      daemon.log      why something was made anew

    → {"token": "…", "do": "run"}         or "end": end when idle
    ← {"answer": "go"}                    or "busy"
    → length, {"arguments": […], …}       with the descriptors of standard input, output and error
    → {"signal": "SIGINT"}                as often as one comes
    ← {"used": true}                      something was read or written that cannot be done twice
    ← {"exit": 0}

The token keeps others out than the user's own commands: a candidate that may connect to sockets, at isolation
`landlock`, cannot read the cache.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import codeflash_parallel

SOCKET_NAME, LOCK_NAME, LOG_NAME = "daemon.socket", "daemon.lock", "daemon.log"
#: Seconds that one side waits for the other's next word, as long as no command runs.
PATIENCE_S = 3.0
#: Longest line; commands have a length instead.
MAX_LINE = 4096
#: Longest command with its environment: the kernel takes no longer one, either.
MAX_COMMAND = 8 << 20
_LENGTH_BYTES = 8
#: What an interpreter looks at when it starts; a daemon has those of the command that started it.
START_VARIABLES = ("PYTHON", "LD_", "LC_", "LANG")
#: Limits that a daemon's processes would have, too.
_LIMITS = sorted(name for name in dir(resource) if name.startswith("RLIMIT_"))
#: Standard input, output and error.
_STREAMS = 3


class LockContent(NamedTuple):
    """Content of the lock file.

    Attributes:
        pid: of the daemon.
        token: to be presented by its clients.
        stamp: see `stamp`.
    """

    pid: str
    token: str
    stamp: str


def warm_folder(cache: Path) -> Path:
    """Return the folder of the background process of a cache."""
    return cache / "warm"


def read_lock(folder: Path) -> LockContent | None:
    """Return what the daemon wrote into its lock file; `None`: nothing that can be read."""
    try:
        words = (folder / LOCK_NAME).read_text(encoding="utf-8").split("\n")
        return LockContent(*words)
    except (OSError, ValueError, TypeError):
        return None


def stamp() -> str:
    """Return a line about all that a daemon has from its start: our files, the interpreter, limits."""
    limits = [(name, resource.getrlimit(getattr(resource, name))) for name in _LIMITS]
    umask = os.umask(0o077)
    os.umask(umask)
    started = {name: value for name, value in os.environ.items() if name.startswith(START_VARIABLES)}
    places = [os.fspath(Path("/proc/self/ns", name).readlink()) for name in ("mnt", "pid", "net", "user")]
    cores, nice = sorted(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0)
    package = os.fspath(Path(codeflash_parallel.__file__).parent)
    version = (codeflash_parallel.__version__, package, _newest(package), sys.executable, sys.version)
    return repr((version, limits, umask, sorted(started.items()), places, cores, nice, os.getgroups()))


def _newest(folder: str) -> tuple[int, int]:
    """Return the number of files of a package, and when the last one of them was changed."""
    count = newest = 0
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            count, newest = count + 1, max(newest, entry.stat().st_mtime_ns)
        elif entry.is_dir() and entry.name != "__pycache__":
            inside = _newest(entry.path)
            count, newest = count + inside[0], max(newest, inside[1])
    return count, newest


# --- messages --------------------------------------------------------------------------------------------


def send_line(connection: socket.socket, **message: object) -> None:
    """Send a short message.

    Raises:
        OSError: the other side is gone, or does not read.
    """
    connection.sendall(json.dumps(message).encode("ascii") + b"\n")


class LineReader:
    """Short messages of the other side, in the order in which they come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def next(self) -> Mapping[str, Any] | None:
        """Return the next message; `None`: the other side is gone, or talks nonsense.

        Raises:
            TimeoutError: nothing comes.
        """
        while b"\n" not in self._rest:
            try:
                data = self._connection.recv(MAX_LINE)
            except ConnectionError:
                return None
            self._rest += data
            if not data or len(self._rest) > MAX_LINE:
                return None
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None


def send_command(connection: socket.socket, command: Mapping[str, Any], streams: Iterable[int]) -> None:
    """Send a command and the descriptors of its streams.

    Raises:
        OSError: as `send_line`.
    """
    data = json.dumps(command).encode("ascii")
    head = len(data).to_bytes(_LENGTH_BYTES, "big")
    socket.send_fds(connection, [head], list(streams))
    connection.sendall(data)


def receive_command(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a command and the descriptors of its streams, which belong to the caller.

    Raises:
        OSError, ValueError: it does not come.
    """
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH_BYTES, _STREAMS)
    try:
        for stream in streams:  # before Python 3.13, MSG_CMSG_CLOEXEC would be ignored
            os.set_inheritable(stream, False)
        command = json.loads(_received(connection, int.from_bytes(head, "big")))
        if len(streams) == _STREAMS:
            return command, streams
    except BaseException:
        _close_all(streams)
        raise
    _close_all(streams)
    raise ValueError("descriptors are missing")


def _close_all(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _received(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes.

    Raises:
        ValueError: fewer come, or they are too many for a command.
    """
    data = bytearray()
    while len(data) < size <= MAX_COMMAND and (received := connection.recv(size - len(data))):
        data += received
    if len(data) != size:
        raise ValueError("half a command")
    return bytes(data)
