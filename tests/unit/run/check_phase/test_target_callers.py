"""Which functions are timed in the place of targets whose calls cannot be made again."""

from __future__ import annotations

from codeflash_parallel.check.session.runner_report import LocatedFunction
from codeflash_parallel.run.check_phase.target_callers import nearest

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
