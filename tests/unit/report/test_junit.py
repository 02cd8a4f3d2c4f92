"""A run as JUnit XML, read back by the library that wrote it."""

from __future__ import annotations

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped

from codeflash_parallel.report.junit import junit_xml
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunResult, TestCounts


def suites_of(*candidates: CandidateResult) -> list:
    run = RunResult(run_id="r", complete=True, verdict=Verdict.NOTHING_FASTER, candidates=candidates)
    return list(JUnitXml.fromstring(junit_xml(run).encode()))


def candidate(status: CandidateStatus, code: Code, reason: str = "So.", **more) -> CandidateResult:
    fields = {"status": status, "code": code, "reason": reason} | more
    return CandidateResult(id=CandidateId("a"), origin=CandidateOrigin.PATCH, **fields)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (CandidateStatus.REJECTED, Code.TESTS_FAILED, Failure),
        (CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_APPLY, Failure),
        (CandidateStatus.DUPLICATE, Code.SAME_CODE, Skipped),
        (CandidateStatus.INFRA, Code.INFRA_SLOT, Error),
        (CandidateStatus.LOST, Code.BEATEN, None),
    ],
)
def test_the_verdict_is_a_case_whose_result_is_of_its_kind(status, code, kind) -> None:
    (suite,) = suites_of(candidate(status, code))
    (case,) = suite
    assert (suite.name, case.name, case.classname) == ("a", "verdict", "a")
    assert [type(found) for found in case.result] == ([] if kind is None else [kind])
    if kind is None:
        assert "So." in case.system_out
    else:
        assert "So." in case.result[0].message


def test_failed_and_missing_tests_are_cases() -> None:
    tests = TestCounts(expected=3, passed=1, failed_ids=("t.py::one",), missing_ids=("t.py::two",))
    (suite,) = suites_of(candidate(CandidateStatus.REJECTED, Code.TESTS_FAILED, tests=tests))
    assert [(case.name, case.result[0].type) for case in suite] == [
        ("verdict", "TESTS_FAILED"),
        ("t.py::one", "TESTS_FAILED"),
        ("t.py::two", "TESTS_MISSING"),
    ]
    assert (suite.tests, suite.failures) == (3, 3)


def test_a_reason_may_hold_what_xml_may_not() -> None:
    (suite,) = suites_of(candidate(CandidateStatus.REJECTED, Code.TESTS_FAILED, "bell \x07 <b>"))
    assert "<b>" in next(iter(suite)).result[0].message
