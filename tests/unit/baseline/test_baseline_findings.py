"""What the baseline's runs say together: which tests are chosen, in which order, and who disagrees with whom."""

from __future__ import annotations

from pathlib import Path

from codeflash_parallel.baseline.baseline_findings import (
    agreement,
    first_findings,
    wider,
)
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome
from codeflash_parallel.check.session.runner_session import RunnerConfig, RunnerSession, TestRequest
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, Workspace

ROOT = Path("/slots/1/tree")
TARGET = Target(path="m.py", qualname="f")
WORKSPACE = Workspace(
    root=ROOT, project=ROOT, user_root=Path("/u"), interpreter=Path("/py"), private=Path("/p"), environment={}
)
#: Outcome and milliseconds of each test, as collected.
TESTS = {
    "slow.py::a": ("passed", 100),
    "slow.py::b": ("passed", 300),
    "quick.py::a": ("passed", 10),
    "other.py::plain": ("passed", 5),
    "other.py::red": ("failed", 5),
    "other.py::spawns": ("skipped", 1),
}
NOTICING = ("slow.py::a", "slow.py::b", "quick.py::a", "other.py::spawns")


def report(outcomes: dict[str, tuple[str, int]] = TESTS, **changed: str) -> RunnerReport:
    tests = {t: TestOutcome(id=t, outcome=o, ns=ms * 10**6) for t, (o, ms) in outcomes.items()}
    tests |= {t: TestOutcome(id=t, outcome=o) for t, o in changed.items()}
    executed = {("slow.py::a", 0): 1, ("slow.py::b", 0): 2, ("quick.py::a", 0): 1}
    return RunnerReport(
        finished=True,
        collected=tuple(outcomes),
        tests=tests,
        executed=executed,
        spawned=("other.py::spawns",),
    )


def runner(*targets: Target) -> RunnerConfig:
    return RunnerConfig(launcher=None, directory=Path("/g"), targets=targets, request=TestRequest(), seed=1)  # type: ignore[arg-type]


def findings(targets: tuple[Target, ...] = (TARGET,), *, runs_all: bool = False) -> Baseline:
    session = RunnerSession(report=report(), exit=ProcessExit(ended=ExitKind.EXITED))
    return first_findings(session, runner(*targets), WORKSPACE, runs_all=runs_all)


def test_tests_that_can_notice_are_chosen() -> None:
    draft = findings()
    assert draft.selected == NOTICING
    assert draft.executing == ("slow.py::a", "slow.py::b", "quick.py::a")


def test_what_the_baseline_fails_is_asked_of_nobody_and_said() -> None:
    draft = findings()
    assert draft.asked == tuple(test for test in TESTS if test != "other.py::red")
    assert draft.asked_expected["other.py::spawns"] == "skipped"
    said = "1 of 6 tests fail on the baseline and are left out, the first one is other.py::red."
    assert draft.left_out == said


def test_all_tests_are_chosen_where_that_was_asked_for_or_nothing_is_known() -> None:
    assert findings(runs_all=True).selected == tuple(TESTS)
    assert findings(targets=()).selected == tuple(TESTS)


def test_tests_that_were_left_out_come_back_where_one_needs_them() -> None:
    draft = findings()
    again = wider(draft, report(), report(**{"slow.py::b": "failed"}))
    assert again is not None
    assert again.selected == tuple(t for t in TESTS if t != "other.py::red")
    assert "slow.py::b" in again.warnings[-1]
    assert wider(draft, report(), report()) is None


def test_tests_that_disagree_with_themselves_are_put_aside() -> None:
    second = report(**{"slow.py::b": "failed"})
    expected, aside, red = agreement(NOTICING, report(), second)
    assert expected == {"slow.py::a": "passed", "quick.py::a": "passed", "other.py::spawns": "skipped"}
    assert (aside, red) == (("slow.py::b",), ())
    assert agreement(("other.py::red",), report(), report())[2] == ("other.py::red",)
