"""What is timed, in words, and how long it may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import CallOutcome
from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.race.plan import CostGroup, WorkKind
from codeflash_parallel.run.race_phase.race_terms import race_plan
from codeflash_parallel.run.race_phase.workload import (
    Workload,
    budget_ns,
    captured_calls,
    comparing,
    missing_twins,
)

SECOND = 1_000_000_000


def workload(*costs_ns: int, work: WorkKind = WorkKind.CALLS) -> Workload:
    groups = tuple(
        CostGroup(name=f"g{n}", ns=ns, calls=(n, n + 1), tests=(f"t{n}",)) for n, ns in enumerate(costs_ns)
    )
    return Workload(work=work, why="it is there", groups=groups)


@pytest.mark.parametrize(
    ("costs_ns", "started_ns", "expected_s"),
    [
        ((1000,), 0, 45),
        ((SECOND // 8, SECOND // 8), 0, 50),
        ((SECOND // 4,), SECOND // 2, 50),
        ((SECOND,), SECOND // 2, 90),
        ((30 * SECOND,), 0, 1800),
    ],
)
def test_an_automatic_budget_is_sixty_passes_and_starts_and_more_up_to_a_minute(
    costs_ns: tuple[int, ...], started_ns: int, expected_s: int
) -> None:
    assert budget_ns(Settings(), workload(*costs_ns), started_ns) == expected_s * SECOND


def test_a_named_budget_is_what_it_says() -> None:
    assert budget_ns(Settings(time_budget=0.5), workload(30 * SECOND), SECOND) == SECOND // 2


def test_the_rules_are_those_of_the_settings() -> None:
    settings = Settings(
        confidence=0.95, min_speedup=0.03, indifference=0.04, max_regression=0.2, max_cpu_cost=3.0
    )
    plan = race_plan(settings, workload(10, work=WorkKind.COMMAND), 0)
    assert (plan.confidence, plan.min_speedup, plan.indifference) == (0.95, 0.03, 0.04)
    assert (plan.max_regression, plan.max_cpu_cost, plan.work) == (0.2, 3.0, WorkKind.COMMAND)
    assert plan.budget_ns == 45 * SECOND


def test_a_call_that_tests_repeat_is_timed_once_and_weighs_as_much_as_all() -> None:
    calls = [CallOutcome(index=i, test=f"t{i}", target=0, kind="return", digest="d") for i in (0, 1)]
    baseline = Baseline(
        targets=("m.py::f",),
        python="3",
        pytest="8",
        plugins=(),
        rootdir=".",
        inifile="",
        selected=("t0", "t1", "t2"),
        expected={},
        executing=("t0", "t1", "t2"),
        calls={call.index: call for call in calls},
        repeats={2: "t2"},
        costs_ns={0: 10, 1: 10, 2: 10},
        inputs_of={0: "0 x", 1: "0 x", 2: "0 x"},
    )

    (group,) = captured_calls(baseline).groups

    assert (group.calls, group.ns, group.tests) == ((0,), 30, ("t0", "t1", "t2"))


@pytest.mark.parametrize(
    ("given", "work", "unsteady", "expected"),
    [
        ({}, WorkKind.CALLS, (), "rounded"),
        ({"strict": True}, WorkKind.CALLS, (), "values"),
        ({"rtol": 1e-9}, WorkKind.CALLS, (), "floatless"),
        ({"compare": ComparisonMode.PASS_FAIL}, WorkKind.CALLS, (), "returns"),
        ({}, WorkKind.CALLS, ("g0",), "alike"),
        ({"compare": ComparisonMode.PASS_FAIL}, WorkKind.CALLS, ("g0",), "returns"),
        ({}, WorkKind.COMMAND, ("g0",), "returns"),
        ({}, WorkKind.BENCHMARKS, ("t0",), "values"),
        ({"accept": "judge.py::f"}, WorkKind.CALLS, (), "judged"),
        ({"accept": "judge.py::f"}, WorkKind.BENCHMARKS, (), "returns"),
    ],
)
def test_values_are_compared_unless_nobody_wants_it_or_the_baseline_does_not_repeat_them(
    given: dict[str, Any], work: WorkKind, unsteady: tuple[str, ...], expected: str
) -> None:
    timed = replace(workload(1, work=work), unsteady=unsteady)
    assert comparing(Settings(**given), timed) == {"compare": expected, "unsteady": unsteady}


@pytest.mark.parametrize(
    ("work", "costs_ns", "size"),
    [
        (WorkKind.CALLS, (1,), "2 captured calls"),
        (WorkKind.TESTS, (1,), "1 test"),
        (WorkKind.BENCHMARKS, (1, 2), "2 tests"),
        (WorkKind.COMMAND, (1,), "g0"),
    ],
)
def test_it_is_said_what_is_timed_and_why(work: WorkKind, costs_ns: tuple[int, ...], size: str) -> None:
    timed = workload(*costs_ns, work=work)
    assert timed.summary == f"workload {work.value}: {size}, because it is there"
    assert timed.sentence.startswith(f"{size}, because it is there")
    assert ("--benchmark" in timed.sentence) == (work is not WorkKind.COMMAND)


def test_a_person_is_told_where_little_of_the_time_has_twins() -> None:
    short, long = workload(1000, 9000).groups
    assert "no other values" in missing_twins([short, long])[0]
    assert "10% of the time only" in missing_twins([replace(short, twins=((0,),)), long])[0]
    assert missing_twins([short, replace(long, twins=((0,),))]) == ()
