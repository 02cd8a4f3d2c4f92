"""Results of jobs, as their submitters get them."""

from __future__ import annotations

import json

import pytest
from queue_cases import JOB, done

from codeflash_parallel.queue.jobs import (
    FINAL,
    Job,
    JobEnded,
    JobState,
    error_document,
    error_of,
    outcome_of,
    result_of,
)
from codeflash_parallel.queue.queue_errors import VariablesNotPassed
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

RED = error_document(EnvironmentFault("RED_BASELINE", "It is red."))


def test_a_verdict_is_the_result() -> None:
    assert result_of(done({"document": {"verdict": "winner"}}))["document"] == {"verdict": "winner"}


def test_an_error_is_raised_as_what_it_was() -> None:
    with pytest.raises(EnvironmentFault) as caught:
        result_of(done({"document": None, "error": RED}))
    assert caught.value.code == "RED_BASELINE"


def test_an_error_keeps_its_family_texts_and_figures() -> None:
    error = VariablesNotPassed(names="DB_URL")
    again = error_of(json.loads(json.dumps(error_document(error))))
    assert isinstance(again, UsageError)
    assert vars(again) == vars(error)


@pytest.mark.parametrize("state", sorted(FINAL - {JobState.DONE}))
def test_a_job_without_a_result_says_why(state: JobState) -> None:
    with pytest.raises(JobEnded) as caught:
        result_of(JOB._replace(state=state, fault="it crashed", last_output="Segmentation fault"))
    assert caught.value.code == f"JOB_{state.name}"
    assert (caught.value.state, caught.value.last_output) == (state, "Segmentation fault")
    assert "it crashed" in caught.value.message


@pytest.mark.parametrize(
    ("job", "outcome"),
    [
        (JOB, ""),
        (JOB._replace(state=JobState.RUNNING), ""),
        (JOB._replace(state=JobState.EXPIRED), "expired"),
        (done({"document": {"verdict": "winner", "error": None}}), "winner"),
        (done({"document": {"verdict": None, "error": {"code": "RED"}}}), "RED"),
        (done({"document": {"verdict": None, "error": None}}), "incomplete"),
        (done({"document": None, "error": RED}), "RED_BASELINE"),
        (done({"document": None, "scores": {"score": 0}}), "scores"),
    ],
)
def test_the_end_of_a_job_is_one_word(job: Job, outcome: str) -> None:
    assert outcome_of(job) == outcome
