"""Settings of a job in a worker, and its result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeflash_parallel import Replacement, Settings, Submission
from codeflash_parallel.config.settings_json import settings_document
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.queue.errors import VariablesNotPassed
from codeflash_parallel.queue.job_builder import JobPayload
from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.queue.snapshot_store import StoredSnapshot
from codeflash_parallel.queue.worker.job_executor import Assignment, JobExecutor, error_result
from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

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
