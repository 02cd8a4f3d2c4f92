"""What decides in the daemon: whose fault, whether a worker gets on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.queue.daemon.worker_liveness import WorkerSample, gets_on, lives
from codeflash_parallel.queue.worker.fault_attribution import FaultOwner, blame, machine_fault
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)
from codeflash_parallel.result.outcome_codes import Code


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (UsageError("SNAPSHOT_CHANGED", "x"), FaultOwner.JOB),
        (UsageError("DISK_FULL", "a usage error is no fault of the machine"), FaultOwner.JOB),
        (EnvironmentFault("RED_BASELINE", "x"), FaultOwner.JOB),
        (EnvironmentFault("NO_ISOLATION", "x"), FaultOwner.JOB),
        (EnvironmentFault("DISK_FULL", "x"), FaultOwner.MACHINE),
        (EnvironmentFault("BENCHMARK_TOKEN_BUSY", "x"), FaultOwner.MACHINE),
        (InternalError("LAUNCHER_DIED", "x"), FaultOwner.US),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_whose_fault_it_is(error: CodeflashParallelError, whose: FaultOwner) -> None:
    assert blame(error) is whose


@pytest.mark.parametrize("code", [*sorted(c for c in Code if c.startswith("INFRA")), Code.RACE_NOT_HELD])
def test_what_the_machine_has_failed_is_no_verdict(code: Code) -> None:
    document = {"candidates": [{"code": "TESTS_FAILED"}, {"code": code.value}]}
    assert machine_fault(document) == code


def test_verdicts_are_no_faults() -> None:
    assert machine_fault({"candidates": [{"code": "TESTS_FAILED"}, {"code": "NOT_RACED"}]}) == ""
    assert machine_fault({}) == ""


SEEN = WorkerSample(answers=5, told=3, cpu_s=10.0)


@pytest.mark.parametrize(
    ("now", "on"),
    [
        (SEEN, False),
        (replace(SEEN, cpu_s=10.001), False),
        (replace(SEEN, cpu_s=9.0), False),
        (replace(SEEN, answers=6), False),
        (replace(SEEN, told=4), True),
        (replace(SEEN, cpu_s=10.5), True),
        (replace(SEEN, waits=True), True),
    ],
)
def test_to_live_is_not_to_get_on(now: WorkerSample, on: bool) -> None:
    assert gets_on(SEEN, now) is on


@pytest.mark.parametrize(
    ("now", "alive"),
    [
        (SEEN, False),
        (replace(SEEN, told=9, cpu_s=99.0), False),
        (replace(SEEN, answers=6), True),
        (replace(SEEN, answers=6, stopped=True), False),
    ],
)
def test_who_does_not_answer_does_not_live(now: WorkerSample, alive: bool) -> None:
    assert lives(SEEN, now) is alive
