"""The figures of the queue, read from its rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from types import MappingProxyType

from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.metrics import QueueHealth, spread
from codeflash_parallel.queue.store.database import Database

#: Durations are of the newest jobs, so many.
_RECENT = 1000

#: Code at the start of a fault.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,39}")

#: Labels must be bounded; rarer codes are counted together.
_MOST_CODES = 40

#: States of jobs that have not ended.
_OPEN = frozenset({JobState.QUEUED, JobState.RUNNING})

#: A job with a later start has not begun to wait.
_OLDEST = "SELECT MIN(queued_ms) FROM jobs WHERE state = 'queued' AND (ready = 1 OR fence > 0)"
_LAST_FAULT = """
SELECT fault FROM jobs WHERE state NOT IN ('queued', 'running') AND fault <> ''
ORDER BY ended_ms DESC LIMIT 1
"""
_DURATIONS = f"""
SELECT waited_ms, ended_ms - claimed_ms AS served_ms FROM jobs
WHERE state NOT IN ('queued', 'running') AND state = 'done' ORDER BY ended_ms DESC LIMIT {_RECENT}
"""  # noqa: S608 - our own number
#: Scans all rows; an index or counters would slow down every write.
_TALLIES = """
SELECT state, fault, COUNT(*) AS n, SUM(fence) AS attempts FROM jobs GROUP BY state, fault ORDER BY n DESC
"""


def read_health(database: Database, slots: int, now_ms: int) -> QueueHealth:
    """Return the queue's figures; part of the caller's transaction."""
    tallies = database.rows(_TALLIES)
    states = _states(tallies)
    oldest = database.rows(_OLDEST)[0][0]
    running = database.rows("SELECT job_id, beat_ms FROM jobs WHERE state = 'running' ORDER BY number")
    error = database.row(_LAST_FAULT)
    recent = database.rows(_DURATIONS)
    return QueueHealth(
        depth=states.get("queued", 0),
        running=states.get("running", 0),
        slots=slots,
        paused=bool(database.number("SELECT paused FROM queue")),
        waits=spread([row["waited_ms"] / 1000 for row in recent]),
        services=spread([row["served_ms"] / 1000 for row in recent]),
        oldest_s=0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000),
        last_error=error["fault"] if error is not None else "",
        lease_ages_s=MappingProxyType(
            {row["job_id"]: max(0.0, (now_ms - row["beat_ms"]) / 1000) for row in running}
        ),
        states=MappingProxyType(states),
        results=MappingProxyType(_results(tallies)),
        attempts=sum(row["attempts"] for row in tallies),
    )


def _states(tallies: Sequence[sqlite3.Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in tallies:
        counts[row["state"]] = counts.get(row["state"], 0) + row["n"]
    return counts


def _results(tallies: Sequence[sqlite3.Row]) -> dict[str, int]:
    """Count ended jobs by state and code of the fault."""
    counts: dict[str, int] = {}
    for row in tallies:
        if row["state"] in _OPEN:
            continue
        code = _CODE.match(row["fault"])
        label = row["state"] + (f" {code.group()}" if code else "")
        if code and label not in counts and len(counts) >= _MOST_CODES:
            label = f"{row['state']} OTHER"
        counts[label] = counts.get(label, 0) + row["n"]
    return counts
