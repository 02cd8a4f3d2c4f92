"""What can be asked of a daemon, and what it answers. Pure values; `protocol` makes lines of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from codeflash_parallel.evalqueue.figures import Health
from codeflash_parallel.model.jobs import Job, JobId, JobRequest, JobState, Place, Receipt, Waiting

# --- what is answered ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerInfo:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonInfo:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    """A job and where it stands."""

    job: Job
    place: Place


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvent:
    """Something about a job has changed."""

    job_id: JobId
    state: JobState
    position: int
    reason: Waiting
    wait_s: float
    progress: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """It has been done; there is nothing to tell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """Several jobs, in order of their insertion."""

    jobs: tuple[Job, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NewState:
    """In which state a job is now."""

    state: JobState


# --- what is asked ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Ping:
    """Say who you are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """The store was written to by somebody else: look at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Submit:
    """Take a job."""

    request: JobRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """Answer when a job is final, or after so many seconds; negative: however long it takes."""

    job_id: JobId
    max_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Watch:
    """Tell what changes, of one job or (empty) of all; the call ends with the job, or never."""

    job_id: JobId


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """Say what is known of a job."""

    job_id: JobId


@dataclass(frozen=True, kw_only=True, slots=True)
class List:
    """Name jobs; empty: of all states, submitters, runs. The latest `limit` of them."""

    states: frozenset[JobState] = frozenset()
    submitter: str = ""
    run: str = ""
    limit: int = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """Cancel a job; one that runs is killed."""

    job_id: JobId


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """Send a dead job back to the queue."""

    job_id: JobId


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """Start no more jobs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unpause:
    """Start jobs again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GetHealth:
    """Say how the queue is."""


Request = Ping | Look | Submit | Wait | Watch | Status | List | Cancel | Retry | Pause | Unpause | GetHealth

#: Name of a call → what is asked, and what is answered.
CALLS: Final[Mapping[str, tuple[type[Any], type[Any]]]] = {
    "ping": (Ping, DaemonInfo),
    "look": (Look, Done),
    "submit": (Submit, Receipt),
    "wait": (Wait, JobStatus),
    "watch": (Watch, Done),
    "status": (Status, JobStatus),
    "list": (List, Jobs),
    "cancel": (Cancel, NewState),
    "retry": (Retry, Place),
    "pause": (Pause, Done),
    "unpause": (Unpause, Done),
    "health": (GetHealth, Health),
}
