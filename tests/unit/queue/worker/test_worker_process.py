"""Whose fault an error is, and what a worker reports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from codeflash_parallel.process.message_channel import MessageChannel
from codeflash_parallel.queue.worker.worker_process import FaultOwner, _Worker, blame, machine_fault
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


@pytest.mark.anyio
async def test_a_worker_that_waits_says_so_with_whatever_it_says(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker = _Worker(MessageChannel(ours), tmp_path, ())
        worker._waits("something is timed on this machine")
        worker._tell("a check beside it has ended")
        worker._waits("")
        worker._tell("another one has ended")
        said = [worker._to_send.receive_nowait()["waits"] for _ in range(4)]
        for stream in (worker._outbox, worker._to_send, worker._given, worker._jobs):
            stream.close()
    assert said == [True, True, False, False]
