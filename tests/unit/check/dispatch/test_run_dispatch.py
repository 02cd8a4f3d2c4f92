"""Reasons of fallbacks as one text, and where the time of a check went."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.dispatch.run_dispatch import (
    FallbackReason,
    ProcessUsage,
    steps_of_replay,
    steps_of_tests,
    told,
    used_by,
)
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport, TestOutcome
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.result_model import STEPS
from codeflash_parallel.result.runtime_protocols import ProcessExit


def test_each_reason_is_told_once_and_points_share_it() -> None:
    whys = [
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="a thread is started", point="collected"),
        FallbackReason(reason="a thread is started", point="imported"),
        FallbackReason(reason="it adds an import"),
        FallbackReason(reason="nobody has looked", point="imported"),
    ]
    assert (
        told(whys)
        == "it adds an import; not collected, imported: a thread is started; not imported: nobody has looked"
    )
    assert told([]) == ""


NS = st.integers(0, 10_000)


@given(st.dictionaries(st.sampled_from(["import_pytest", "config", "collect", "session"]), NS), NS, NS)
def test_steps_of_tests_add_up(timings: dict[str, int], tests_ns: int, run_ns: int) -> None:
    tests = {"a": TestOutcome(id="a", outcome="passed", ns=tests_ns)}
    steps = steps_of_tests(RunnerReport(timings_ns=timings, tests=tests), run_ns)
    assert steps.total() == run_ns
    assert min(steps.values()) >= 0
    assert steps.keys() <= set(STEPS)


@given(st.lists(NS), NS)
def test_steps_of_a_replay_add_up(calls: list[int], run_ns: int) -> None:
    outcomes = tuple(
        CallOutcome(index=i, test="", target=0, kind="return", ns=ns) for i, ns in enumerate(calls)
    )
    steps = steps_of_replay(RunnerReport(calls=outcomes), run_ns)
    assert steps.total() == run_ns
    assert steps["calls"] == min(sum(calls), run_ns)


def test_each_step_has_its_part() -> None:
    timings = {"import_pytest": 10, "config": 20, "collect": 5, "session": 50}
    tests = {"a": TestOutcome(id="a", outcome="passed", ns=40)}
    steps = steps_of_tests(RunnerReport(timings_ns=timings, tests=tests), 100)
    assert dict(steps) == {"import": 30, "collect": 5, "calls": 40, "other": 10, "start": 15}


def test_a_run_that_hangs_hangs_where_it_was() -> None:
    imported = {"import_pytest": 10, "config": 20}
    at_import = steps_of_tests(RunnerReport(timings_ns=imported), 100)
    in_a_test = steps_of_tests(RunnerReport(timings_ns={**imported, "collect": 5}), 100)
    assert (at_import["import"], at_import["start"]) == (100, 0)
    assert (in_a_test["calls"], in_a_test["start"]) == (65, 0)


def test_what_processes_used() -> None:
    exits = [
        ProcessExit(ended=ExitKind.EXITED, cpu_ns=1, wall_ns=2, max_rss_bytes=30),
        ProcessExit(ended=ExitKind.EXITED, cpu_ns=4, wall_ns=8, max_rss_bytes=20),
    ]
    assert used_by(exits) == ProcessUsage(cpu_ns=5, wall_ns=10, rss_bytes=30)
    assert used_by([]) == ProcessUsage()
