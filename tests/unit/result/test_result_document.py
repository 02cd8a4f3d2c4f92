from __future__ import annotations

import json

import pytest
from contract import check_invariants, validator
from effort import drawn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from result_strategies import run_results

from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.errors import EnvironmentFault, InternalError, UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_document import document, error_document
from codeflash_parallel.result.result_model import CandidateResult, RunFault, RunResult, Speedup
from codeflash_parallel.run.run_folder import stored_result

relaxed = settings(max_examples=drawn(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def candidate(
    name: str = "a", status: CandidateStatus = CandidateStatus.WON, code: Code = Code.OK, **more
) -> CandidateResult:
    return CandidateResult(
        id=CandidateId(name), origin=CandidateOrigin.PATCH, status=status, code=code, reason="So.", **more
    )


def errors_of(data) -> list[str]:
    return [error.message for error in validator().iter_errors(data)] + check_invariants(data)


@relaxed
@given(run_results())
def test_every_sound_result_is_a_sound_document(result: RunResult) -> None:
    text = json.dumps(document(result), allow_nan=False)
    assert errors_of(json.loads(text)) == []
    text.encode("utf-8")


@relaxed
@given(run_results())
def test_a_document_read_back_is_the_same_document(result: RunResult) -> None:
    data = document(result)
    assert document(stored_result(json.loads(json.dumps(data)))) == data


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict(verdict: Verdict) -> None:
    decided = {
        Verdict.WINNER: (candidate("a"),),
        Verdict.TIE: tuple(candidate(n, CandidateStatus.TIED) for n in "ab"),
    }
    judged = decided.get(verdict, ())
    result = RunResult(
        run_id="r",
        complete=True,
        verdict=verdict,
        winner=CandidateId("a") if judged else None,
        tie_set=tuple(c.id for c in judged) if verdict == Verdict.TIE else (),
        candidates=judged,
    )
    assert errors_of(document(result)) == []


@pytest.mark.parametrize(
    "status", [s for s in CandidateStatus if s not in {CandidateStatus.WON, CandidateStatus.TIED}]
)
@pytest.mark.parametrize("code", Code)
def test_every_status_with_every_code(status: CandidateStatus, code: Code) -> None:
    repeated = "baseline" if status == CandidateStatus.DUPLICATE else ""
    judged = (candidate("a", status, code, duplicate_of=repeated),)
    result = RunResult(run_id="r", complete=True, verdict=Verdict.NONE_CORRECT, candidates=judged)
    assert errors_of(document(result)) == []


@pytest.mark.parametrize("family", [UsageError, EnvironmentFault, InternalError])
def test_every_error(family) -> None:
    data = error_document(family("SOME_CODE", "Message.", "Hint."))
    assert errors_of(data) == []
    assert data["error"] == {
        "family": family.family,
        "code": "SOME_CODE",
        "message": "Message.",
        "hint": "Hint.",
    }


def test_an_interrupted_run() -> None:
    fault = RunFault(family="interrupted", code="SIGINT", message="Interrupted.")
    judged = (candidate("a", CandidateStatus.CANCELLED, Code.CANCELLED),)
    assert errors_of(document(RunResult(run_id="r", complete=False, error=fault, candidates=judged))) == []


def test_the_fields_of_the_contract() -> None:
    data = document(RunResult(run_id="r", complete=True, verdict=Verdict.WINNER, candidates=(candidate(),)))
    assert {
        "schema_version", "run_id", "complete", "error", "verdict", "winner", "tie_set", "isolation",
        "isolation_requested", "snapshot", "base", "seed", "quarantined", "timings", "candidates",
    } <= data.keys()  # fmt: skip
    one = data["candidates"][0]
    assert {
        "id", "parent", "lineage", "origin", "status", "code", "reason", "duplicate_of", "tests", "values",
        "speedup", "overhead_ms", "diff_path",
    } <= one.keys()  # fmt: skip
    assert set(one["tests"]) == {
        "expected", "passed", "failed", "missing", "not_run", "failed_ids", "missing_ids",
    }  # fmt: skip
    assert set(one["values"]) == {
        "compared", "differing", "accepted", "repeated", "unstable", "derived", "largest_seen", "largest_fresh", "dropped",
        "derived_differing",
        "outside", "outside_differing", "uncaptured", "beside", "uncompared", "level",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"verdict": None}, "verdict is null"),
        ({"complete": False}, "verdict is null"),
        ({"winner": None}, "winner is named"),
        ({"winner": "b"}, "won or tied"),
        ({"tie_set": ["a"]}, "tie set"),
        ({"candidates": []}, "won or tied"),
    ],
)
def test_broken_rules_are_named(change: dict, rule: str) -> None:
    judged = (candidate("a"), candidate("b", CandidateStatus.LOST, Code.BEATEN))
    result = RunResult(
        run_id="r", complete=True, verdict=Verdict.WINNER, winner=CandidateId("a"), candidates=judged
    )
    assert any(rule in sentence for sentence in check_invariants(document(result) | change))


@given(st.sampled_from([float("nan"), float("inf"), float("-inf")]))
def test_a_speedup_that_is_no_number_is_none(bad: float) -> None:
    one = candidate(speedup=Speedup(estimate=bad, low=1.0, high=2.0))
    assert (
        document(RunResult(run_id="r", complete=True, candidates=(one,)))["candidates"][0]["speedup"] is None
    )


def test_a_document_of_another_major_version_is_refused_with_a_hint() -> None:
    data = document(RunResult(run_id="r", complete=True, candidates=(candidate(),)))
    assert stored_result(data | {"schema_version": "2.9"}).candidates[0] == candidate()
    with pytest.raises(EnvironmentFault, match=r"schema version 1\.5, this program reads 2\.0") as caught:
        stored_result(data | {"schema_version": "1.5"})
    assert caught.value.hint == "Show it with the version that wrote it, or evaluate again."


@pytest.mark.parametrize(
    "data", [{}, {"schema_version": "3.0"}, {"schema_version": "2.0"}, {"schema_version": 3}]
)
def test_what_is_no_stored_result_is_an_environment_fault(data: dict) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        stored_result(data)
    assert caught.value.code == "BAD_RESULT"
