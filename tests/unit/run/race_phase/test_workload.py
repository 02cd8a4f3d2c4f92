"""What is timed, in words, and how long it may take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.race.plan import CostGroup, WorkKind
from codeflash_parallel.run.race_phase.workload import (
    Workload,
    budget_ns,
    comparing,
    race_plan,
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
