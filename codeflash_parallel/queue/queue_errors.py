"""Errors of the queue. Each has its figures as attributes; `docs/reference/json.md` lists them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError


class _Described(CodeflashParallelError):  # noqa: N818 - a base of faults and refusals
    """An error that is described by its class, and completed by figures.

    Attributes:
        CODE, MESSAGE, HINT: of the error; the texts have places for figures.
        FIGURES: names of figures that documents show.
    """

    CODE: ClassVar[str]
    MESSAGE: ClassVar[str]
    HINT: ClassVar[str] = ""
    FIGURES: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **figures: object) -> None:
        super().__init__(self.CODE, self.MESSAGE.format(**figures), self.HINT.format(**figures))
        vars(self).update({name: figures[name] for name in self.FIGURES})


class Refused(_Described, UsageError):  # noqa: N818 - reads well where it is caught
    """A job is not taken, or not known."""


class QueueFull(Refused):
    """The limit of waiting jobs is reached."""

    CODE = "QUEUE_FULL"
    MESSAGE = "The queue holds {limit} jobs and takes no more."
    HINT = "Try again later."
    FIGURES = ("limit",)


class SubmitterLimit(Refused):
    """A submitter's limit of waiting jobs is reached."""

    CODE = "SUBMITTER_LIMIT"
    MESSAGE = "{submitter} has {limit} jobs in the queue, which is the limit."
    HINT = "Wait for one of them, or cancel one."
    FIGURES = ("submitter", "limit")


class RateLimited(Refused):
    """The job would expire before its submitter's rate lets it start; it is taken after `retry_after_s`."""

    CODE = "RATE_LIMITED"
    MESSAGE = "{submitter} has more jobs in the queue than its rate lets start before they expire."
    HINT = "Try again in {retry_after_s:.0f} s."
    FIGURES = ("submitter", "retry_after_s")
    retry_after_s: float


class BudgetSpent(Refused):
    """The job's run may spend no more; `figure` is `cpu_s`, `jobs` or `wall_s`."""

    CODE = "BUDGET_SPENT"
    MESSAGE = "The budget of {run} is spent: {figure} is {spent:g} of {limit:g}."
    HINT = "Begin another run: the budget that one states first holds."
    FIGURES = ("run", "figure", "spent", "limit")


class UnknownKind(Refused):
    """There is no such kind of job."""

    CODE = "UNKNOWN_KIND"
    MESSAGE = "There is no job of the kind {kind!r}."
    HINT = f"Kinds are {', '.join(JobKind)}."
    FIGURES = ("kind",)


class UnknownJob(Refused):
    """There is no such job."""

    CODE = "UNKNOWN_JOB"
    MESSAGE = "There is no job {job_id!r}."
    HINT = "`codeflash-parallel queue list` names all."
    FIGURES = ("job_id",)


class NoQueue(Refused):
    """There is no queue in the folder; submitting or pausing creates one."""

    CODE = "NO_QUEUE"
    MESSAGE = "There is no queue in {folder}."
    HINT = "`codeflash-parallel queue submit` makes one; another folder is named with --queue-dir."


class VariablesNotPassed(Refused):
    """The job asks for environment variables that the daemon does not pass on."""

    CODE = "NOT_PASSED"
    MESSAGE = "The daemon does not pass on {names}: candidates see its environment, not the submitter's."
    HINT = "Start it where that is set, with --pass-env, or submit without."
    FIGURES = ("names",)


class SnapshotNotStored(Refused):
    """The snapshot of the job is not in the queue's folder: it was taken for another one, or days ago."""

    CODE = "SNAPSHOT_NOT_STORED"
    MESSAGE = "The snapshot of the job is not in {folder}."
    HINT = "Make the request again, with the settings of this queue."


class LeaseLost(_Described, UsageError):  # noqa: N818
    """Another worker holds the job, or none; nothing has been changed."""

    CODE = "LEASE_LOST"
    MESSAGE = "Claim {fence} of job {job_id} has been lost."
    FIGURES = ("job_id", "fence")


class OtherQueueVersion(_Described, EnvironmentFault):
    """Another version has written the file."""

    CODE = "OTHER_QUEUE_VERSION"
    MESSAGE = "{path} has schema {version}, which another version of codeflash-parallel has written."
    HINT = "Use that version, or another folder."
    FIGURES = ("version",)


class NetworkFileSystem(_Described, EnvironmentFault):
    """The folder lies on a file system of several machines, where locks do not hold."""

    CODE = "NETWORK_FILE_SYSTEM"
    MESSAGE = "{folder} lies on a network file system ({name}), where locks do not hold."
    HINT = "Keep the queue on a disk of this machine: --queue-dir."
    FIGURES = ("name",)


class QueueUnfit(_Described, EnvironmentFault):
    """The folder of the queue, or a file in it, cannot be made, read or written."""

    CODE = "QUEUE_UNFIT"
    MESSAGE = "The queue in {folder} cannot be used: {why}."
    HINT = "See to its disk and rights, or name another folder with --queue-dir."
    FIGURES = ("why",)


class QueueDiskFull(_Described, EnvironmentFault):
    """The disk is full; acknowledged jobs are kept, the call has not been done."""

    CODE = "QUEUE_DISK_FULL"
    MESSAGE = "The disk of {folder} is full."
    HINT = "Make room, then try again."


class QueueBusy(_Described, EnvironmentFault):
    """Another process holds the file and does nothing."""

    CODE = "QUEUE_BUSY"
    MESSAGE = "Another process has held the queue in {folder} for {waited_s:.0f} s."
    HINT = "It may be stopped: let it continue, or end it."
    FIGURES = ("waited_s",)


class QueueDamaged(_Described, EnvironmentFault):
    """The file is damaged."""

    CODE = "QUEUE_DAMAGED"
    MESSAGE = "{path} is damaged: {why}."
    HINT = (
        "End all that use the queue and move the file away, with its -wal: the next submission makes an "
        "empty queue. What `sqlite3 FILE .recover` still reads of the old one can be submitted again."
    )
    FIGURES = ("why",)


def queue_unfit(folder: Path, error: Exception) -> QueueUnfit:
    """Return an error of the file system or of SQLite as the queue's."""
    return QueueUnfit(folder=folder, why=_why_unfit(folder, error))


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
