"""Endings of jobs, as a worker reports them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeflash_parallel import Replacement, Settings, Submission
from codeflash_parallel.config.settings import settings_document
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.queue.job_builder import JobPayload, StoredSnapshot
from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.queue.queue_errors import VariablesNotPassed
from codeflash_parallel.queue.worker import (
    Assignment,
    JobExecutor,
    ending_of_error,
    ending_of_result,
    error_result,
)
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.errors import (
    CodeflashParallelError,
    EnvironmentFault,
    InternalError,
    UsageError,
)
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot


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


STORED = StoredSnapshot(place="day/key", snapshot=Snapshot(commit="c", tree="t", base=""))


def settings_in(cache: Path, kind: JobKind = JobKind.CHECK, slots: int = 4, **wanted: object) -> Settings:
    task = JobPayload(
        repository="/r",
        candidates=(Submission(id=CandidateId("c"), content=Replacement(code="x")),),
        settings=settings_document(Settings(**wanted)),  # type: ignore[arg-type]
        stored=STORED,
    )
    assignment = Assignment(job_id="1-a", fence=1, kind=kind, payload="", slots=slots, sharers=1)
    executor = JobExecutor(cache, cache, HostLock(None), lambda _text: None, ("DB_*",))
    return executor._settings(task, assignment)


@pytest.mark.parametrize(("wanted", "slots"), [("auto", 4), (2, 2), (9, 4)])
def test_the_daemon_decides_on_cache_and_slots(tmp_path: Path, wanted: object, slots: int) -> None:
    settings = settings_in(tmp_path, parallel_candidates=wanted, cache_dir="/elsewhere", executor="queue")
    assert (settings.cache_dir, settings.parallel_candidates) == (str(tmp_path), slots)
    assert settings.executor == "local"


def test_a_job_of_the_kind_race_asks_no_provider(tmp_path: Path) -> None:
    provided = {"repair_command": "fix", "refine_command": "improve"}
    assert settings_in(tmp_path, **provided).repair_command == "fix"
    settings = settings_in(tmp_path, JobKind.RACE, **provided)
    assert (settings.repair_command, settings.refine_command) == ("", "")


def test_variables_that_the_daemon_does_not_pass_on_are_refused(tmp_path: Path) -> None:
    assert settings_in(tmp_path, pass_env=("DB_URL",)).pass_env == ("DB_URL",)
    with pytest.raises(VariablesNotPassed, match="OTHER"):
        settings_in(tmp_path, pass_env=("OTHER",))


def test_an_error_is_a_result() -> None:
    result = json.loads(json.dumps(error_result({"code": "RED"})))
    assert (result["error"], result["document"], result["scores"]) == ({"code": "RED"}, None, None)
