"""What is raced, and why the rest is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest

from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.gate.benchmark_trial import (
    LEAST_LAYOUTS,
    GateWork,
    groups_of,
    may_preload,
    round_ns,
    sorted_out,
    why_not_collected,
)
from codeflash_parallel.race.plan import RacePlan, WorkKind
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

MS = 1_000_000
PLAN = RacePlan(groups=(), work=WorkKind.BENCHMARKS, budget_ns=60_000 * MS)


def work(*names: str) -> GateWork:
    return GateWork(kind=WorkKind.BENCHMARKS, names=names)


def test_what_one_side_does_not_run_is_not_raced() -> None:
    plan, out = sorted_out(
        work("a", "b", "c"), {"a": 5, "b": "it raises", "c": 7}, {"a": 6, "c": "gone"}, PLAN
    )
    assert [group.name for group in plan.groups] == ["a"]
    assert out["b"] == ("no_base", "the base does not run it: it raises")
    assert out["c"] == ("no_head", "the head does not run it: gone")


def test_what_is_too_long_is_left_out_and_says_what_would_do() -> None:
    costs: dict[str, int | str] = {"long": 20_000 * MS, "short": MS}
    plan, out = sorted_out(work("long", "short"), costs, costs, PLAN)
    assert [group.name for group in plan.groups] == ["short"]
    verdict, why = out["long"]
    assert verdict == "too_noisy"
    needed_s = int(why.rpartition("--budget ")[2].split()[0])
    enough = replace(PLAN, budget_ns=needed_s * 1000 * MS + 1000 * MS)
    assert not sorted_out(work("long", "short"), costs, costs, enough)[1]


@pytest.mark.parametrize("count", [1, 58, 2000])
def test_as_many_rounds_as_decide_something_fit_into_the_budget(count: int) -> None:
    names = [f"t{n}" for n in range(count)]
    costs: dict[str, int | str] = dict.fromkeys(names, 3 * MS)
    plan, out = sorted_out(work(*names), costs, costs, PLAN)
    assert 1 <= plan.layout_rounds <= 4
    assert len(plan.groups) + len(out) == count
    taken = sum(round_ns(group.ns, group.ns, block_ns=plan.block_ns) for group in plan.groups)
    assert LEAST_LAYOUTS * taken <= plan.budget_ns


def test_nothing_to_race_is_no_error() -> None:
    plan, out = sorted_out(work("a"), {"a": "gone"}, {}, PLAN)
    assert (plan.groups, list(out)) == ((), ["a"])


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("shop/sums.py", "tests/test_a.py", "setup.cfg"), True),
        (("src/packaging/version.py",), False),
        (("pluggy.py",), False),
        (("lib/packaging/a.py",), True),
        (("json/a.py",), False),
        ((), True),
    ],
)
def test_pytest_is_imported_beforehand_where_no_tree_holds_any_of_it(
    paths: tuple[str, ...], expected: bool
) -> None:
    assert may_preload(work("a"), PurePath(), paths) is expected
    inner = [f"deep/{path}" for path in paths]
    assert may_preload(work("a"), PurePath("deep"), inner) is expected
    assert may_preload(work("a"), PurePath("other"), inner)
    assert not may_preload(GateWork(kind=WorkKind.CALLABLE, names=()), PurePath(), paths)


def test_groups_name_the_tests_that_they_run() -> None:
    assert groups_of(work("a"), {"a": 5})[0].tests == ("a",)
    callables = GateWork(kind=WorkKind.CALLABLE, names=("a.py::run",))
    assert groups_of(callables, {"a.py::run": 0})[0].tests == ()
    assert groups_of(callables, {"a.py::run": 0})[0].ns == 1


def test_benchmarks_have_lines() -> None:
    source = "import x\n\n\nclass TestA:\n    def test_b(self, benchmark):\n        pass\n"
    assert work().line("t.py::TestA::test_b[1-a::b]", source) == 5
    assert work().line("t.py::test_gone", source) == 0
    assert work().line("python main.py", source) == 0


def session(*tests: TestOutcome, error: str = "", stderr: str = "") -> RunnerSession:
    ended = ProcessExit(ended=ExitKind.EXITED, status=1, stderr=stderr)
    return RunnerSession(report=RunnerReport(tests={t.id: t for t in tests}, error=error), exit=ended)


def test_why_nothing_is_collected() -> None:
    failed = TestOutcome(id="t.py", outcome="error", message="here\nE   ImportError: no x\n")
    assert why_not_collected(session(failed), "t.py") == "ImportError: no x"
    assert why_not_collected(session(failed), "u.py") == "pytest does not collect it"
    assert why_not_collected(session(error="no pytest")) == "no pytest"
    assert why_not_collected(session(stderr="a\nlast\n")) == "last"
