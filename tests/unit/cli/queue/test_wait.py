"""`queue wait` and `queue result`."""

from __future__ import annotations

import json

import pytest
from queue_cases import JOB, done

from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue.wait import _exit_code_of_job, _report_job
from codeflash_parallel.queue.jobs import Job, JobState
from codeflash_parallel.result.candidate.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_document import document
from codeflash_parallel.result.result_model import CandidateResult, RunResult

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
