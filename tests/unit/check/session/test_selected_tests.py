"""Which tests run, in which order, and when an order could be to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.selected_tests import (
    LONG_SUITE_S,
    ScreeningPlan,
    executing_tests,
    screening,
    selected_tests,
    xdist_workers,
)

IDS = st.sampled_from([f"{file}.py::{test}" for file in "abc" for test in "xyz"])
ORDERS = st.lists(IDS, unique=True)


def report(executed: dict[str, int], spawned: tuple[str, ...] = ()) -> RunnerReport:
    counts = {(test, 0): calls for test, calls in executed.items()}
    return RunnerReport(collected=("a.py::x", "a.py::y", "b.py::x"), executed=counts, spawned=spawned)


def test_tests_that_execute_a_target_or_start_processes_are_selected_as_collected() -> None:
    ran = report({"b.py::x": 2, "a.py::y": 0}, spawned=("a.py::x",))
    assert executing_tests(ran) == ("b.py::x",)
    assert selected_tests(ran, targets=1) == ("a.py::x", "b.py::x")


def test_all_tests_where_nobody_knows_which_notice() -> None:
    unknown = [
        report({"b.py::x": 2, "": 1}),
        report({"b.py::x": 2}, spawned=("a.py::x", "")),
        report({}),
        report({}, spawned=("a.py::x",)),
    ]
    for ran in unknown:
        assert selected_tests(ran, targets=1) == ran.collected
    assert selected_tests(report({"b.py::x": 1}), targets=0) == report({}).collected


def baseline(order: Sequence[str], **fields: object) -> Baseline:
    known = Baseline(
        targets=("m.py::f",),
        python="3.11",
        pytest="8",
        plugins=(),
        rootdir=".",
        inifile="",
        selected=tuple(order),
        expected=dict.fromkeys(order, "passed"),
        executing=tuple(order),
    )
    return replace(known, **fields)  # type: ignore[arg-type]


@given(ORDERS, st.lists(IDS))
def test_screening_runs_the_same_tests_killers_first(order: list[str], killers: list[str]) -> None:
    screened = screening(baseline(order), killers, 0)
    assert sorted(screened.tests) == sorted(order)
    known = [test for test in dict.fromkeys(killers) if test in order]
    assert list(screened.tests[: len(known)]) == known
    others = [test for test in order if test not in known]
    assert list(screened.tests[len(known) :]) == others
    assert screened.killers in (frozenset(known), frozenset())


def test_killers_that_are_in_front_anyway_move_nothing() -> None:
    order = ("a.py::x", "b.py::x")
    assert screening(baseline(order), ["a.py::x"], 0).killers == frozenset()


def test_several_processes_get_the_longest_first() -> None:
    known = baseline(("a", "b", "c", "d"), durations_ns={"b": 5, "c": 9, "d": 5})
    screened = screening(known, ["d"], 2)
    assert screened == ScreeningPlan(tests=("d", "c", "b", "a"), killers=frozenset("d"), workers=2)


def test_a_rejection_needs_the_order_of_the_baseline_unless_killers_that_pass_there_gave_it() -> None:
    plain = ScreeningPlan(tests=("a", "b", "c"))
    moved = ScreeningPlan(tests=("c", "a", "b"), killers=frozenset("c"))
    spread = ScreeningPlan(tests=("a", "b", "c"), workers=2)
    assert not plain.needs_confirmation(["b"])
    assert not plain.needs_confirmation([])
    assert not moved.needs_confirmation(["c"])
    assert moved.needs_confirmation(["a"])
    assert moved.needs_confirmation(["c", "a"])
    assert moved.needs_confirmation([])
    assert spread.needs_confirmation(["a"])
    assert replace(moved, workers=2).needs_confirmation(["c"])


COUNTS = st.integers(0, 20)


@given(st.floats(0, 100), st.integers(1, 20), st.integers(1, 20), COUNTS, st.booleans())
def test_no_more_processes_than_cores_that_nobody_wants(
    suite_s: float, cores: int, in_use: int, waiting: int, has_xdist: bool
) -> None:
    workers = xdist_workers(suite_s=suite_s, cores=cores, in_use=in_use, waiting=waiting, has_xdist=has_xdist)
    lends = has_xdist and suite_s >= LONG_SUITE_S and cores > in_use + waiting
    assert workers == (cores - in_use - waiting + 1 if lends else 0)
    assert workers != 1
