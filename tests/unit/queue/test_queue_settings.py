from __future__ import annotations

import re
from typing import Any

import pytest

from codeflash_parallel.queue.jobs import JobState, Strategy
from codeflash_parallel.queue.metrics import DurationSummary, QueueHealth, prometheus, spread
from codeflash_parallel.queue.queue_settings import QUEUE_SETTING_NAMES, QueueSettings
from codeflash_parallel.result.errors import UsageError

# Settings


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_concurrent": -1}, "max_concurrent must be a number of at least 0"),
        ({"queue_timeout": float("nan")}, "queue_timeout must be a number"),
        ({"lease": float("inf")}, "lease must be a number"),
        ({"queue_timeout": 1e300}, "queue_timeout must be a number of at most 1000000000"),
        ({"rate_limit": 10**400}, "rate_limit must be a number of at most"),
        ({"max_attempts": 0}, "max_attempts must be a number of at least 1"),
        ({"lease": 10.0, "heartbeat": 6.0}, "at least twice the heartbeat"),
        ({"weights": {"a": 0.0}}, "weights must lie between"),
        ({"weights": {"a": float("nan")}}, "weights must lie between"),
        ({"kind_limits": {"race": 0}}, "kind_limits must be at least 1"),
        ({"kind_limits": {"run": 1}}, "kind_limits must name"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, object], why: str):
    with pytest.raises(UsageError, match=why) as refused:
        QueueSettings(**changes)
    assert refused.value.code == "BAD_SETTING"


def test_defaults_are_those_of_the_contract():
    settings = QueueSettings()
    assert (settings.strategy, settings.lease, settings.heartbeat) == (Strategy.FAIR, 30.0, 10.0)
    assert (settings.queue_timeout, settings.max_attempts, settings.overflow) == (86_400.0, 3, "reject")
    assert len(QUEUE_SETTING_NAMES) == 14


# Figures


def test_percentiles_are_durations_that_occurred():
    assert spread([]) == DurationSummary()
    assert spread([3.0]) == DurationSummary(count=1, p50_s=3.0, p95_s=3.0)
    assert spread([float(n) for n in range(100, 0, -1)]) == DurationSummary(count=100, p50_s=50.0, p95_s=95.0)


def test_figures_are_told_in_the_text_format_of_prometheus():
    health = QueueHealth(
        depth=2, running=1, slots=3, paused=True, waits=spread([1.0]), services=DurationSummary(), oldest_s=9.5,
        last_error="", lease_ages_s={"1-a": 4.0, "2-b": 7.0}, states={"queued": 2}, attempts=12_345_678,
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
