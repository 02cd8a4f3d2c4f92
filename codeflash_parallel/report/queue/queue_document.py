"""The queue in words (times, places, jobs, health), and the JSON document of the `queue` commands. Light."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from codeflash_parallel.queue.jobs import FINAL, Job, JobState, QueuePlace, WaitReason, outcome_of
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import CodeflashParallelError
from codeflash_parallel.result.safe_text import encodable, one_line

if TYPE_CHECKING:
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo
    from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth


#: Characters of what there is to say of a job that a row shows.
_FAULT = 60

#: A wait that is not worth telling.
_SHORT_S = 0.5

_MINUTE_S, _HOUR_S = 60, 3600
#: From so many of the smaller unit on the larger one is used.
_SEVERAL = 2


def seconds_words(seconds: float) -> str:
    """Return a span as people say it: `0.4 s`, `40 s`, `3 min`, `2.5 h`."""
    if seconds >= _SEVERAL * _HOUR_S:
        return f"{seconds / _HOUR_S:.1f} h"
    if seconds >= _SEVERAL * _MINUTE_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds:.0f} s" if seconds >= 1 else f"{seconds:.1f} s"


def place_words(place: QueuePlace) -> str:
    """Return where a queued job stands, why, and about how long still, where anything has been measured."""
    is_known = place.wait_s >= _SHORT_S and place.reason != WaitReason.PAUSED
    wait = f", about {seconds_words(place.wait_s)} to wait" if is_known else ""
    return f"position {place.position}: {place.reason.value}{wait}"


def document_of(job: Job) -> Mapping[str, Any]:
    """Return the document of a job's run; empty if it has none."""
    document = json.loads(job.result).get("document") if job.result else None
    return document or {}


def job_words(job: Job, place: QueuePlace) -> str:
    """Return one line about a job: its id, its state, and what there is to say of it."""
    return one_line(f"job {job.job_id}: {_about(job, place)}")


def _about(job: Job, place: QueuePlace) -> str:
    match job.state:
        case JobState.QUEUED:
            return f"queued, {place_words(place)}"
        case JobState.RUNNING:
            return f"running, {job.progress}" if job.progress else "running"
        case JobState.DONE:
            return f"done: {_end_of(job)}"
        case _:
            return f"{job.state.value}: {job.fault}" if job.fault else job.state.value


def _end_of(job: Job) -> str:
    """Return what came of a job: its run's own sentence where there is one."""
    summary = document_of(job).get("summary", "")
    outcome = outcome_of(job)
    return summary or (
        outcome if outcome.isupper() else outcome.replace("_", " ")
    )  # codes stay what they are


JOB_COLUMNS = ("job", "state", "kind", "submitter", "run", "priority", "age", "")


def job_row(job: Job, place: QueuePlace, age_s: float) -> tuple[str, ...]:
    """Return a job's row of the table for people; the columns are `JOB_COLUMNS`."""
    about = _about(job, place).partition(", " if job.state not in FINAL else ": ")[2]
    columns = (job.job_id, job.state.value, job.kind.value, job.submitter, job.run, job.priority.value)
    return (*columns, seconds_words(age_s), one_line(_with_attempts(job, about), limit=_FAULT))


def _with_attempts(job: Job, about: str) -> str:
    """Add how often an open job has failed already."""
    failed = job.crashes + job.machinery_faults
    if job.state in FINAL or not failed:
        return about
    return "; ".join(filter(None, (about, f"attempt {failed + 1}")))


def health_rows(health: QueueHealth, daemon: DaemonInfo | None) -> list[tuple[str, str]]:
    """Return names and figures for people."""
    return [*_about_daemon(health, daemon), *_about_jobs(health)]


def _about_daemon(health: QueueHealth, daemon: DaemonInfo | None) -> Iterator[tuple[str, str]]:
    if daemon is None:
        yield "daemon", "none is running: `codeflash-parallel serve` starts one; jobs are kept"
    else:
        draining = ", ends when those that run have ended" if daemon.draining else ""
        yield "daemon", f"process {daemon.pid}, up for {seconds_words(daemon.up_s)}{draining}"
        yield "slots", f"{daemon.slots_busy} of {daemon.slots} busy"
        yield "benchmark token", daemon.token_holder or "free"
        if daemon.last_fault:
            yield "last fault of the daemon", daemon.last_fault
    if health.paused:
        yield "paused", "no job starts: `codeflash-parallel queue unpause` undoes it"


def _about_jobs(health: QueueHealth) -> Iterator[tuple[str, str]]:
    oldest = f", the oldest for {seconds_words(health.oldest_s)}" if health.depth else ""
    yield "waiting", f"{health.depth}{oldest}"
    yield "running", str(health.running)
    yield "waits", _spread_words(health.waits)
    yield "service times", _spread_words(health.services)
    for name, age_s in health.lease_ages_s.items():
        yield f"lease of {name}", f"renewed {seconds_words(age_s)} ago"
    if health.results:
        yield "finished", ", ".join(f"{count} {name}" for name, count in health.results.items())
    yield "attempts", str(health.attempts)
    if health.last_error:
        yield "last error", health.last_error


def _spread_words(spread: DurationSummary) -> str:
    if not spread.count:
        return "none yet"
    half, most = seconds_words(spread.p50_s), seconds_words(spread.p95_s)
    return f"half within {half}, 95 % within {most}, of {spread.count}"


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
