"""What counts of calls of watched functions, and what they add to a verdict."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.session.runner_report import CallOutcome, LocatedFunction
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.result.result_model import TestCounts, ValueCounts
from codeflash_parallel.run.check_phase.watched_functions import affordable, nearest, with_watched

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


NEAR, FAR, TEST = "m.py::near", "m.py::C.far", "tests/test_m.py::test"
LOCATED = LocatedFunction(
    seen={NEAR: 100, FAR: 150, TEST: 200, "m.py::C.__call__": 90},
    chains=(((NEAR, FAR, TEST), 90), ((FAR,), 10)),
)


def test_the_nearest_functions_are_taken_that_cover_most_of_the_targets_time() -> None:
    assert nearest(LOCATED) == {NEAR: 90, FAR: 10}


def test_functions_further_out_take_the_place_of_those_that_cannot_be_copied() -> None:
    assert nearest(LOCATED, {NEAR}) == {FAR: 100}
    assert nearest(LocatedFunction(seen=LOCATED.seen, chains=LOCATED.chains, unfit=frozenset({NEAR}))) == {
        FAR: 100
    }


def test_neither_tests_nor_what_python_calls_by_itself_are_taken() -> None:
    assert nearest(LOCATED, {NEAR, FAR}) == {}
    assert nearest(LocatedFunction(seen=LOCATED.seen, chains=((("m.py::C.__call__",), 90),))) == {}


def test_nobody_is_taken_who_is_hardly_ever_in_a_target() -> None:
    assert nearest(LocatedFunction(seen={NEAR: 501}, chains=(((NEAR,), 100),))) == {}


def test_nobody_is_taken_where_together_they_have_too_little_of_the_targets_time() -> None:
    assert nearest(LocatedFunction(seen=LOCATED.seen, chains=(((NEAR,), 79), ((TEST,), 21)))) == {}
    assert nearest(LocatedFunction(seen=LOCATED.seen, chains=(((NEAR,), 80), ((TEST,), 20)))) == {NEAR: 80}


def test_few_looks_tell_nothing() -> None:
    assert nearest(LocatedFunction(seen={NEAR: 10}, chains=(((NEAR,), 10),))) == {}
