from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.profile.line_profiler import MAX_TEXT, ProfileFailure, read_profile
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.result_model import LineProfile, LineTiming
from codeflash_parallel.result.runtime_protocols import ProcessExit

LINE = {"path": "a.py", "line": 2, "hits": 3, "ns": 40, "text": "    x = 1"}


def ended(*records, how=ExitKind.EXITED, status=0, message=""):
    data = b"".join(json.dumps(r).encode() + b"\n" for r in records)
    return ProcessExit(ended=how, status=status, records=data, message=message)


def test_lines_come_sorted_and_cut():
    record = {
        "t": "profile",
        "tracer": "sys.settrace",
        "lines": [LINE, {**LINE, "line": 1, "text": "y" * 9999}],
    }

    result = read_profile(ended({"t": "hello"}, record, {"t": "end", "status": 0}))

    assert isinstance(result, LineProfile)
    assert result.tracer == "sys.settrace"
    assert [timing.line for timing in result.lines] == [1, 2]
    assert len(result.lines[0].text) == MAX_TEXT
    assert result.lines[1] == LineTiming(path="a.py", line=2, hits=3, time_ns=40, text="    x = 1")


@pytest.mark.parametrize(
    ("exit_", "words"),
    [
        (ended({"t": "error", "where": "runner", "message": "no target"}, status=70), "no target"),
        (ended(status=3), "status 3"),
        (ended(how=ExitKind.CPU_DEADLINE), "in time"),
        (ended(how=ExitKind.WALL_DEADLINE), "in time"),
        (ended(how=ExitKind.MEMORY_LIMIT), "memory"),
        (ended(how=ExitKind.SIGNALLED, status=-11), "signal 11"),
        (ended(how=ExitKind.NOT_STARTED, message="no such file"), "no such file"),
        (ended({"t": "profile", "tracer": "x", "lines": []}), "No line"),
        (ended({"t": "profile", "tracer": "x", "lines": [{"path": "a"}]}), "malformed"),
        (ended({"t": "profile", "tracer": "x", "lines": 7}), "malformed"),
        (ended({"t": "profile"}), "malformed"),
        *(
            (ended({"t": "profile", "tracer": "x", "lines": [{**LINE, "ns": ns}]}), "malformed")
            for ns in (10**400, float("inf"), float("nan"), "x", None)
        ),
    ],
)
def test_a_failure_is_a_value_that_says_why(exit_, words):
    result = read_profile(exit_)

    assert isinstance(result, ProfileFailure)
    assert words in result.reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(sorted(LINE)), inner),
)


@given(json_values)
def test_no_record_breaks_the_reader(lines):
    assert read_profile(ended({"t": "profile", "tracer": "x", "lines": lines})) is not None
