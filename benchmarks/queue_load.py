"""The queue under load: submitters and workers in processes of their own. Used by `queue_store.py`."""

from __future__ import annotations

import json
import os
import resource
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from queue_crashes import check_history, forked, record_history, request

from codeflash_parallel.queue.jobs import now
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store

SETTINGS = QueueSettings(max_concurrent=64, max_queue_size=0)
#: For all processes to be there.
LEAD_S = 3.0


class Submitted(NamedTuple):
    """A submission: when it was due, when it was begun, when it was answered, and the job's number.

    Without a rate each is due when the one before has been answered. With one, who is late is late: its time
    counts from when it was due, so that a queue which stands still is not asked more seldom for that.
    """

    due: float
    began: float
    ended: float
    number: int


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum, in milliseconds."""
    ordered = sorted(seconds)
    places = {"p50": len(ordered) // 2, "p99": min(len(ordered) - 1, len(ordered) * 99 // 100), "max": -1}
    return {f"{name}_ms": round(ordered[place] * 1000, 2) for name, place in places.items()}


def submit_many(folder: Path, number: int, jobs: int, log: Path, start_at: float, every_s: float) -> None:
    """Submit jobs, one each so many seconds; 0: one after the other."""
    taken = []
    with Store.open(folder, SETTINGS) as store:
        for n in range(jobs):
            due = start_at + n * every_s if every_s or not n else time.monotonic()
            time.sleep(max(0.0, due - time.monotonic()))
            began = time.monotonic()
            receipt = store.submit(request(f"{number}-{n}", f"s{number}", "x" * 300), now())
            taken.append(Submitted(due, began, time.monotonic(), receipt.job.number))
    log.write_text(json.dumps(taken))


def serve_many(folder: Path, number: int, jobs: int, log: Path, start_at: float, counter: Path) -> None:
    taken = []
    with Store.open(folder, SETTINGS) as store:
        time.sleep(max(0.0, start_at - time.monotonic()))
        while counter.stat().st_size < jobs:
            began = time.monotonic()
            job = store.claim(f"w{number}", now())
            claimed = time.monotonic()
            if job is None:
                time.sleep(0.002)
                continue
            store.complete(job.job_id, job.fence, f"w{number}", now(), cpu_s=0.01, wall_s=0.01)
            taken.append((began, claimed, job.number, job.fence))
            with counter.open("ab") as file:
                file.write(b".")
    log.write_text(json.dumps(taken))


def load(folder: Path, submitters: int, workers: int, jobs: int, rate: int = 0) -> dict[str, Any]:
    """Let all submit and serve at once, and check what they have seen against its history.

    Args:
        rate: submissions a second of all together, evenly spaced; 0: as fast as they can.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    queue, counter = folder / "queue", folder / "counter"
    counter.touch()
    with Store.open(queue, QueueSettings()):
        record_history(queue)
    spent_s = _children_s()
    each, start_at = jobs // submitters, time.monotonic() + LEAD_S
    space_s = 1 / rate if rate else 0.0
    children = [
        forked(
            lambda n=n: submit_many(
                queue, n, each, folder / f"s{n}", start_at + n * space_s, submitters * space_s
            )
        )
        for n in range(submitters)
    ]
    total = each * submitters
    children += [
        forked(lambda n=n: serve_many(queue, n, total, folder / f"w{n}", start_at, counter))
        for n in range(workers)
    ]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    if failed:
        return {"failed_processes": failed}
    submitted = [
        Submitted(*one) for n in range(submitters) for one in json.loads((folder / f"s{n}").read_text())
    ]
    served = [tuple(one) for n in range(workers) for one in json.loads((folder / f"w{n}").read_text())]
    return {
        "submitters": submitters,
        "workers": workers,
        "jobs": total,
        "arrivals": f"offered at {rate}/s" if rate else "each when the last one is answered",
        "submits_per_s": round(total / _span([(one.began, one.ended) for one in submitted]), 1),
        "claims_per_s": round(len(served) / _span([one[:2] for one in served]), 1),
        "submit": percentiles([one.ended - one.due for one in submitted]),
        "claim": percentiles([one[1] - one[0] for one in served]),
        "failed_processes": failed,
        # Which no neighbour makes much longer; starting the processes is in it.
        "cpu_ms_per_job": round((_children_s() - spent_s) * 1000 / total, 3),
        "load_average": os.getloadavg()[0],
        "problems": not_linear(queue, [one[1:] for one in submitted], served),
    }


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _span(times: Sequence[tuple[float, float]]) -> float:
    return max(ended for _, ended in times) - min(began for began, _ in times)


def not_linear(queue: Path, submitted: list[Any], served: list[Any]) -> list[str]:
    """Return where what processes have seen contradicts the one order of its history."""
    history = check_history(queue)
    problems = []
    if {one[2] for one in submitted} != set(history.submitted):
        problems.append("submissions")
    if {(one[2], one[3]) for one in served} != set(history.claims):
        problems.append("claims")
    # Who was answered before another one asked is before it in the history.
    places = {number: place for place, number in enumerate(history.submitted)}
    claims = {claim: place for place, claim in enumerate(history.claims)}
    if overtaken([(began, ended, places[number]) for began, ended, number in submitted]):
        problems.append("order of submissions")
    if overtaken([(began, ended, claims[number, fence]) for began, ended, number, fence in served]):
        problems.append("order of claims")
    return problems


def overtaken(seen: list[tuple[float, float, int]]) -> int:
    """Count those that asked after somebody was answered, and have an earlier place all the same."""
    count, latest = 0, -1
    ended = sorted(seen, key=lambda one: one[1])
    position = 0
    for began, _, place in sorted(seen):
        while position < len(ended) and ended[position][1] < began:
            latest = max(latest, ended[position][2])
            position += 1
        count += place < latest
    return count
