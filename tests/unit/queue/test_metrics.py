"""Figures of the queue, and their text format."""

from __future__ import annotations

import re
from typing import Any

from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth, prometheus, spread


def test_percentiles_are_durations_that_occurred():
    assert spread([]) == DurationSummary()
    assert spread([3.0]) == DurationSummary(count=1, p50_s=3.0, p95_s=3.0)
    assert spread([float(n) for n in range(100, 0, -1)]) == DurationSummary(count=100, p50_s=50.0, p95_s=95.0)


def test_figures_are_told_in_the_text_format_of_prometheus():
    health = QueueHealth(
        depth=2, running=1, slots=3, paused=True, waits=spread([1.0]), services=DurationSummary(), oldest_s=9.5,
        last_error="", lease_ages_s={"1-a": 4.0, "2-b": 7.0}, states={"queued": 2}, attempts=12_345_678, busy_s=8.25,
        results={'dead A"B\\C': 1, "done": 4},
    )  # fmt: skip
    lines = prometheus(health).splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert samples == [
        "codeflash_parallel_queue_depth 2",
        "codeflash_parallel_queue_running 1",
        "codeflash_parallel_queue_slots 3",
        "codeflash_parallel_queue_paused 1",
        "codeflash_parallel_queue_oldest_seconds 9.5",
        "codeflash_parallel_queue_attempts_total 12345678",
        "codeflash_parallel_queue_busy_seconds_total 8.25",
        "codeflash_parallel_queue_lease_age_seconds 7",
        *(
            f'codeflash_parallel_queue_jobs{{state="{state}"}} {2 * (state == "queued")}'
            for state in JobState
        ),
        'codeflash_parallel_queue_ended_jobs{state="dead",code="A\\"B\\\\C"} 1',
        'codeflash_parallel_queue_ended_jobs{state="done",code=""} 4',
        'codeflash_parallel_queue_wait_seconds{quantile="0.5"} 1',
        'codeflash_parallel_queue_wait_seconds{quantile="0.95"} 1',
    ]
    described = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {sample.split("{")[0].split()[0] for sample in samples} <= described


def test_a_checker_of_metrics_has_nothing_against_them():
    lines = prometheus(QueueHealth(**{**vars_of_one(), "waits": spread([0.25])})).splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}
    helped = [line.split()[2] for line in lines if line.startswith("# HELP ")]
    assert helped == list(kinds)
    series = [line.rsplit(" ", 1)[0] for line in lines if not line.startswith("#")]
    assert len(series) == len(set(series))
    for one in series:
        name = one.partition("{")[0]
        assert re.fullmatch(r"[a-z_]+", name)
        assert name.endswith("_total") == (kinds[name] == "counter")
        assert ("quantile=" in one) <= (kinds[name] == "summary")
    assert 'codeflash_parallel_queue_wait_seconds{quantile="0.5"} 0.25' in lines


def vars_of_one() -> dict[str, Any]:
    return {
        "depth": 0, "running": 0, "slots": 1, "paused": False, "waits": DurationSummary(), "services": DurationSummary(),
        "oldest_s": 0.0, "last_error": "",
    }  # fmt: skip
