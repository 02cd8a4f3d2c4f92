"""Jobs of the evaluation queue: requests, states, places and receipts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

from codeflash_parallel.process.machine import boot_id

#: Id of a job within its queue.
JobId = NewType("JobId", str)

#: Number of a claim of a job; only the newest claim may complete it.
Fence = NewType("Fence", int)


class JobKind(StrEnum):
    """What a worker does for a job."""

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
    """What a full queue does with a new job."""

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
