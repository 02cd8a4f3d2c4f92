"""Jobs of the evaluation queue: what is submitted, what is kept of it, and why it was refused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, NewType

#: Names a job for as long as its queue exists.
JobId = NewType("JobId", str)

#: Grows with every claim of a job; who completes a job must hold the newest one.
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
    """Where a job stands. All but the first two are final; only a dead job can be sent back to the queue."""

    #: Waits for its turn, or for its next attempt.
    QUEUED = "queued"
    #: A worker holds its lease.
    RUNNING = "running"
    #: It has its one result.
    DONE = "done"
    #: Its submitter, or an operator, has cancelled it.
    CANCELLED = "cancelled"
    #: It waited for longer than a job may.
    EXPIRED = "expired"
    #: A newer job took its place in a full queue (`drop-oldest`).
    DROPPED = "dropped"
    #: Its attempts are used up.
    DEAD = "dead"


class Priority(StrEnum):
    """How urgent a job is; the first is the most urgent."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    IDLE = "idle"


class Strategy(StrEnum):
    """Who is next."""

    #: The run, and in it the submitter, that has had the least time for its weight.
    FAIR = "fair"
    #: The job that has waited longest.
    FIFO = "fifo"
    #: The most urgent job; waiting makes a job more urgent.
    PRIORITY = "priority"


class Overflow(StrEnum):
    """What becomes of a job for which a full queue has no room."""

    #: It is refused.
    REJECT = "reject"
    #: The job that has waited longest is dropped for it, and its submitter is told.
    DROP_OLDEST = "drop-oldest"


class WaitReason(StrEnum):
    """Why a job that is queued does not run; the value is what a person is told."""

    #: It is next.
    NEXT = "it is next"
    #: Others are before it.
    TURN = "other jobs are before it"
    #: As many jobs run as may.
    SLOTS = "all slots are busy"
    #: Its submitter has as many running as it may.
    SUBMITTER = "your limit of running jobs is reached"
    #: As many jobs of its kind run as may.
    KIND = "the limit of running jobs of its kind is reached"
    #: Its submitter's rate does not allow another start yet.
    RATE = "your rate limit is reached"
    #: It was asked to start later.
    LATER = "it is to start later"
    #: It failed for a reason of the machine, and is tried again after a pause.
    BACKOFF = "it is tried again after a pause"
    #: One that may have killed a daemon runs, or waits until nothing else does.
    ALONE = "a job that may have killed a daemon has to run alone"
    #: The queue is paused.
    PAUSED = "the queue is paused"
    #: Another race has the machine.
    TOKEN = "the benchmark token is taken"  # noqa: S105 - not a password
    #: Nobody takes jobs.
    NO_DAEMON = "no daemon is running"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a run may spend on its jobs; 0 means no limit.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRequest:
    """What a submitter hands in.

    Args:
        key: hexadecimal digest of snapshot, edits, settings and evaluator version: equal keys, one result.
        payload: JSON text; what a worker of the kind needs.
        submitter: who asks.
        run: which of the runs that share the machine it belongs to; empty: the submitter is a run by itself.
        start_after_s: not to start before so many seconds have passed.
        budget: of the run; the first one that a run states holds.
        pass_env: names and patterns of variables that candidates shall see; the values are the daemon's.
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
    """Where a queued job stands, by the rule that schedules.

    Args:
        position: 1 is next; 0 for a job that is not queued.
        wait_s: estimate; negative where nothing has been measured yet.
    """

    position: int
    reason: WaitReason
    wait_s: float


class Job(NamedTuple):
    """What the queue knows of a job.

    Args:
        number: of its insertion; among equals the lower one is first.
        result: JSON text; empty while there is none.
        fault: why it failed last, or why it was refused; empty if it never did.
        last_output: the end of what its last failed attempt printed.
        suspect: a daemon died while it ran; until it has its result, it runs with nobody beside it.
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
    """What `submit` answers: the job, new or already known by its key, and where it stands."""

    job: Job
    place: QueuePlace
    is_new: bool
