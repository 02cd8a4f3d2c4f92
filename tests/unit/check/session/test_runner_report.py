"""Records that no runner writes: a candidate's code may write any line."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.baseline.baseline_findings import Stability
from codeflash_parallel.baseline.baseline_replay import ReplayFindings
from codeflash_parallel.check.integrity.canaries import RunSecrets
from codeflash_parallel.check.integrity.process_faults import machinery_fault
from codeflash_parallel.check.session.runner_report import (
    CallOutcome,
    ForeignRecord,
    RunnerReport,
    read_report,
)
from codeflash_parallel.check.session.runner_session import read_session
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

KINDS = (
    *("hello", "config", "collected", "error", "end", "passed", "phase", "executed", "call"),
    *("unencodable", "answer", "unreplayable", "globals", "derived", "deriving", "source", "outside"),
    *("timing", "spawned", "served", "unswappable"),
)
FIELDS = (
    "id",
    "ids",
    "ns",
    "i",
    "name",
    "names",
    "targets",
    "target",
    "calls",
    "status",
    "path",
    "digest",
    "of",
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
RECORD = st.tuples(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), ANYTHING))


@given(records=st.lists(RECORD, max_size=4))
def test_any_records_give_a_report_or_say_whose_they_are(
    records: list[tuple[str, dict[str, object]]],
) -> None:
    with suppress(ForeignRecord):
        report = read_report([{**fields, "t": kind} for kind, fields in records])
        assert report.tests_ns / 1e9 < float("inf")
        assert hash((report.collected, report.plugins, report.benchmarks))


@pytest.mark.parametrize(
    "record",
    [
        {"t": "timing", "ns": "x"},
        {"t": "passed", "id": "a", "ns": [10**400]},
        {"t": "phase"},
        {"t": "answer", "of": [1, *["" for _ in range(7)], 10**400]},
        {"t": "executed", "target": {}, "calls": float("inf")},
        {"t": "collected", "ids": 3},
    ],
)
def test_who_writes_what_no_runner_does_has_tampered_with_the_runner(record: dict[str, object]) -> None:
    session = read_session(
        ProcessExit(ended=ExitKind.EXITED, status=0, records=json.dumps(record).encode() + b"\n"),
        RunSecrets(),
    )
    fault = machinery_fault(session)
    assert session.is_forged
    assert fault is not None
    assert fault.code is Code.RUNNER_TAMPERED


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
