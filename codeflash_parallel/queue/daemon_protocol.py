"""Protocol between daemon and clients: JSON lines over a Unix socket. Pure.

A connection is a sequence of calls. A call is one line; it is answered by any number of `alive` and `event`
lines, and then one `answer` or `error` line::

    → {"v": 2, "call": "wait", "args": {"job_id": "…", "max_s": 100.0}}
    ← {"alive": true}                          every `ALIVE_S` while the call goes on
    ← {"answer": {"job": {…}, "place": {…}}}

An error travels as class, code, message, hint and fields, and is raised as the same class at the other end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, NamedTuple

from codeflash_parallel.queue import errors
from codeflash_parallel.queue.jobs import (
    Job,
    JobId,
    JobRequest,
    JobState,
    JobStatus,
    QueuePlace,
    Receipt,
    WaitReason,
)
from codeflash_parallel.queue.metrics import QueueHealth
from codeflash_parallel.result.codec import expect, from_plain, to_plain
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)

#: Version of the protocol; a call of another one is refused with `OTHER_PROTOCOL`.
VERSION: Final = 2
#: Longest line: a job's payload holds whole candidates, and its result a run's document.
MAX_LINE: Final = 64 * 1024 * 1024
#: Seconds between the `alive` lines of a call.
ALIVE_S: Final = 1.0
#: Seconds of silence after which a daemon counts as stalled: commands notice it within 5 s on a busy machine.
STALLED_S: Final = 3.5


# --- calls -----------------------------------------------------------------------------------------------


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


class JobEvent(NamedTuple):
    """A change of a job."""

    job_id: JobId
    state: JobState
    position: int
    reason: WaitReason
    wait_s: float
    progress: str = ""


class CallForm(NamedTuple):
    """Types of a call's arguments, by name, and of its answer."""

    arguments: Mapping[str, Any]
    answer: Any


_JOB = {"job_id": JobId}

#: Calls by name.
CALLS: Final[Mapping[str, CallForm]] = {
    "ping": CallForm({}, DaemonInfo),
    # The store was written to by another process: look at it.
    "look": CallForm({}, NoneType),
    "submit": CallForm({"request": JobRequest}, Receipt),
    # Answered when the job is final, or after `max_s` seconds; negative: no limit.
    "wait": CallForm({**_JOB, "max_s": float}, JobStatus),
    # Sends events of one job until it is final, or (empty id) of all jobs without end.
    "watch": CallForm(_JOB, NoneType),
    "status": CallForm(_JOB, JobStatus),
    "list": CallForm(
        {"states": frozenset[JobState], "submitter": str, "run": str, "limit": int}, tuple[Job, ...]
    ),
    "cancel": CallForm(_JOB, JobState),
    "retry": CallForm(_JOB, QueuePlace),
    "pause": CallForm({}, NoneType),
    "unpause": CallForm({}, NoneType),
    "health": CallForm({}, QueueHealth),
}


class Request(NamedTuple):
    """One call."""

    call: str
    arguments: Mapping[str, Any]


class DaemonAnswer(NamedTuple):
    """The end of a call."""

    value: Any


# --- lines -----------------------------------------------------------------------------------------------


def request_line(request: Request) -> bytes:
    """Return the line of a call, with its line break."""
    return _line({"v": VERSION, "call": request.call, "args": to_plain(request.arguments)})


def read_request(line: bytes) -> Request:
    """Return the call of a line.

    Raises:
        UsageError: `OTHER_PROTOCOL` or `BAD_CALL`.
    """
    data = _object(line)
    if data.get("v") != VERSION:
        hint = "Stop the daemon and start the one of the same version as the client."
        raise UsageError("OTHER_PROTOCOL", f"The other end speaks version {data.get('v')!r}.", hint)
    name = str(data.get("call"))
    if name not in CALLS:
        raise UsageError("BAD_CALL", f"There is no call {data.get('call')!r}.")
    try:
        return Request(name, _arguments(CALLS[name], expect(data.get("args", {}), dict)))
    except ValueError as error:
        raise UsageError("BAD_CALL", f"The call {name} is malformed: {error}.") from error


def _arguments(call: CallForm, data: Mapping[str, Any]) -> dict[str, Any]:
    if data.keys() != call.arguments.keys():
        raise ValueError(f"its arguments are {', '.join(call.arguments) or 'none'}")
    return {name: from_plain(kind, data[name]) for name, kind in call.arguments.items()}


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


def read_reply(line: bytes, request: Request) -> JobEvent | DaemonAnswer | None:
    """Return the reply of a line to a call; `None` for an `alive` line.

    Raises:
        CodeflashParallelError: the one that the daemon raised, of the same class.
        EnvironmentFault: `BAD_ANSWER`, the line is malformed.
    """
    try:
        match json.loads(line):
            case {"alive": _}:
                return None
            case {"event": event}:
                told: JobEvent = from_plain(JobEvent, event)
                return told
            case {"answer": value}:
                return DaemonAnswer(value=from_plain(CALLS[request.call].answer, value))
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
#: Errors of the queue are raised as their own classes.
_CLASSES = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, CodeflashParallelError)
}


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
