"""Errors of the queue.

CodeflashParallelError
├── UsageError
│   ├── Refused               a job is not taken, or not known
│   │   ├── QueueFull            QUEUE_FULL        the limit of waiting jobs is reached
│   │   ├── SubmitterLimit       SUBMITTER_LIMIT   its submitter's limit of waiting jobs is reached
│   │   ├── RateLimited          RATE_LIMITED      it would expire before its submitter's rate lets it start
│   │   ├── BudgetSpent          BUDGET_SPENT      its run may spend no more
│   │   ├── UnknownKind          UNKNOWN_KIND
│   │   ├── UnknownJob           UNKNOWN_JOB
│   │   ├── VariablesNotPassed   NOT_PASSED        it asks for variables that the daemon does not pass on
│   │   ├── NoQueue              NO_QUEUE          there is no queue to look at; submitting creates one
│   │   └── Duplicate            DUPLICATE         its verdict is there already (only the client raises it)
│   └── LeaseLost             LEASE_LOST        another worker has the job, or none
└── EnvironmentFault
    ├── OtherQueueVersion     OTHER_QUEUE_VERSION   another version has written the file
    ├── NetworkFileSystem     NETWORK_FILE_SYSTEM   locks do not hold there
    ├── QueueUnfit            QUEUE_UNFIT           its folder cannot be made, read or written
    ├── QueueDiskFull         QUEUE_DISK_FULL
    ├── QueueBusy             QUEUE_BUSY            another process holds the file, and does nothing
    └── QueueDamaged          QUEUE_DAMAGED         the file is damaged
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.queue.jobs import Job, JobKind
from codeflash_parallel.result.errors import EnvironmentFault, UsageError


class Refused(UsageError):  # noqa: N818 - reads well where it is caught
    """A job is not taken, or not known."""


class QueueFull(Refused):
    """The limit of waiting jobs is reached."""

    def __init__(self, limit: int) -> None:
        super().__init__("QUEUE_FULL", f"The queue holds {limit} jobs and takes no more.", "Try again later.")
        self.limit = limit


class SubmitterLimit(Refused):
    """A submitter's limit of waiting jobs is reached."""

    def __init__(self, submitter: str, limit: int) -> None:
        super().__init__(
            "SUBMITTER_LIMIT",
            f"{submitter} has {limit} jobs in the queue, which is the limit.",
            "Wait for one of them, or cancel one.",
        )
        self.submitter = submitter
        self.limit = limit


class RateLimited(Refused):
    """A job would expire before its submitter's rate lets it start.

    Args:
        retry_after_s: seconds after which it is taken.
    """

    def __init__(self, submitter: str, retry_after_s: float) -> None:
        super().__init__(
            "RATE_LIMITED",
            f"{submitter} has more jobs in the queue than its rate lets start before they expire.",
            f"Try again in {retry_after_s:.0f} s.",
        )
        self.submitter = submitter
        self.retry_after_s = retry_after_s


class BudgetSpent(Refused):
    """A run may spend no more.

    Args:
        figure: of the budget: cpu_s, jobs or wall_s.
    """

    def __init__(self, run: str, figure: str, spent: float, limit: float) -> None:
        super().__init__(
            "BUDGET_SPENT",
            f"The budget of {run or 'this run'} is spent: {figure} is {spent:g} of {limit:g}.",
            "Begin another run: the budget that one states first holds.",
        )
        self.run = run
        self.figure = figure
        self.spent = spent
        self.limit = limit


class UnknownKind(Refused):
    """There is no such kind of job."""

    def __init__(self, kind: str) -> None:
        super().__init__(
            "UNKNOWN_KIND", f"There is no job of the kind {kind!r}.", f"Kinds are {', '.join(JobKind)}."
        )
        self.kind = kind


class UnknownJob(Refused):
    """There is no such job."""

    def __init__(self, job_id: str) -> None:
        super().__init__(
            "UNKNOWN_JOB", f"There is no job {job_id!r}.", "`codeflash-parallel queue list` names all."
        )
        self.job_id = job_id


class NoQueue(Refused):
    """There is no queue in a folder; only submitting and pausing create one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            "NO_QUEUE",
            f"There is no queue in {folder}.",
            "`codeflash-parallel queue submit` makes one; another folder is named with --queue-dir.",
        )
        self.folder = str(folder)


class VariablesNotPassed(Refused):
    """A job asks for environment variables that the daemon does not pass on."""

    def __init__(self, names: Sequence[str]) -> None:
        joined = ", ".join(names)
        super().__init__(
            "NOT_PASSED",
            f"The daemon does not pass on {joined}: candidates see its environment, not the submitter's.",
            f"Start it where that is set, with --pass-env {names[0]}, or ask without.",
        )
        self.names = joined


class Duplicate(Refused):
    """An equal job has its verdict already."""

    def __init__(self, job: Job) -> None:
        super().__init__(
            "DUPLICATE", f"The same was asked before, as job {job.job_id}; its verdict is there."
        )
        self.job = job


class LeaseLost(UsageError):  # noqa: N818
    """A worker reports about a job that it does not hold any more; nothing has been changed."""

    def __init__(self, job_id: str, fence: int) -> None:
        super().__init__("LEASE_LOST", f"Claim {fence} of job {job_id} has been lost.")
        self.job_id = job_id
        self.fence = fence


class OtherQueueVersion(EnvironmentFault):
    """Another version has written the file."""

    def __init__(self, path: Path, version: int) -> None:
        super().__init__(
            "OTHER_QUEUE_VERSION",
            f"{path} has schema {version}, which another version of codeflash-parallel has written.",
            "Use that version, or another folder.",
        )
        self.version = version


class NetworkFileSystem(EnvironmentFault):
    """Locks do not hold on a file system that several machines share."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(
            "NETWORK_FILE_SYSTEM",
            f"{folder} lies on a network file system ({name}), where locks do not hold.",
            "Keep the queue on a disk of this machine: --queue-dir.",
        )
        self.name = name


class QueueUnfit(EnvironmentFault):
    """The folder of a queue, or a file in it, cannot be used."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(
            "QUEUE_UNFIT",
            f"The queue in {folder} cannot be used: {why}.",
            "See to its disk and rights, or name another folder with --queue-dir.",
        )
        self.why = why


def queue_unfit(folder: Path, error: Exception) -> QueueUnfit:
    """Return an error of the file system or of SQLite as the queue's."""
    return QueueUnfit(folder, _why_unfit(folder, error))


def _why_unfit(folder: Path, error: Exception) -> str:
    """Return what is wrong: a path that is no folder is named before an error about a path below."""
    if not isinstance(error, OSError):
        return str(error)
    place = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), folder)
    if place.is_symlink() and not os.path.exists(place):  # noqa: PTH110 - handles loops
        return f"{place} is a link that leads nowhere"
    if os.path.lexists(place) and not os.path.isdir(place):  # noqa: PTH112 - handles missing rights
        return f"{place} is not a folder"
    where = f"{error.filename}: " if error.filename not in {None, str(folder)} else ""
    return f"{where}{error.strerror}"


class QueueDiskFull(EnvironmentFault):
    """The disk is full; acknowledged jobs are kept, the call has not been done."""

    def __init__(self, folder: Path) -> None:
        super().__init__("QUEUE_DISK_FULL", f"The disk of {folder} is full.", "Make room, then try again.")


class QueueBusy(EnvironmentFault):
    """Another process holds the file and does nothing."""

    def __init__(self, folder: Path, waited_s: float) -> None:
        super().__init__(
            "QUEUE_BUSY",
            f"Another process has held the queue in {folder} for {waited_s:.0f} s.",
            "It may be stopped: let it go on, or end it.",
        )


class QueueDamaged(EnvironmentFault):
    """The file is damaged."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            "QUEUE_DAMAGED",
            f"{path} is damaged: {why}.",
            "End all that use the queue and move the file away, with its -wal: "
            "the next submission makes an empty queue. "
            "What `sqlite3 FILE .recover` still reads of the old one can be handed in again.",
        )
        self.why = why
