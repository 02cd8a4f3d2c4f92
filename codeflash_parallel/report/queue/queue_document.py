"""The JSON document of the `queue` commands, and its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from codeflash_parallel.queue.jobs import Job, QueuePlace, outcome_of
from codeflash_parallel.report.json_document import schema
from codeflash_parallel.report.queue.phrases import document_of
from codeflash_parallel.result.candidate.content_json import encodable
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import CodeflashParallelError

if TYPE_CHECKING:
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo
    from codeflash_parallel.queue.metrics import QueueHealth

Document = dict[str, Any]

#: Within the major version fields and codes are only added.
QUEUE_SCHEMA_VERSION = "1.0"


class Newness(StrEnum):
    """Whether an answer made a job."""

    #: The job is new, or the answer is not about a submission.
    NEW = "new"
    #: An equal job was known already, by its key.
    KNOWN = "known"


class JobView(NamedTuple):
    """A job as it is shown: with its place, by the rule that schedules."""

    job: Job
    place: QueuePlace
    age_s: float
    newness: Newness = Newness.NEW


def queue_document(
    views: Sequence[JobView], *, daemon: str, health: Mapping[str, Any] | None = None
) -> Document:
    """Return what a `queue` command says.

    Args:
        views: the jobs that it is about.
        daemon: `running` or `none`.
        health: figures of the whole queue, where they were asked for.
    """
    return {
        "schema_version": QUEUE_SCHEMA_VERSION,
        "daemon": daemon,
        "error": None,
        "jobs": [job_document(view) for view in views],
        "health": None if health is None else _plain(health),
    }


def refusal_document(error: CodeflashParallelError, fields: Mapping[str, Any]) -> Document:
    """Return the document of a request that was refused.

    Args:
        error: the refusal.
        fields: its figures, by name: `retry_after_s` and the like.
    """
    told = {"family": error.family, "code": error.code, "message": error.message, "hint": error.hint}
    document = queue_document((), daemon="unknown")
    return {**document, "error": {name: encodable(text) for name, text in told.items()} | _plain(fields)}


def job_document(view: JobView) -> Document:
    """Return what the document says about one job."""
    job, place = view.job, view.place
    document = document_of(job)
    return {
        "job_id": job.job_id,
        "number": job.number,
        "kind": job.kind.value,
        "state": job.state.value,
        "key": job.key,
        "submitter": encodable(job.submitter),
        "run": encodable(job.run),
        "priority": job.priority.value,
        "submitted_at": job.submitted.wall_s,
        "age_s": round(view.age_s, 3),
        "known": view.newness == Newness.KNOWN,
        "place": _place(place) if place.position else None,
        "crashes": job.crashes,
        "machinery_faults": job.machinery_faults,
        "progress": encodable(job.progress),
        "outcome": outcome_of(job),
        "verdict": document.get("verdict"),
        "winner": document.get("winner"),
        "fault": encodable(job.fault),
        "last_output": encodable(job.last_output),
        "cpu_s": job.cpu_s,
        "wall_s": job.wall_s,
    }


def health_document(health: QueueHealth, daemon: DaemonInfo | None) -> Document:
    """Return the figures as JSON has them; a duration that nobody has measured is null.

    Args:
        health: counted from the queue's rows.
        daemon: what it says of itself; `None`: there is none.
    """
    figures = to_plain(health)
    for name in ("waits", "services"):
        spread = figures[name]
        figures[name] = {key: value if value >= 0 else None for key, value in spread.items()}
    utilisation = _utilisation(health, daemon)
    return {**figures, "utilisation": utilisation, "daemon": None if daemon is None else to_plain(daemon)}


def _utilisation(health: QueueHealth, daemon: DaemonInfo | None) -> float:
    """Return the share of the slots that are at work: by the daemon, which knows its slots best."""
    busy, slots = (health.running, health.slots) if daemon is None else (daemon.slots_busy, daemon.slots)
    return round(busy / slots, 3) if slots else 0.0


def _place(place: QueuePlace) -> Document:
    return {
        "position": place.position,
        "reason": place.reason.name,
        "says": place.reason.value,
        "wait_s": place.wait_s if place.wait_s >= 0 else None,
    }


def _plain(values: Any) -> Any:
    """Return values as JSON has them."""
    match values:
        case str():
            return encodable(str(values))
        case Mapping():
            return {encodable(str(key)): _plain(value) for key, value in values.items()}
        case list() | tuple():
            return [_plain(value) for value in values]
        case _:
            return values


def queue_schema() -> Document:
    """Return the JSON Schema (2020-12) of the document."""
    return schema("queue.schema.json")
