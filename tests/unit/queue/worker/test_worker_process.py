"""Endings of jobs, as a worker reports them."""

from __future__ import annotations

import pytest

from codeflash_parallel.queue.worker.worker_process import ending_of_error, ending_of_result
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)
from codeflash_parallel.result.outcome_codes import Code


def result(*codes: str) -> dict[str, object]:
    return {"document": {"candidates": [{"code": code} for code in codes]}}


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (UsageError("NO_SUCH_FUNCTION", "x"), "done"),
        (UsageError("DISK_FULL", "a usage error is no fault of the machine"), "done"),
        (EnvironmentFault("RED_BASELINE", "x"), "done"),
        (EnvironmentFault("SNAPSHOT_GONE", "x"), "done"),
        (EnvironmentFault("NO_ISOLATION", "x"), "done"),
        (EnvironmentFault("DISK_FULL", "x"), "faulted"),
        (EnvironmentFault("BENCHMARK_TOKEN_BUSY", "x"), "faulted"),
    ],
    ids=lambda value: getattr(value, "code", value),
)
def test_only_faults_of_the_machine_are_tried_again(error: CodeflashParallelError, ending: str) -> None:
    assert ending_of_error(error)["t"] == ending


def test_a_defect_of_ours_ends_the_worker() -> None:
    with pytest.raises(InternalError):
        ending_of_error(InternalError("LAUNCHER_DIED", "x"))


@pytest.mark.parametrize("code", sorted(c for c in Code if c.startswith("INFRA")))
def test_what_the_machine_has_failed_is_no_verdict(code: Code) -> None:
    both = result("TESTS_FAILED", code.value)
    assert ending_of_result(both) == {
        "t": "faulted",
        "fault": code,
        "message": f"A candidate could not be judged: {code}.",
        "result": both,
    }
    assert "result" not in ending_of_result(result(code.value))


def test_a_race_that_was_not_held_leaves_no_verdict() -> None:
    ending = ending_of_result(result("TESTS_FAILED", Code.RACE_NOT_HELD.value))
    assert (ending["fault"], "result" in ending) == (Code.RACE_NOT_HELD, False)


@pytest.mark.parametrize("document", [{"candidates": [{"code": "TESTS_FAILED"}]}, {}, None])
def test_verdicts_are_no_faults(document: object) -> None:
    assert ending_of_result({"document": document})["t"] == "done"
