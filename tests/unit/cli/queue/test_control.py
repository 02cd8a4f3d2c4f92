"""`queue cancel`, `retry`, `pause` and `unpause`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from queue_cases import JOB, assert_valid, done

from codeflash_parallel.cli.main import main
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue.control import _exit_code_of_job, _report_job
from codeflash_parallel.queue.jobs import Job, JobKind, JobRequest, JobState
from codeflash_parallel.queue.sync_client import EvalQueueClient
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_document import document
from codeflash_parallel.result.result_model import CandidateResult, RunResult


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """A queue with one job."""
    with EvalQueueClient(tmp_path / "q") as client:
        client.submit(JobRequest(kind=JobKind.CHECK, key="k", payload="{}", submitter="me"))
    return tmp_path / "q"


def told(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> dict:
    assert main(["queue", *arguments, "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    assert_valid(document)
    return document


def test_a_job_is_cancelled_and_only_a_dead_one_is_retried(queue: Path, capsys) -> None:
    place = ("--queue-dir", str(queue))
    (job,) = told(capsys, 0, "list", *place)["jobs"]
    slip = told(capsys, 2, "cancel", job["job_id"], "nobody", *place)
    assert slip["error"]["code"] == "UNKNOWN_JOB"
    assert told(capsys, 0, "list", *place)["jobs"][0]["state"] == "queued"
    assert told(capsys, 0, "cancel", job["job_id"], *place)["jobs"][0]["state"] == "cancelled"
    assert told(capsys, 2, "retry", job["job_id"], *place)["error"]["code"] == "NOT_DEAD"


def test_a_queue_is_paused_until_it_is_not(queue: Path, capsys) -> None:
    place = ("--queue-dir", str(queue))
    assert main(["queue", "pause", *place]) == 0
    assert "The queue is paused" in capsys.readouterr().out
    assert told(capsys, 0, "status", *place)["health"]["paused"] is True
    assert main(["queue", "unpause", *place]) == 0
    assert "No daemon is running" in capsys.readouterr().out
    assert told(capsys, 0, "status", *place)["health"]["paused"] is False


CHECKED = RunResult(
    run_id="r1",
    complete=True,
    verdict=Verdict.NOTHING_FASTER,
    candidates=(
        CandidateResult(
            id=CandidateId("c1"),
            origin=CandidateOrigin.PATCH,
            status=CandidateStatus.LOST,
            code=Code.NOT_FASTER,
            reason="It is not.",
        ),
    ),
)
WITH_RUN = done({"document": document(CHECKED)})
WITH_ERROR = done(
    {"document": None, "error": {"type": "EnvironmentFault", "family": "environment", "code": "RED", "message": "It is red.", "hint": "", "fields": {}}}
)  # fmt: skip
WITH_SCORES = done({"document": None, "scores": {"score": 3}, "error": None})


@pytest.mark.parametrize(
    ("job", "code"),
    [(WITH_RUN, 1), (WITH_ERROR, 4), (WITH_SCORES, 0), (JOB._replace(state=JobState.DEAD), 4)],
    ids=["run", "error", "scores", "dead"],
)
def test_a_job_ends_with_the_exit_code_of_its_result(job: Job, code: int, capsys) -> None:
    assert _exit_code_of_job(job) == code


def test_the_result_of_a_job_is_what_run_prints(capsys) -> None:
    assert _report_job(WITH_RUN, Output(Format.JSON)) == 1
    assert json.loads(capsys.readouterr().out) == document(CHECKED)
    assert _report_job(WITH_RUN, Output()) == 1
    assert "nothing faster" in capsys.readouterr().out
    assert _report_job(WITH_SCORES, Output()) == 0
    assert json.loads(capsys.readouterr().out) == {"score": 3}


def test_a_job_without_a_result_raises_why() -> None:
    with pytest.raises(EnvironmentFault, match="It is red"):
        _report_job(WITH_ERROR, Output())
    with pytest.raises(EnvironmentFault, match=r"killed"):
        _report_job(JOB._replace(state=JobState.DEAD, fault="killed"), Output())
