"""Exit codes of runs."""

from __future__ import annotations

import pytest

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.run_report import BY_VERDICT, exit_code_of
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunFault, RunResult


def judged(code: Code) -> CandidateResult:
    return CandidateResult(
        id=CandidateId("a"),
        origin=CandidateOrigin.PATCH,
        status=CandidateStatus.UNDECIDED,
        code=code,
        reason="So.",
    )


@pytest.mark.parametrize(
    ("verdict", "code"),
    [
        ("winner", 0),
        ("tie", 0),
        ("checked", 0),
        ("nothing_faster", 1),
        ("none_correct", 1),
        ("suspect", 1),
        ("too_noisy", 4),
    ],
)
def test_verdicts(verdict: str, code: int) -> None:
    assert exit_code_of(RunResult(run_id="r", complete=True, verdict=Verdict(verdict))) == code


@pytest.mark.parametrize(("verdict", "code"), [(Verdict.TOO_NOISY, 7), (Verdict.WINNER, 0)])
def test_a_race_that_was_not_held_has_an_exit_code_of_its_own(verdict: Verdict, code: int) -> None:
    result = RunResult(run_id="r", complete=True, verdict=verdict, candidates=(judged(Code.RACE_NOT_HELD),))
    assert exit_code_of(result) == code


@pytest.mark.parametrize(
    ("family", "code", "expected"),
    [
        ("interrupted", "SIGINT", 130),
        ("interrupted", "SIGTERM", 143),
        ("environment", "X", 4),
        ("usage", "X", 2),
    ],
)
def test_results_with_errors(family: str, code: str, expected: int) -> None:
    fault = RunFault(family=family, code=code, message="m")
    assert exit_code_of(RunResult(run_id="r", complete=False, error=fault)) == expected


def test_an_incomplete_result_is_no_verdict() -> None:
    assert exit_code_of(RunResult(run_id="r", complete=False)) == ExitCode.UNFIT


def test_every_verdict_has_an_exit_code() -> None:
    assert set(BY_VERDICT) == set(Verdict)
