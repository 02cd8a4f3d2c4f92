"""Jobs of the evaluation queue: requests, states, places, receipts and results."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, NewType

from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)

#: Id of a job within its queue.
JobId = NewType("JobId", str)

#: Number of a claim of a job; only the newest claim may complete it.
Fence = NewType("Fence", int)


class JobKind(StrEnum):
    """Work that a worker does for a job."""

    #: Checks, races and profiles candidates.
    EVALUATE = "evaluate"
    #: Checks candidates.
    CHECK = "check"
    #: Checks candidates and races them; no profile, no repair, no refinement.
    RACE = "race"
    #: Runs the submitter's own grader in a slot that holds the candidate, and returns the JSON it prints.
    COMMAND = "command"


class JobState(StrEnum):
    """State of a job. All but the first two are final; only a dead job can be sent back to the queue."""

    #: Waits for its turn, or for its next attempt.
    QUEUED = "queued"
    #: A worker holds its lease.
    RUNNING = "running"
    #: It has a result.
    DONE = "done"
    #: Its submitter, or an operator, has cancelled it.
    CANCELLED = "cancelled"
    #: It waited for longer than `queue_timeout`.
    EXPIRED = "expired"
    #: A newer job took its place in a full queue (`drop-oldest`).
    DROPPED = "dropped"
    #: Its attempts are used up.
    DEAD = "dead"


#: States that end a job.
FINAL: Final = frozenset(JobState) - {JobState.QUEUED, JobState.RUNNING}


class Priority(StrEnum):
    """Urgency of a job; the first is the most urgent."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    IDLE = "idle"


class Strategy(StrEnum):
    """Rule that decides which job is next."""

    #: That of the run, and in it the submitter, with the least CPU time for its weight.
    FAIR = "fair"
    #: The job that has waited longest.
    FIFO = "fifo"
    #: The most urgent job; waiting makes a job more urgent.
    PRIORITY = "priority"


class Overflow(StrEnum):
    """Rule for a new job when the queue is full."""

    #: It is refused.
    REJECT = "reject"
    #: The job that has waited longest is dropped for it, and its submitter is told.
    DROP_OLDEST = "drop-oldest"


class WaitReason(StrEnum):
    """Why a queued job does not run; the value is the text for people."""

    #: It is next.
    NEXT = "it is next"
    #: Other jobs are before it.
    TURN = "other jobs are before it"
    #: The limit of running jobs is reached.
    SLOTS = "all slots are busy"
    #: Its submitter's limit of running jobs is reached.
    SUBMITTER = "your limit of running jobs is reached"
    #: Its kind's limit of running jobs is reached.
    KIND = "the limit of running jobs of its kind is reached"
    #: Its submitter's rate does not allow another start yet.
    RATE = "your rate limit is reached"
    #: Its start time has not come.
    LATER = "it is to start later"
    #: It failed for a reason of the machine, and is tried again after a pause.
    BACKOFF = "it is tried again after a pause"
    #: A job that may have killed a daemon runs alone, or waits to do so.
    ALONE = "a job that may have killed a daemon has to run alone"
    #: The queue is paused.
    PAUSED = "the queue is paused"
    #: Another race has the machine.
    TOKEN = "the benchmark token is taken"  # noqa: S105 - not a password
    #: No daemon runs.
    NO_DAEMON = "no daemon is running"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Limits of a run; 0 means no limit.

    Args:
        cpu_s: CPU seconds of its jobs, as measured.
        jobs: how many it may submit.
        wall_s: seconds since its first submission.
    """

    cpu_s: float = 0.0
    jobs: int = 0
    wall_s: float = 0.0


class Instant(NamedTuple):
    """A moment by two clocks.

    Args:
        wall_s: seconds since the epoch; can be stepped.
        boot_s: seconds since this machine started, sleep included; cannot be stepped.
        boot_id: of this start of the machine.
    """

    wall_s: float
    boot_s: float
    boot_id: str

    def since(self, earlier: Instant) -> float:
        """Return the seconds since another moment; never negative.

        By the clock that nobody can step, unless the machine was started anew in between.
        """
        if self.boot_id == earlier.boot_id:
            return max(0.0, self.boot_s - earlier.boot_s)
        return max(0.0, self.wall_s - earlier.wall_s)


def now() -> Instant:
    """Return the present moment by the boot clock and by the wall clock."""
    return Instant(wall_s=time.time(), boot_s=time.clock_gettime(time.CLOCK_BOOTTIME), boot_id=boot_id())


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """A job as it is submitted.

    Args:
        key: hexadecimal digest of snapshot, edits, settings and evaluator version: equal keys, one result.
        payload: JSON text for the worker.
        submitter: name of the submitter.
        run: name of its run; empty: the submitter is a run by itself.
        start_after_s: seconds before it may start.
        budget: of the run; the first one that a run states holds.
        pass_env: names and patterns of the daemon's variables that candidates see.
        snapshot: place of its snapshot, see `queue.job_builder.take_snapshot`; it is kept until the job ends.
    """

    kind: JobKind
    key: str
    payload: str
    submitter: str
    run: str = ""
    priority: Priority = Priority.NORMAL
    start_after_s: float = 0.0
    budget: Budget = Budget()
    pass_env: tuple[str, ...] = ()
    snapshot: str = ""


class QueuePlace(NamedTuple):
    """Place of a job in the order of claims.

    Args:
        position: 1 is next; 0 for a job that is not queued.
        wait_s: estimate; negative where nothing has been measured yet.
    """

    position: int
    reason: WaitReason
    wait_s: float


class Job(NamedTuple):
    """A job.

    Args:
        number: of its insertion; among equals the lower one is first.
        result: JSON text; empty while there is none.
        fault: its last fault; empty if it had none.
        last_output: end of the output of its last failed attempt.
        suspect: a daemon died while it ran; until it has its result, it runs alone.
    """

    job_id: JobId
    number: int
    kind: JobKind
    key: str
    submitter: str
    run: str
    priority: Priority
    state: JobState
    submitted: Instant
    fence: Fence
    crashes: int
    machinery_faults: int
    payload: str
    result: str = ""
    fault: str = ""
    last_output: str = ""
    progress: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    suspect: bool = False


class JobStatus(NamedTuple):
    """A job and its place."""

    job: Job
    place: QueuePlace


class Receipt(NamedTuple):
    """Answer to `submit`: the job, new or known by its key, and its place."""

    job: Job
    place: QueuePlace
    is_new: bool


# --- results ---------------------------------------------------------------------------------------------

#: Final states without a result → code, what happened, what to do.
_WITHOUT_RESULT: Mapping[JobState, tuple[str, str, str]] = {
    JobState.CANCELLED: ("JOB_CANCELLED", "was cancelled", "Submit it again if it is still wanted."),
    JobState.EXPIRED: ("JOB_EXPIRED", "waited for longer than a job may", "Submit it again."),
    JobState.DROPPED: ("JOB_DROPPED", "made room for a newer one in a full queue", "Submit it again."),
    JobState.DEAD: ("JOB_DEAD", "failed on all its attempts", "`queue retry` sends it back to the queue."),
}


class JobEnded(EnvironmentFault):
    """A job ended without a result.

    Args:
        job: as it is now.

    Attributes:
        job_id, state: of the job.
        fault: its last fault; empty if it had none.
        last_output: end of the output of its last failed attempt.
    """

    def __init__(self, job: Job) -> None:
        code, what, hint = _WITHOUT_RESULT[job.state]
        why = f" ({job.fault})" if job.fault else ""
        super().__init__(code, f"Job {job.job_id} {what}{why}.", hint)
        self.job_id = job.job_id
        self.state = job.state
        self.fault = job.fault
        self.last_output = job.last_output


def result_of(job: Job) -> dict[str, Any]:
    """Return the result of a job that is final.

    Returns:
        What its worker wrote: `document`, `scores`, `error`, `intervals`, `cpu_s` and `worker`.

    Raises:
        CodeflashParallelError: the error that its evaluation ended with.
        JobEnded: it has no result.
    """
    if job.state is not JobState.DONE:
        raise JobEnded(job)
    result: dict[str, Any] = json.loads(job.result)
    if result.get("error"):
        raise error_of(result["error"])
    return result


def outcome_of(job: Job) -> str:
    """Return a job's end in one word: verdict, code of an error, or state; empty while it is open."""
    if job.state not in FINAL:
        return ""
    if job.state is not JobState.DONE:
        return job.state.value
    result = json.loads(job.result)
    document = result.get("document") or {}
    error = document.get("error") or result.get("error") or {}
    without_verdict = "incomplete" if result.get("scores") is None else "scores"
    return str(document.get("verdict") or error.get("code") or without_verdict)


def error_document(error: CodeflashParallelError) -> dict[str, Any]:
    """Return an error as JSON values: its family, what every error has, and its own fields."""
    own = {name: value for name, value in vars(error).items() if name not in _EVERY}
    texts = {name: getattr(error, name) for name in _EVERY}
    return {"type": type(error).__name__, "family": error.family, **texts, "fields": to_plain(own)}


def error_of(data: Mapping[str, Any]) -> CodeflashParallelError:
    """Return an error of the family that `error_document` was given, with the same texts and fields."""
    kind = _FAMILIES.get(str(data.get("family")), InternalError)
    error = kind(*(str(data.get(name, "")) for name in _EVERY))
    for name, value in dict(data.get("fields", {})).items():
        setattr(error, str(name), value)
    return error


#: What every error has.
_EVERY = ("code", "message", "hint")
_FAMILIES: Mapping[str, type[CodeflashParallelError]] = {
    kind.family: kind for kind in (UsageError, EnvironmentFault, InternalError)
}
