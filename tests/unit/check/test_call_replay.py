"""Which captured calls are replayed, what their replays decide, and how a difference is put into words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.baseline.baseline_findings import repetitions, stable
from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
)
from codeflash_parallel.check.comparison.value_comparison import compare_calls
from codeflash_parallel.check.session.runner_report import CallDigests, CallOutcome, RunnerReport, read_report
from codeflash_parallel.result.outcome_codes import Code

CALL = CallOutcome(
    index=0, test="t", target=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty",
    after="a", text="1", args="(0)", captured=True, inputs="i",
)  # fmt: skip


ANSWER = CallDigests(
    call=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty", after="a", traces="",
    ns=7,
)  # fmt: skip


KNOWN = BaselineReplays(calls={0: CALL}, targets=("m.py::f",))


def captured(inputs: str, **others: object) -> dict[int, CallOutcome]:
    """Return one call for each letter; equal letters are equal inputs."""
    plain = {i: replace(CALL, index=i, inputs=letter, test=f"t{i}") for i, letter in enumerate(inputs)}
    return {i: replace(call, **others) for i, call in plain.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("inputs", "left_out"),
    [
        ("abc", {}),
        ("aa", {}),
        ("aaaa", {2: 1, 3: 1}),
        # A second call right after the first tells more than one much later.
        ("abaaba", {2: 3, 5: 3}),
        ("abababab", {2: 6, 3: 7, 4: 6, 5: 7}),
    ],
)
def test_equal_calls_are_replayed_twice(inputs: str, left_out: dict[int, int]) -> None:
    assert repetitions(captured(inputs)) == left_out


@given(st.text("abc", max_size=12))
def test_no_inputs_are_forgotten(inputs: str) -> None:
    calls = captured(inputs)
    left_out = repetitions(calls)
    made = Counter(letter for i, letter in enumerate(inputs) if i not in left_out)
    assert made == {letter: min(2, count) for letter, count in Counter(inputs).items()}
    assert all(inputs[i] == inputs[other] and other not in left_out for i, other in left_out.items())


def test_calls_that_gave_different_outcomes_or_none_are_all_replayed() -> None:
    counting = {i: replace(call, digest=str(i)) for i, call in captured("aaaa").items()}
    assert repetitions(counting) == {}
    assert repetitions(captured("aaaa", digest="")) == {}
    assert repetitions({i: replace(call, inputs="") for i, call in captured("aaaa").items()}) == {}
    assert repetitions({i: replace(c, target=i % 2) for i, c in captured("aaaa").items()}) == {}


def test_calls_that_are_left_out_go_with_what_they_repeat() -> None:
    calls = captured("aaabbbccc")
    left_out = repetitions(calls)
    assert left_out == {2: 1, 5: 4, 8: 7}
    made = [replace(call, test="", text="said") for i, call in calls.items() if i not in left_out]
    other = [replace(call, digest="x") if call.index == 4 else call for call in made if call.index != 7]
    found = stable(calls, [RunnerReport(calls=tuple(made)), RunnerReport(calls=tuple(other))], left_out)
    assert list(found.calls) == [0, 1, 3, 6]
    assert (found.calls[1].test, found.calls[1].text) == ("t1", "said")
    assert found.repeats == {2: "t2"}
    assert (len(found.unstable), list(found.bound)) == (2, [7, 8])


def test_calls_without_a_canonical_outcome_are_bound_to_their_tests() -> None:
    calls = captured("ab")
    replay = RunnerReport(calls=(replace(calls[0], unencodable="a lock"), replace(calls[1], digest="x")))
    found = stable(calls, [replay, replay], {})
    assert (found.calls, found.unstable) == ({}, {})
    assert found.bound == {0: "a lock", 1: "depends on the test's surroundings"}


def test_answers_count_as_calls_do() -> None:
    report = read_report([{"t": "answer", "of": list(ANSWER)}])
    assert report.answers == (ANSWER,)
    assert compare_calls(KNOWN, report).code is Code.OK
    for change, code in [
        ({"after": "x"}, Code.INPUT_MUTATED),
        ({"digest": "x"}, Code.FLOAT_DIFFERS),
        ({"digest": "x", "floatless": "x"}, Code.TYPE_DIFFERS),
        ({"kind": "raise", "type": "KeyError"}, Code.VALUE_DIFFERS),
        ({"call": 1}, Code.VALUE_DIFFERS),
    ]:
        got = RunnerReport(answers=(ANSWER._replace(**change),))
        assert compare_calls(KNOWN, got).code is code, change


@pytest.mark.parametrize("of", [None, 1, [], [[], *ANSWER[1:]], [*ANSWER[:-1], "7"], [True, *ANSWER[1:]]])
def test_what_is_no_answer_is_no_outcome(of: object) -> None:
    assert read_report([{"t": "answer", "of": of}, {"t": "answer"}]).answers == ()
