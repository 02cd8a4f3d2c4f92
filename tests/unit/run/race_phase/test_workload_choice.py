"""Calls that are timed, and notes on calls without twins."""

from __future__ import annotations

from dataclasses import replace

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import CallOutcome
from codeflash_parallel.race.plan import CostGroup
from codeflash_parallel.run.race_phase.workload_choice import captured_calls, missing_twins


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


def test_a_person_is_told_where_little_of_the_time_has_twins() -> None:
    short, long = (CostGroup(name=f"g{ns}", ns=ns, calls=(ns,)) for ns in (1000, 9000))
    assert "no other values" in missing_twins([short, long])[0]
    assert "10% of the time only" in missing_twins([replace(short, twins=((0,),)), long])[0]
    assert missing_twins([short, replace(long, twins=((0,),))]) == ()
