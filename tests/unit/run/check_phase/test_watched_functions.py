"""What counts of calls of watched functions, and what they add to a verdict."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.session.runner_report import CallOutcome
from codeflash_parallel.result.check_evidence import TestCounts, ValueCounts
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.run.check_phase.watched_functions import affordable, with_watched

CALL = CallOutcome(index=0, test="a", target=1, kind="return", digest="d", after="e", captured=True)
PASSED = CheckOutcome(
    code=Code.OK,
    reason="OK",
    tests=TestCounts(expected=3, passed=3),
    values=ValueCounts(compared=4, level=Level.DERIVED),
    timings_ms={"tests": 5.0, "compare": 1.0},
    gate_ns=3,
)


def test_the_cheapest_calls_are_made_as_many_as_may_be() -> None:
    calls = {index: replace(CALL, index=index) for index in range(4)}
    costs = {0: 150_000_000, 1: 1, 2: 60_000_000, 3: 10}
    assert list(affordable(calls, costs, 200_000_000)) == [1, 2, 3]
    assert list(affordable(calls, {}, 200_000_000)) == [0, 1, 2, 3]


def test_what_differs_beside_the_targets_gives_the_code() -> None:
    got = CheckOutcome(
        code=Code.VALUE_DIFFERS,
        reason="spare differs",
        values=ValueCounts(compared=7, differing=2),
        timings_ms={"compare": 2.0, "start": 1.0},
        gate_ns=4,
    )
    found = with_watched(PASSED, got, ())
    assert (found.code, found.reason, found.tests) == (Code.VALUE_DIFFERS, "spare differs", PASSED.tests)
    assert (found.values.compared, found.values.beside, found.values.differing) == (4, 7, 2)
    assert found.timings_ms == {"tests": 5.0, "compare": 3.0, "start": 1.0}
    assert found.gate_ns == 7


def test_what_could_not_be_compared_lowers_the_level() -> None:
    same = CheckOutcome(code=Code.OK, reason="", values=ValueCounts(compared=7))
    assert with_watched(PASSED, same, ()).values.level is Level.DERIVED
    found = with_watched(PASSED, same, ("m.py::g",))
    assert (found.code, found.values.level, found.values.uncompared) == (Code.OK, Level.TESTS, ("m.py::g",))
