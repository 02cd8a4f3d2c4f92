"""What can be asked of a daemon, and what it answers. Pure values; `protocol` makes lines of them.

Named tuples, for a command that asks a daemon makes all of these classes before it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from codeflash_parallel.queue.jobs import Job, JobId, JobRequest, JobState, QueuePlace, Receipt, WaitReason
from codeflash_parallel.queue.metrics import QueueHealth

# --- what is answered ------------------------------------------------------------------------------------


class WorkerInfo(NamedTuple):
    """A worker process.

    Attributes:
        job_id: what it works on; empty: nothing.
        warm_for: repository whose evaluator it keeps open; empty: none.
        lease_age_s: seconds since the lease of its job was renewed.
    """

    pid: int
    job_id: str = ""
    warm_for: str = ""
    progress: str = ""
    lease_age_s: float = 0.0


class DaemonInfo(NamedTuple):
    """What a daemon says of itself.

    Attributes:
        slots: how many jobs it runs at once at most.
        token_holder: who has the host's benchmark token; empty: nobody.
        draining: it takes no more jobs and ends when those that run have ended.
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


class JobStatus(NamedTuple):
    """A job and where it stands."""

    job: Job
    place: QueuePlace


class JobEvent(NamedTuple):
    """Something about a job has changed."""

    job_id: JobId
    state: JobState
    position: int
    reason: WaitReason
    wait_s: float
    progress: str = ""


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A call or an answer that is its name alone; an empty tuple would count as false."""


class Acknowledgement(_Nothing):
    """It has been done; there is nothing to tell."""

    __slots__ = ()


class Jobs(NamedTuple):
    """Several jobs, in order of their insertion."""

    jobs: tuple[Job, ...]


class NewState(NamedTuple):
    """In which state a job is now."""

    state: JobState


# --- what is asked ---------------------------------------------------------------------------------------


class _OfJob(NamedTuple):
    """A call about one job."""

    job_id: JobId


class Ping(_Nothing):
    """Say who you are."""

    __slots__ = ()


class StoreChanged(_Nothing):
    """The store was written to by somebody else: look at it."""

    __slots__ = ()


class Submit(NamedTuple):
    """Take a job."""

    request: JobRequest


class Wait(NamedTuple):
    """Answer when a job is final, or after so many seconds; negative: however long it takes."""

    job_id: JobId
    max_s: float


class WatchJob(_OfJob):
    """Tell what changes, of one job or (empty) of all; the call ends with the job, or never."""

    __slots__ = ()


class GetStatus(_OfJob):
    """Say what is known of a job."""

    __slots__ = ()


class List(NamedTuple):
    """Name jobs; empty: of all states, submitters, runs. The latest `limit` of them."""

    states: frozenset[JobState] = frozenset()
    submitter: str = ""
    run: str = ""
    limit: int = 100


class Cancel(_OfJob):
    """Cancel a job; one that runs is killed."""

    __slots__ = ()


class Retry(_OfJob):
    """Send a dead job back to the queue."""

    __slots__ = ()


class Pause(_Nothing):
    """Start no more jobs."""

    __slots__ = ()


class Unpause(_Nothing):
    """Start jobs again."""

    __slots__ = ()


class GetHealth(_Nothing):
    """Say how the queue is."""

    __slots__ = ()


Request = (
    Ping
    | StoreChanged
    | Submit
    | Wait
    | WatchJob
    | GetStatus
    | List
    | Cancel
    | Retry
    | Pause
    | Unpause
    | GetHealth
)

#: Name of a call → what is asked, and what is answered.
CALLS: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    "ping": (Ping, DaemonInfo),
    "look": (StoreChanged, Acknowledgement),
    "submit": (Submit, Receipt),
    "wait": (Wait, JobStatus),
    "watch": (WatchJob, Acknowledgement),
    "status": (GetStatus, JobStatus),
    "list": (List, Jobs),
    "cancel": (Cancel, NewState),
    "retry": (Retry, QueuePlace),
    "pause": (Pause, Acknowledgement),
    "unpause": (Unpause, Acknowledgement),
    "health": (GetHealth, QueueHealth),
}
