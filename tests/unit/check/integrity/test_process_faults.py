"""What is believed of a run with canaries, by its exit status and by the runner's own functions."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.integrity.canaries import (
    STATEMENT,
    Canary,
    CanaryPlace,
    draw_at,
    sift,
)
from codeflash_parallel.check.integrity.process_faults import unbelievable, with_canaries
from codeflash_parallel.check.session.runner_report import RunnerReport, TestOutcome
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

TESTS = ("a.py::test_sum_of_two", "a.py::TestIt::test_x[1-a::b]", "a.py::TestIt::test_y", "b.py::test_z")


NOTHING = Baseline(
    targets=(), python="", pytest="", plugins=(), rootdir=".", inifile="", selected=(), expected={}, executing=()
)  # fmt: skip


def session(canaries: tuple[Canary, ...], status: int = 1, **outcomes: str) -> RunnerSession:
    """Return a run in which canaries end as told: the first, the second ... by `a`, `b` ..."""
    found = {
        canary.id: TestOutcome(id=canary.id, outcome=outcomes[letter], message=f"E {canary.tells} E")
        for canary, letter in zip(canaries, "abcdef", strict=False)
        if letter in outcomes
    }
    report = RunnerReport(finished=True, status=status, tests={**found, "a.py::test_other": TestOutcome(
        id="a.py::test_other", outcome="passed")})  # fmt: skip
    kept, ours = sift(report, canaries)
    assert set(kept.tests) == {"a.py::test_other"}
    done = ProcessExit(ended=ExitKind.EXITED, status=status)
    return RunnerSession(report=kept, exit=done, canaries=canaries, canary_outcomes=ours)


def two() -> tuple[Canary, ...]:
    """Draw two canaries."""
    return draw_at(
        Random(1), TESTS, [CanaryPlace("a.py", STATEMENT, STATEMENT), CanaryPlace("a.py", "raises", "raises")]
    )


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ({"a": "failed", "b": "failed"}, ""),
        ({"a": "passed", "b": "failed"}, "is passed"),
        ({"a": "failed", "b": "skipped"}, "is skipped"),
        ({"a": "error", "b": "failed"}, "is error"),
        ({"a": "failed"}, "was not run"),
        ({"a": "failed", "b": "failed", "status": 0}, "status 0; 1 was predicted"),
    ],
)
def test_who_is_believed(outcomes: dict[str, str | int], words: str) -> None:
    fault = unbelievable(session(two(), **outcomes), NOTHING)  # type: ignore[arg-type]
    assert (fault is None) == (not words)
    assert fault is None or (fault.code is Code.RUNNER_TAMPERED and words in fault.reason)


def test_a_failure_in_other_words_is_none() -> None:
    run = session(two(), a="failed", b="failed")
    first = two()[0].id
    forged = {**run.canary_outcomes, first: TestOutcome(id=first, outcome="failed", message="AssertionError")}
    fault = unbelievable(replace(run, canary_outcomes=forged), NOTHING)
    assert fault is not None
    assert "failed in another way" in fault.reason


def test_without_canaries_the_status_is_that_of_the_tests() -> None:
    done = ProcessExit(ended=ExitKind.EXITED)
    run = RunnerSession(report=RunnerReport(finished=True, status=1), exit=done)
    assert unbelievable(run, NOTHING) is not None
    assert unbelievable(run, replace(NOTHING, plain_status=1)) is None
    failing = {"x": TestOutcome(id="x", outcome="failed")}
    assert unbelievable(replace(run, report=replace(run.report, tests=failing)), NOTHING) is None


def test_who_replaces_more_of_the_runner_than_the_baseline_is_not_believed() -> None:
    run = session(two(), a="failed", b="failed")
    own, more = "Function.setup by conftest.setup, 12", "Function.runtest by shop.run in shop.py"
    patched = replace(run, report=replace(run.report, replaced=frozenset({own, more})))
    fault = unbelievable(patched, replace(NOTHING, replaced=(own,)))
    assert fault is not None
    assert (fault.code, own in fault.reason, more in fault.reason) == (Code.RUNNER_TAMPERED, False, True)
    assert unbelievable(patched, replace(NOTHING, replaced=(own, more))) is None
    assert with_canaries(replace(NOTHING, replaced=(own,)), patched).replaced == (more, own)


def test_the_baseline_tells_where_they_can_be_used() -> None:
    run = session(two(), a="failed", b="passed")
    found = with_canaries(NOTHING, run)
    assert [place.helper for place in found.places] == [STATEMENT]
    assert found.warnings == ()
    swallowed = with_canaries(NOTHING, session(two(), a="passed", b="passed"))
    assert swallowed.places == ()
    assert "believed as it is" in swallowed.warnings[0]
    odd = with_canaries(NOTHING, session(two(), status=0, a="failed", b="failed"))
    assert odd.status == 0
    assert "status 0" in odd.warnings[0]
