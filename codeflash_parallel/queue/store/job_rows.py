"""Rows of the jobs table: queries, and conversion to and from jobs."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection
from typing import Any

from codeflash_parallel.queue.errors import LeaseLost, UnknownJob
from codeflash_parallel.queue.jobs import Fence, Instant, Job, JobId, JobKind, JobRequest, JobState, Priority
from codeflash_parallel.queue.policy import urgency_of
from codeflash_parallel.queue.store.database import Database

_SAME = frozenset(
    {
        "number", "key", "submitter", "run", "crashes", "machinery_faults", "payload", "result", "fault",
        "last_output", "progress", "cpu_s", "wall_s",
    }
)  # fmt: skip


def job_of(row: sqlite3.Row) -> Job:
    """Return the job that a row holds."""
    return Job(
        job_id=JobId(row["job_id"]),
        kind=JobKind(row["kind"]),
        priority=Priority(row["priority"]),
        state=JobState(row["state"]),
        fence=Fence(row["fence"]),
        suspect=bool(row["suspect"]),
        submitted=Instant(
            wall_s=row["submitted_wall_s"],
            boot_s=row["submitted_boot_s"],
            boot_id=row["submitted_boot_id"],
        ),
        **{name: row[name] for name in _SAME},
    )


def new_row(
    request: JobRequest, share: str, number: int, queued_ms: int, due_ms: int, now: Instant
) -> dict[str, Any]:
    """Return the columns of a new job; a job with a start time in the future is not ready."""
    return {
        "number": number,
        "job_id": f"{number}-{hashlib.sha256(request.key.encode()).hexdigest()[:8]}",
        "kind": JobKind(request.kind).value,
        "key": request.key,
        "payload": request.payload,
        "submitter": request.submitter,
        "run": request.run,
        "share": share,
        "priority": Priority(request.priority).value,
        "submitted_wall_s": now.wall_s,
        "submitted_boot_s": now.boot_s,
        "submitted_boot_id": now.boot_id,
        "state": JobState.QUEUED.value,
        "turn": number,
        "urgency_ms": urgency_of(queued_ms, request.priority),
        "queued_ms": queued_ms,
        "due_ms": due_ms,
        "ready": int(due_ms <= queued_ms),
    }


def find(database: Database, job_id: str) -> sqlite3.Row:
    """Return the row of a job.

    Raises:
        UnknownJob: there is none.
    """
    # All ids are ASCII, and SQLite takes no lone surrogates.
    row = database.row("SELECT * FROM jobs WHERE job_id = ?", (job_id,)) if job_id.isascii() else None
    if row is None:
        raise UnknownJob(job_id)
    return row


def find_key(database: Database, key: str) -> sqlite3.Row | None:
    """Return the row of the job with a key that is queued, running, done or dead."""
    return database.row(
        "SELECT * FROM jobs WHERE key = ? AND state IN ('queued', 'running', 'done', 'dead')", (key,)
    )


def find_held(database: Database, job_id: str, fence: int) -> sqlite3.Row:
    """Return the row of a job that runs with a fence.

    Raises:
        UnknownJob: there is none.
        LeaseLost: it runs with another fence, or does not run.
    """
    row = find(database, job_id)
    if row["state"] != JobState.RUNNING or row["fence"] != fence:
        raise LeaseLost(job_id, fence)
    return row


def find_all(
    database: Database, states: Collection[JobState], submitter: str, run: str, limit: int
) -> list[sqlite3.Row]:
    """Return the rows of jobs, newest first; empty arguments and 0 do not restrict."""
    marks = ", ".join("?" * len(states))
    conditions = {
        f"state IN ({marks})": [state.value for state in states],
        "submitter = ?": [submitter] if submitter else [],
        "run = ?": [run] if run else [],
    }
    chosen = {text: values for text, values in conditions.items() if values}
    where = f"WHERE {' AND '.join(chosen)}" if chosen else ""
    values = [value for values in chosen.values() for value in values]
    return database.rows(
        f"SELECT * FROM jobs {where} ORDER BY number DESC LIMIT ?",  # noqa: S608 - our own text
        (*values, limit or -1),
    )
