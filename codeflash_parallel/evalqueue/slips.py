"""What those who hand in at once say to each other: a slip for each job, a receipt for each slip. Pure."""

from __future__ import annotations

import json
from typing import NamedTuple

from codeflash_parallel.model.jobs import (
    Budget,
    Fence,
    Instant,
    Job,
    JobId,
    JobKind,
    JobRequest,
    JobState,
    Place,
    Priority,
    Receipt,
    Waiting,
)

#: Of the form of both, and of packets; who has another one hands in alone.
VERSION = 2

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Slip(NamedTuple):
    """A job that is handed in.

    Args:
        was_put_down: somebody else may have handed it in already.
    """

    request: JobRequest
    now: Instant
    was_put_down: bool = False


def slip_text(slip: Slip) -> bytes:
    """Return a slip as it is put down."""
    asked, budget = slip.request, slip.request.budget
    spent = (budget.cpu_s, budget.jobs, budget.wall_s)
    said = (asked.kind, asked.key, asked.payload, asked.submitter, asked.run, asked.priority)
    return _encode((*said, asked.start_after_s, spent, asked.pass_env, slip.now)).encode("ascii")


def read_slip(text: bytes) -> Slip:
    """Return what was put down.

    Raises:
        ValueError, TypeError: it is no slip of ours.
    """
    kind, key, payload, submitter, run, priority, start_after_s, budget, pass_env, now = json.loads(text)
    cpu_s, jobs, wall_s = budget
    request = JobRequest(
        kind=JobKind(kind),
        key=key,
        payload=payload,
        submitter=submitter,
        run=run,
        priority=Priority(priority),
        start_after_s=start_after_s,
        budget=Budget(cpu_s=cpu_s, jobs=jobs, wall_s=wall_s),
        pass_env=tuple(pass_env),
    )
    return Slip(request, Instant(*now))


def receipt_text(receipt: Receipt) -> bytes:
    """Return a receipt as it is answered."""
    return _encode(receipt).encode("ascii")


def read_receipt(text: bytes) -> Receipt:
    """Return what was answered."""
    job, place, is_new = json.loads(text)
    return Receipt(job=_job(Job(*job)), place=_place(Place(*place)), is_new=is_new)


def _job(job: Job) -> Job:
    return job._replace(
        job_id=JobId(job.job_id),
        kind=JobKind(job.kind),
        priority=Priority(job.priority),
        state=JobState(job.state),
        submitted=Instant(*job.submitted),
        fence=Fence(job.fence),
    )


def _place(place: Place) -> Place:
    return place._replace(reason=Waiting(place.reason))
