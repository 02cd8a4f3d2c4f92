"""Figures of a queue: counted from its rows, and written in the text format of Prometheus."""

from __future__ import annotations

import math
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from codeflash_parallel.queue.jobs import FINAL, JobState
from codeflash_parallel.queue.store.database import Database

#: Labels and figures.
_Samples = Sequence[tuple[Mapping[str, str], float]]

#: Durations are of the newest jobs, so many.
_RECENT = 1000

#: Code at the start of a fault.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,39}")

#: Labels must be bounded; rarer codes are counted together.
_MOST_CODES = 40

#: A job with a later start has not begun to wait.
_OLDEST = "SELECT MIN(queued_ms) FROM jobs WHERE state = 'queued' AND (ready = 1 OR fence > 0)"
_BUSY = """
SELECT busy_ms + COALESCE(
    (SELECT SUM(MIN(?, MAX(lease_ms, beat_ms)) - claimed_ms) FROM jobs WHERE state = 'running'), 0
) FROM queue
"""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class DurationSummary:
    """Percentiles of durations in seconds; negative if there are none."""

    count: int = 0
    p50_s: float = -1.0
    p95_s: float = -1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHealth:
    """Figures of a queue, counted from its rows.

    Attributes:
        depth: jobs that wait, those included that may not start yet.
        slots: jobs that may run at once.
        waits: from the submission to the first start, of recent jobs.
        services: from the last start to the end, of recent jobs that have a result.
        oldest_s: for how long the oldest waiting job has waited for its turn; 0 if none does.
        last_error: the newest fault of any job that has ended; empty if there was none.
        lease_ages_s: seconds since the last sign of life of each running job, by its id.
        states: jobs by their state.
        results: finished jobs by their state and fault code (`done` has none); a bounded set of labels.
        attempts: claims of all jobs.
        busy_s: time for which attempts have run, those that run included; it never decreases.
    """

    depth: int
    running: int
    slots: int
    paused: bool
    waits: DurationSummary
    services: DurationSummary
    oldest_s: float
    last_error: str
    lease_ages_s: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    results: Mapping[str, int] = field(default_factory=dict)
    attempts: int = 0
    busy_s: float = 0.0


def read_health(database: Database, slots: int, now_ms: int) -> QueueHealth:
    """Return the queue's figures; part of the caller's transaction."""
    tallies = database.rows(_TALLIES)
    states: Counter[str] = Counter()
    for row in tallies:
        states[row["state"]] += row["n"]
    oldest = database.rows(_OLDEST)[0][0]
    running = database.rows("SELECT job_id, beat_ms FROM jobs WHERE state = 'running' ORDER BY number")
    error = database.row(_LAST_FAULT)
    busy_ms = database.number(_BUSY, (now_ms,))
    recent = database.rows(_DURATIONS)
    return QueueHealth(
        depth=states["queued"],
        running=states["running"],
        slots=slots,
        paused=bool(database.number("SELECT paused FROM queue")),
        waits=spread([row["waited_ms"] / 1000 for row in recent]),
        services=spread([row["served_ms"] / 1000 for row in recent]),
        oldest_s=0.0 if oldest is None else max(0.0, (now_ms - oldest) / 1000),
        last_error=error["fault"] if error is not None else "",
        lease_ages_s={row["job_id"]: max(0.0, (now_ms - row["beat_ms"]) / 1000) for row in running},
        states=states,
        results=_results(tallies),
        attempts=sum(row["attempts"] for row in tallies),
        busy_s=busy_ms / 1000,
    )


def _results(tallies: Sequence[sqlite3.Row]) -> Counter[str]:
    """Count ended jobs by state and code of the fault."""
    counts: Counter[str] = Counter()
    for row in tallies:
        if row["state"] not in FINAL:
            continue
        code = _CODE.match(row["fault"])
        label = row["state"] + (f" {code.group()}" if code else "")
        if code and label not in counts and len(counts) >= _MOST_CODES:
            label = f"{row['state']} OTHER"
        counts[label] += row["n"]
    return counts


def spread(seconds: Sequence[float]) -> DurationSummary:
    """Return median and 95th percentile of durations (nearest rank)."""
    if not seconds:
        return DurationSummary()
    ordered = sorted(seconds)
    half, most = (ordered[math.ceil(share * len(ordered)) - 1] for share in (0.50, 0.95))
    return DurationSummary(count=len(ordered), p50_s=half, p95_s=most)


#: Name, type and help, as the text format of Prometheus has them, and the samples: one figure, or several.
_METRICS: Sequence[tuple[str, str, str, Callable[[QueueHealth], float | _Samples]]] = (
    ("depth", "gauge", "Jobs that wait.", lambda h: h.depth),
    ("running", "gauge", "Jobs that run.", lambda h: h.running),
    ("slots", "gauge", "Jobs that may run at once.", lambda h: h.slots),
    ("paused", "gauge", "1 while no job may start.", lambda h: h.paused),
    ("oldest_seconds", "gauge", "Time for which the oldest waiting job has waited.", lambda h: h.oldest_s),
    ("attempts_total", "counter", "Claims of all jobs.", lambda h: h.attempts),
    (
        *("busy_seconds_total", "counter", "Time for which attempts have run, summed over all slots."),
        lambda h: h.busy_s,
    ),
    (
        *("lease_age_seconds", "gauge", "Time since the last sign of life of the quietest running job."),
        lambda h: max(h.lease_ages_s.values(), default=0.0),
    ),
    (
        *("jobs", "gauge", "Jobs by state."),
        lambda h: [({"state": state}, h.states.get(state, 0)) for state in JobState],
    ),
    (
        *("ended_jobs", "gauge", "Jobs that have ended, by state and code of the fault."),
        lambda h: [
            ({"state": label.partition(" ")[0], "code": label.partition(" ")[2]}, count)
            for label, count in sorted(h.results.items())
        ],
    ),
    (
        *("wait_seconds", "summary", "Time from the submission to the first start, of recent jobs."),
        lambda h: _quantiles(h.waits),
    ),
    (
        *("service_seconds", "summary", "Time from the last start to the result, of recent jobs."),
        lambda h: _quantiles(h.services),
    ),
)


def prometheus(health: QueueHealth) -> str:
    """Return the figures in the text format of Prometheus."""
    lines: list[str] = []
    for name, kind, text, read in _METRICS:
        full, found = f"codeflash_parallel_queue_{name}", read(health)
        samples = [({}, found)] if isinstance(found, float | int) else found
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}"]
        lines += [f"{full}{_labels(labels)} {_figure(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _figure(value: float) -> str:
    """Return all digits: a rounded counter would stand still."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _quantiles(durations: DurationSummary) -> _Samples:
    if not durations.count:
        return []
    return [({"quantile": "0.5"}, durations.p50_s), ({"quantile": "0.95"}, durations.p95_s)]


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
