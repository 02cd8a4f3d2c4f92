"""What a captured call costs, which decides with which others it is timed."""

from __future__ import annotations

from codeflash_parallel.baseline.preflight.baseline_findings import Stability
from codeflash_parallel.baseline.preflight.test_dependent_calls import ReplayFindings
from codeflash_parallel.check.session.runner_outcomes import CallOutcome
from codeflash_parallel.check.session.runner_report import RunnerReport


def call(index: int, ns: int, inputs: str = "") -> CallOutcome:
    return CallOutcome(index=index, target=0, test="t", ns=ns, inputs=inputs, kind="return", digest="d")


def found(*indices: int, repeats: tuple[int, ...] = ()) -> Stability:
    calls = {index: call(index, 0) for index in indices}
    return Stability(calls=calls, repeats=dict.fromkeys(repeats, "t"), unstable={}, bound={})


def test_a_call_costs_the_least_that_it_was_seen_to_take():
    """A collection of garbage in one of its runs makes no heavy test of a short call."""
    captured = {n: call(n, ns) for n, ns in enumerate((90_000, 1_000, 1_000, 7))}
    replays = [
        RunnerReport(calls=(call(0, 1_100), call(1, 20_000_000), call(2, 0))),
        RunnerReport(calls=(call(0, 1_200), call(1, 1_050), call(2, 900))),
    ]
    replayed = ReplayFindings(found=found(0, 1, 2), replays=replays)
    assert replayed.costs_ns(captured) == {0: 1_100, 1: 1_000, 2: 900}


def test_a_call_that_was_left_out_costs_no_more_than_the_one_that_it_repeats():
    captured = {n: call(n, ns, "equal") for n, ns in enumerate((500, 600, 50_000))}
    replays = [RunnerReport(calls=(call(0, 510, "equal"), call(1, 80, "equal")))]
    replayed = ReplayFindings(found=found(0, 1, repeats=(2,)), replays=replays)
    assert replayed.costs_ns(captured) == {0: 500, 1: 80, 2: 80}
