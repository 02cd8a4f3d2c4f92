"""The baseline: its form on disk, and the parts of its replays."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.value_comparison import compare_calls, together
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.result.candidate_model import (
    digest_of,
)
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.outcome_codes import Code, Level

OLD, NEW = b"old", b"new"


CALL = CallOutcome(index=0, test="a", target=0, kind="return", digest="d", after="e")


BASELINE = Baseline(
    targets=("m.py::f",),
    python="3.11",
    pytest="8",
    plugins=("xdist",),
    rootdir=".",
    inifile="",
    selected=("a", "b"),
    expected={"a": "passed", "b": "passed"},
    executing=("a",),
    asked=("a", "b", "c"),
    asked_expected={"a": "passed", "b": "passed", "c": "skipped"},
    durations_ns={"a": 2_000_000_000, "b": 500_000_000},
    calls={0: CALL},
    costs_ns={0: 5},
    observed={("a", 0): Counter({("return", "d", "e"): 2})},
    rss_bytes=7,
    loaded={"m.py": digest_of(OLD)},
)


def test_a_baseline_survives_its_json() -> None:
    assert from_plain(Baseline, json.loads(json.dumps(to_plain(BASELINE)))) == BASELINE
    assert BASELINE.suite_s == 2.5


def test_calls_that_need_the_tests_are_a_part_of_their_own() -> None:
    other = replace(CALL, index=1, digest="f")
    baseline = replace(
        BASELINE,
        calls={0: CALL, 1: other},
        sheltered=(1,),
        aside=("tests",),
        repeats={2: "a"},
        unstable=dict.fromkeys((3, 4, 5), "a"),
    )
    without, beside = baseline.parts
    assert (tuple(without.known.calls), without.aside) == ((0,), ("tests",))
    assert (tuple(beside.known.calls), beside.aside) == ((1,), ())
    assert (without.known.repeated, without.known.unstable) == (1, 3)
    assert (beside.known.repeated, beside.known.unstable) == (0, 0)
    (whole,) = replace(baseline, sheltered=()).parts
    assert (tuple(whole.known.calls), whole.aside) == ((0, 1), ("tests",))
    first = compare_calls(without.known, RunnerReport(calls=(CALL,)))
    second = compare_calls(beside.known, RunnerReport(calls=(replace(other, digest="x"),)))
    both = together(first, compare_calls(beside.known, RunnerReport(calls=(other,))))
    assert (both.code, both.counts.compared, both.counts.unstable) == (Code.OK, 2, 3)
    assert both.reason == "All 2 replayed calls give the baseline's values."
    differing = together(first, second)
    assert (differing.code, differing.counts.compared, differing.counts.differing) == (
        Code.VALUE_DIFFERS,
        2,
        1,
    )
    assert differing.reason == second.reason


@pytest.mark.parametrize(
    ("inside", "level"), [(0, Level.CAPTURED), (3, Level.CAPTURED), (24, Level.DERIVED), (240, Level.DERIVED)]
)
def test_few_derived_inputs_are_no_level(inside: int, level: Level) -> None:
    derived = {i: replace(CALL, index=i) for i in range(100, 105 + inside)}
    baseline = replace(BASELINE, derived=derived, breaks=dict.fromkeys(range(100, 105), "range"))
    report = RunnerReport(calls=(CALL, *derived.values()))
    counts = compare_calls(baseline.known, report).counts
    assert baseline.level is counts.level is level
    assert (counts.derived, counts.outside) == (inside, 5)


def test_calls_that_all_need_the_tests_are_the_only_part() -> None:
    (beside,) = replace(BASELINE, sheltered=(0,), aside=("tests",), repeats={2: "a"}, globals=("m.x",)).parts
    assert (tuple(beside.known.calls), beside.aside) == ((0,), ())
    assert (beside.known.repeated, beside.known.globals) == (1, frozenset())
