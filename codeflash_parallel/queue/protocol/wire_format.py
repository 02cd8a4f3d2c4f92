"""What daemon and clients say to each other: JSON lines over a Unix socket. Pure.

A connection is a sequence of calls. A call is one line; its answers are any number of `alive` and `event`
lines, and then one `answer` or `error` line::

    → {"v": 1, "call": "wait", "args": {"job_id": "…", "max_s": 100.0}}
    ← {"alive": true}                          every `ALIVE_S` while the call goes on
    ← {"answer": {"job": {…}, "place": {…}}}

An error travels as class, code, message, hint and fields, and is raised as the same class at the other end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from codeflash_parallel.queue import errors
from codeflash_parallel.queue.protocol.messages import CALLS, JobEvent, Request
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)

#: Version of the protocol; a call of another one is refused with `OTHER_PROTOCOL`.
VERSION: Final = 1
#: Longest line: a job's payload holds whole candidates, and its result a run's document.
MAX_LINE: Final = 64 * 1024 * 1024
#: How often a daemon says that it is still there while a call goes on, in seconds.
ALIVE_S: Final = 1.0
#: A daemon that says nothing for so long is stalled, in seconds. With the start of a command, and on a busy
#: machine, it is noticed within 5 s.
STALLED_S: Final = 3.5

_NAMES = {asked: name for name, (asked, _) in CALLS.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonHeartbeat:
    """The daemon is there, and the call goes on."""


class DaemonAnswer(NamedTuple):
    """The end of a call."""

    value: Any


Reply = DaemonHeartbeat | JobEvent | DaemonAnswer


def request_line(request: Request) -> bytes:
    """Return the line of a call, with its line break."""
    return _line({"v": VERSION, "call": _NAMES[type(request)], "args": to_plain(request)})


def read_request(line: bytes) -> Request:
    """Return what a line asks for.

    Raises:
        UsageError: `OTHER_PROTOCOL` or `BAD_CALL`.
    """
    data = _object(line)
    if data.get("v") != VERSION:
        hint = "Stop the daemon and start the one of the same version as the client."
        raise UsageError("OTHER_PROTOCOL", f"The other end speaks version {data.get('v')!r}.", hint)
    asked, _ = CALLS.get(str(data.get("call")), (None, None))
    if asked is None:
        raise UsageError("BAD_CALL", f"There is no call {data.get('call')!r}.")
    try:
        request: Request = from_plain(asked, data.get("args", {}))
    except ValueError as error:
        raise UsageError("BAD_CALL", f"The call {data['call']} is malformed: {error}.") from error
    return request


def alive_line() -> bytes:
    """Return the line that says that a call goes on."""
    return _line({"alive": True})


def event_line(event: JobEvent) -> bytes:
    """Return the line of an event."""
    return _line({"event": to_plain(event)})


def answer_line(value: Any) -> bytes:
    """Return the line that ends a call."""
    return _line({"answer": to_plain(value)})


def error_line(error: CodeflashParallelError) -> bytes:
    """Return the line that ends a call with an error."""
    return _line({"error": error_document(error)})


def read_reply(line: bytes, request: Request) -> Reply:
    """Return what a line answers to a call.

    Raises:
        CodeflashParallelError: the one that the daemon raised, of the same class.
        EnvironmentFault: `BAD_ANSWER`: it is none.
    """
    _, answered = CALLS[_NAMES[type(request)]]
    try:
        match json.loads(line):
            case {"alive": _}:
                return DaemonHeartbeat()
            case {"event": event}:
                told: JobEvent = from_plain(JobEvent, event)
                return told
            case {"answer": value}:
                return DaemonAnswer(value=from_plain(answered, value))
            case {"error": error}:
                raise error_of(error)
            case _:
                raise ValueError("it is no answer")  # noqa: TRY301 - one place says what is wrong
    except (ValueError, TypeError, RecursionError) as error:
        raise EnvironmentFault("BAD_ANSWER", f"The daemon's answer cannot be read: {error}.") from error


def error_document(error: CodeflashParallelError) -> dict[str, Any]:
    """Return an error as JSON values: its class, its own fields, and what every error has."""
    own = {name: value for name, value in vars(error).items() if name not in _EVERY}
    return {
        "type": type(error).__name__,
        "family": error.family,
        **{name: getattr(error, name) for name in _EVERY},
        "fields": to_plain(own),
    }


def error_of(data: Mapping[str, Any]) -> CodeflashParallelError:
    """Return the error that `error_document` was given; of a class that is not known here, by its family."""
    kind = _CLASSES.get(str(data.get("type"))) or _FAMILIES.get(str(data.get("family")), InternalError)
    error = kind.__new__(kind)
    texts = [str(data.get(name, "")) for name in _EVERY]
    CodeflashParallelError.__init__(error, *texts)
    for name, value in dict(data.get("fields", {})).items():
        setattr(error, str(name), value)
    return error


#: What every error has.
_EVERY = ("code", "message", "hint")
_FAMILIES: Mapping[str, type[CodeflashParallelError]] = {
    kind.family: kind for kind in (UsageError, EnvironmentFault, InternalError)
}
#: Errors that travel as what they are.
_TYPED: tuple[type[CodeflashParallelError], ...] = (
    *(errors.Refused, errors.QueueFull, errors.SubmitterLimit, errors.RateLimited),
    *(errors.BudgetSpent, errors.UnknownKind, errors.UnknownJob, errors.LeaseLost),
    errors.VariablesNotPassed,
    *(errors.OtherQueueVersion, errors.NetworkFileSystem, errors.QueueDiskFull, errors.QueueBusy),
    *(errors.QueueDamaged, errors.QueueUnfit),
)
_CLASSES = {kind.__name__: kind for kind in _TYPED}


def _line(data: Any) -> bytes:
    # ASCII: lone surrogates of undecodable file names come back as what they were.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError("BAD_CALL", f"A line is no JSON: {error}.") from error
    if not isinstance(data, dict):
        raise UsageError("BAD_CALL", "A line must be a JSON object.")
    return data
