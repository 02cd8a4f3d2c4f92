"""Connections between clients and the daemon: JSON lines over a Unix socket.

Jobs are not in it: clients read and write the store, and the daemon is told to look at it. A connection is a
sequence of calls. A call is one line; it is answered by any number of `alive` lines, and then one `answer` or
`error` line::

    → {"v": 3, "call": "wait", "args": {"job_id": "…", "max_s": 100.0}}
    ← {"alive": true}                          every `ALIVE_S` while the call is worked on
    ← {"answer": null}
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

from codeflash_parallel.process.local_socket import short_address
from codeflash_parallel.queue.jobs import error_document, error_of
from codeflash_parallel.queue.queue_errors import queue_unfit
from codeflash_parallel.queue.queue_settings import SOCKET_NAME
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError

#: Version of the protocol; a call of another one is refused with `OTHER_PROTOCOL`.
VERSION: Final = 3
#: Longest line of a client.
MAX_LINE: Final = 64 * 1024
#: Seconds between the `alive` lines of a call.
ALIVE_S: Final = 1.0
#: Seconds of silence after which a daemon counts as stalled: commands notice it within 5 s on a busy machine.
STALLED_S: Final = 3.5

#: Calls, and the types of their arguments by name.
CALLS: Final[Mapping[str, Mapping[str, type]]] = {
    # Answered with `DaemonInfo`.
    "ping": {},
    # The store was written to: look at it, and at one job (empty: none) whose end may have to be made known.
    "look": {"job_id": str},
    # Answered when the job is final, or after so many seconds; negative: no limit.
    "wait": {"job_id": str, "max_s": float},
}


class WorkerInfo(NamedTuple):
    """A worker process.

    Attributes:
        job_id: of its job; empty if it has none.
        warm_for: repository whose evaluator it keeps open; empty if none.
        lease_age_s: seconds since the lease of its job was renewed.
    """

    pid: int
    job_id: str = ""
    warm_for: str = ""
    progress: str = ""
    lease_age_s: float = 0.0


class DaemonInfo(NamedTuple):
    """State of a daemon.

    Attributes:
        slots: jobs that it runs at once at most.
        token_holder: holder of the host's benchmark token; empty if it is free.
        draining: it starts no more jobs and ends when the running ones have ended.
        up_s: seconds since it started.
        last_fault: the last thing that went wrong, one sentence; empty if nothing did.
    """

    pid: int
    version: str
    slots: int
    slots_busy: int
    workers: tuple[WorkerInfo, ...] = ()
    token_holder: str = ""
    draining: bool = False
    up_s: float = 0.0
    last_fault: str = ""


# --- lines -----------------------------------------------------------------------------------------------


def request_line(call: str, **arguments: Any) -> bytes:
    """Return the line of a call, with its line break."""
    return _line({"v": VERSION, "call": call, "args": arguments})


def read_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return the call of a line, and its arguments.

    Raises:
        UsageError: `OTHER_PROTOCOL` or `BAD_CALL`.
    """
    try:
        data = json.loads(line)
        version, call, arguments = data["v"], data["call"], data["args"]
        is_known = {name: type(value) for name, value in arguments.items()} == CALLS[call]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise UsageError("BAD_CALL", f"The call cannot be read: {error!r}.") from error
    if version != VERSION:
        hint = "Stop the daemon and start the one of the same version as the client."
        raise UsageError("OTHER_PROTOCOL", f"The other end speaks version {version!r}.", hint)
    if not is_known:
        raise UsageError("BAD_CALL", f"The arguments of {call} are {', '.join(CALLS[call]) or 'none'}.")
    return call, arguments


def alive_line() -> bytes:
    """Return the line that says that a call is being worked on."""
    return _line({"alive": True})


def answer_line(value: Any) -> bytes:
    """Return the line that ends a call."""
    return _line({"answer": to_plain(value)})


def error_line(error: CodeflashParallelError) -> bytes:
    """Return the line that ends a call with an error."""
    return _line({"error": error_document(error)})


def _line(data: Any) -> bytes:
    # ASCII: lone surrogates of undecodable file names come back as what they were.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"


# --- the client's end ------------------------------------------------------------------------------------


def socket_of(folder: Path) -> AbstractContextManager[str]:
    """Give a short name of a daemon's socket, as `short_address`."""
    return short_address(folder / SOCKET_NAME)


def ask_daemon(folder: Path, call: str, **arguments: Any) -> Any:
    """Make a call on a connection of its own and return the answer.

    Raises:
        ConnectionError: there is no daemon, or it has gone away.
        CodeflashParallelError: raised by the daemon.
        EnvironmentFault: `DAEMON_STALLED`, `NOT_YOUR_QUEUE`, `QUEUE_UNFIT` or `BAD_ANSWER`.
    """
    try:
        with closing(_connected(folder)) as connected, connected.makefile("rb") as lines:
            connected.sendall(request_line(call, **arguments))
            while (line := lines.readline()) == alive_line():
                pass
    except TimeoutError as error:
        raise _stalled(folder) from error
    if not line.endswith(b"\n"):
        raise ConnectionResetError(f"the daemon of {folder} has gone away")
    return _read_answer(line)


def read_info(answer: Any) -> DaemonInfo:
    """Return the daemon's answer to `ping`.

    Raises:
        EnvironmentFault: `BAD_ANSWER`.
    """
    try:
        info: DaemonInfo = from_plain(DaemonInfo, answer)
    except ValueError as error:
        raise _bad_answer(error) from error
    return info


def _connected(folder: Path) -> socket.socket:
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(STALLED_S)
        with socket_of(folder) as address:
            connected.connect(address)
    except OSError as error:
        connected.close()
        match error:
            case FileNotFoundError() | ConnectionRefusedError():  # there never was one; it was killed
                raise ConnectionRefusedError(f"there is no daemon of {folder}") from error
            case TimeoutError() | BlockingIOError():
                raise _stalled(folder) from error
            case PermissionError():
                message = f"The queue in {folder} cannot be used: {error.strerror}."
                raise EnvironmentFault("NOT_YOUR_QUEUE", message, "Name another folder.") from error
            case _:
                raise queue_unfit(folder, error) from error
    return connected


def _read_answer(line: bytes) -> Any:
    try:
        match json.loads(line):
            case {"answer": value}:
                return value
            case {"error": dict() as error}:
                raise error_of(error)
            case _:
                raise ValueError("it is no answer")  # noqa: TRY301 - one place says what is wrong
    except (ValueError, RecursionError) as error:
        raise _bad_answer(error) from error


def _bad_answer(error: Exception) -> EnvironmentFault:
    return EnvironmentFault("BAD_ANSWER", f"The daemon's answer cannot be read: {error}.")


def _stalled(folder: Path) -> EnvironmentFault:
    return EnvironmentFault(
        "DAEMON_STALLED",
        f"The daemon of {folder} has said nothing for {STALLED_S:g} s.",
        "End it and start `codeflash-parallel serve` again: no job is lost by that.",
    )
