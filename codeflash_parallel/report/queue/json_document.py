"""What programs are told of the queue: one document for every `queue` command, and its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from codeflash_parallel.queue.jobs import Job, QueuePlace
from codeflash_parallel.report.queue.phrases import outcome_of, result_of
from codeflash_parallel.result.errors import CodeflashParallelError
from codeflash_parallel.result.safe_text import encodable

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
    document = result_of(job).get("document") or {}
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
    import json
    from importlib.resources import files

    text = files("codeflash_parallel.report").joinpath("queue.schema.json").read_text(encoding="utf-8")
    schema: Document = json.loads(text)
    return schema
