"""Differing calls in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
    CallDifference,
)
from codeflash_parallel.check.comparison.difference_text import first_difference, reworded
from codeflash_parallel.check.comparison.value_comparison import compare_calls
from codeflash_parallel.check.session.runner_report import CallDigests, CallOutcome, RunnerReport
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


def test_a_difference_is_put_into_words_as_far_as_it_comes_again() -> None:
    got = RunnerReport(answers=(ANSWER._replace(digest="x", floatless="x", typeless="x"),))
    difference = compare_calls(KNOWN, got).difference
    assert difference is not None
    assert (difference.inputs, difference.expected, difference.got) == ("(0)", "1", "another int")
    again = replace(CALL, digest="x", text="2")
    assert reworded(difference, CALL, again).got == "2"
    assert "baseline's" in reworded(difference, CALL, CALL).got
    assert "none" in reworded(difference, CALL, None).got


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("1, [2, 3]", "1, [2, 4]", ("1, [2, 3]", "1, [2, 4]")),
        (f"{'a' * 30}, [1]", f"{'a' * 30}, [1, 2]", (f"…{'a' * 16}, [1]", f"…{'a' * 16}, [1, 2]")),
    ],
)
def test_arguments_are_shown_from_shortly_before_their_first_difference(
    before: str, after: str, shown: tuple[str, str]
) -> None:
    expected = replace(CALL, text="None", left=before)
    got = replace(expected, after="x", left=after)
    one = CallDifference(code=Code.INPUT_MUTATED, expected=expected, got=got)
    told = reworded(first_difference(one, KNOWN), expected, got)
    assert (told.expected, told.got) == tuple(f"None, leaving {text}" for text in shown)


def test_the_type_of_an_exception_is_told() -> None:
    raised = ANSWER._replace(kind="raise", type="KeyError")
    difference = compare_calls(KNOWN, RunnerReport(answers=(raised,))).difference
    assert difference is not None
    assert difference.got == "raises KeyError"
