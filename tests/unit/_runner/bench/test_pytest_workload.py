"""Outcomes of whole tests that are timed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from codeflash_parallel._runner.bench.pytest_workload import PytestBatch, _pedantic


def checked(*outcomes: str, times: int = 1) -> dict[str, Any]:
    reports = [SimpleNamespace(nodeid="a", when="call", outcome=outcome) for outcome in outcomes]
    return dict(PytestBatch([object()], times, reports, None).check())


def test_the_last_round_is_compared_and_any_failure_is_told() -> None:
    assert checked("failed", "passed", times=2)["digest"] == checked("passed")["digest"]
    assert checked("failed", "passed", times=2)["raised"]
    assert not checked("passed")["raised"]
    assert checked("passed")["digest"] != checked("failed")["digest"]


def test_arguments_that_a_setup_gives_are_made_before_the_clock() -> None:
    made: list[int] = []

    def setup() -> tuple[tuple[int], dict[str, int]]:
        made.append(0)
        return (len(made),), {}

    entries = _pedantic(abs, (), {}, setup, None, 3)
    assert [args for _, args, _, _ in entries] == [(1,), (2,), (3,)]
    assert all(function is abs for function, *_ in entries)


def test_a_setup_without_arguments_runs_with_each_call() -> None:
    ran: list[str] = []
    entries = _pedantic(lambda: ran.append("call"), (), {}, lambda: ran.append("setup"), None, 2)
    ran.clear()
    for function, args, kwargs, _ in entries:
        function(*args, **kwargs)
    assert ran == ["setup", "call"] * 2
