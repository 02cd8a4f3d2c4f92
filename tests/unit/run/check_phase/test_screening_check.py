"""Evidence for a repairer is added to a rejection and does not change it."""

from __future__ import annotations

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.result_model import FailedTest
from codeflash_parallel.run.check_phase.screening_check import _with_evidence

FIRST = CheckOutcome(code=Code.TESTS_FAILED, reason="t fails", timings_ms={"calls": 1.0})
SEEN = FailedTest(id="t", phase="call", message="assert 1 == 2")


def test_failures_of_the_second_run_are_shown_under_the_first_ones_verdict():
    more = CheckOutcome(code=Code.TIMEOUT, reason="slow", failures=(SEEN,), timings_ms={"evidence": 7.0})
    shown = _with_evidence(FIRST, more)

    assert (shown.code, shown.reason, shown.failures) == (Code.TESTS_FAILED, "t fails", (SEEN,))
    assert shown.timings_ms == {"calls": 1.0, "evidence": 7.0}


def test_a_second_run_without_a_failure_costs_its_time_only():
    shown = _with_evidence(FIRST, CheckOutcome(code=Code.OK, reason=""))

    assert (shown.failures, shown.tests) == (FIRST.failures, FIRST.tests)
    assert shown.timings_ms == {"calls": 1.0, "evidence": 0.0}
