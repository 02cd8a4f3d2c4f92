"""Records that no guest writes: a candidate's code may write any line."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.integrity.process_faults import machinery_fault
from codeflash_parallel.check.integrity.run_secrets import RunSecrets
from codeflash_parallel.check.session.runner_report import ForeignRecord, read_report
from codeflash_parallel.check.session.runner_session import read_session
from codeflash_parallel.result.outcome_codes import Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit

KINDS = (
    *("hello", "config", "collected", "error", "end", "passed", "phase", "executed", "call"),
    *("unencodable", "answer", "unreplayable", "globals", "derived", "deriving", "source", "outside"),
    *("timing", "spawned", "modules", "served", "unswappable"),
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
        assert hash((report.collected, report.plugins, report.benchmarks, report.modules))


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
def test_who_writes_what_no_guest_does_has_tampered_with_the_runner(record: dict[str, object]) -> None:
    session = read_session(
        ProcessExit(ended=ExitKind.EXITED, status=0, records=json.dumps(record).encode() + b"\n"),
        RunSecrets(),
    )
    fault = machinery_fault(session)
    assert session.is_forged
    assert fault is not None
    assert fault.code is Code.RUNNER_TAMPERED
