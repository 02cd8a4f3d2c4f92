"""What people are told of the queue: times, places and jobs in words. Light: `submit` answers at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from codeflash_parallel.queue.jobs import Job, JobState, QueuePlace, WaitReason
from codeflash_parallel.result.safe_text import one_line

#: States in which a job has still something before it.
OPEN = frozenset({JobState.QUEUED, JobState.RUNNING})

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


def result_of(job: Job) -> Mapping[str, Any]:
    """Return the result of a job as a value; empty while there is none."""
    if not job.result:
        return {}
    result = json.loads(job.result)
    return result if isinstance(result, dict) else {"scores": result}


def outcome_of(job: Job) -> str:
    """Return a job's end in one word: verdict, code of an error, or state; empty while it is open."""
    if job.state in OPEN:
        return ""
    if job.state != JobState.DONE:
        return job.state.value
    result = result_of(job)
    document = result.get("document") or {}
    error = document.get("error") or result.get("error") or {}
    return str(document.get("verdict") or error.get("code") or _without_verdict(result))


def _without_verdict(result: Mapping[str, Any]) -> str:
    return "scores" if result.get("scores") is not None else "incomplete"


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
    summary = (result_of(job).get("document") or {}).get("summary", "")
    outcome = outcome_of(job)
    return summary or (
        outcome if outcome.isupper() else outcome.replace("_", " ")
    )  # codes stay what they are


JOB_COLUMNS = ("job", "state", "kind", "submitter", "run", "priority", "age", "")


def job_row(job: Job, place: QueuePlace, age_s: float) -> tuple[str, ...]:
    """Return a job's row of the table for people; the columns are `JOB_COLUMNS`."""
    about = _about(job, place).partition(", " if job.state in OPEN else ": ")[2]
    columns = (job.job_id, job.state.value, job.kind.value, job.submitter, job.run, job.priority.value)
    return (*columns, seconds_words(age_s), one_line(_with_attempts(job, about), limit=_FAULT))


def _with_attempts(job: Job, about: str) -> str:
    """Add how often an open job has failed already."""
    failed = job.crashes + job.machinery_faults
    if job.state not in OPEN or not failed:
        return about
    return "; ".join(filter(None, (about, f"attempt {failed + 1}")))
