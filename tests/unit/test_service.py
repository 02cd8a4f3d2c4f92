"""What decides in the daemon: whose fault, whether a worker gets on."""

from __future__ import annotations

import pytest

from codeflash_parallel.model.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)
from codeflash_parallel.model.outcome import Code
from codeflash_parallel.service.blame import Blame, blame, machine_fault
from codeflash_parallel.service.liveness import Sign, gets_on


@pytest.mark.parametrize(
    ("error", "whose"),
    [
        (UsageError("SNAPSHOT_CHANGED", "x"), Blame.JOB),
        (UsageError("DISK_FULL", "a usage error is no fault of the machine"), Blame.JOB),
        (EnvironmentFault("RED_BASELINE", "x"), Blame.JOB),
        (EnvironmentFault("NO_ISOLATION", "x"), Blame.JOB),
        (EnvironmentFault("DISK_FULL", "x"), Blame.MACHINE),
        (EnvironmentFault("BENCHMARK_TOKEN_BUSY", "x"), Blame.MACHINE),
        (InternalError("LAUNCHER_DIED", "x"), Blame.US),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_whose_fault_it_is(error: CodeflashParallelError, whose: Blame) -> None:
    assert blame(error) is whose


@pytest.mark.parametrize("code", sorted(code for code in Code if code.startswith("INFRA")))
def test_what_the_machine_has_failed_is_no_verdict(code: Code) -> None:
    document = {"candidates": [{"code": "TESTS_FAILED"}, {"code": code.value}]}
    assert machine_fault(document) == code


def test_verdicts_are_no_faults() -> None:
    assert machine_fault({"candidates": [{"code": "TESTS_FAILED"}, {"code": "NOT_RACED"}]}) == ""
    assert machine_fault({}) == ""


SEEN = Sign(told=3, cpu_s=10.0)


@pytest.mark.parametrize(
    ("now", "on"),
    [
        (Sign(told=3, cpu_s=10.0), False),
        (Sign(told=3, cpu_s=10.001), False),
        (Sign(told=3, cpu_s=9.0), False),
        (Sign(told=4, cpu_s=10.0), True),
        (Sign(told=3, cpu_s=10.5), True),
        (Sign(told=3, cpu_s=10.0, waits=True), True),
        (Sign(told=4, cpu_s=11.0, stopped=True), False),
        (Sign(told=3, cpu_s=10.0, waits=True, stopped=True), False),
    ],
)
def test_alive_is_not_enough(now: Sign, on: bool) -> None:
    assert gets_on(SEEN, now) is on
