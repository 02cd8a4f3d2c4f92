"""Replayed calls compared with the baseline's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.check.comparison.call_comparison import BaselineReplays, ComparisonRules
from codeflash_parallel.check.comparison.value_comparison import ACCIDENT, OBJECTED, compare_calls
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.result.outcome_codes import Code, Level

TARGETS = ("m.py::f",)


def call(index: int = 0, **fields: object) -> CallOutcome:
    plain = CallOutcome(
        index=index, test="t", target=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty",
        after="a", text="1", args="(0)",
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]


def known(calls: dict[int, CallOutcome]) -> BaselineReplays:
    return BaselineReplays(calls=calls, targets=TARGETS)


def test_codes_of_differing_calls() -> None:
    cases = [
        ({"digest": "x", "floatless": "x", "typeless": "x"}, Code.VALUE_DIFFERS),
        ({"digest": "x", "floatless": "x"}, Code.TYPE_DIFFERS),
        ({"digest": "x"}, Code.FLOAT_DIFFERS),
        ({"after": "x"}, Code.INPUT_MUTATED),
        ({"kind": "raise", "type": "ValueError"}, Code.VALUE_DIFFERS),
        ({}, Code.OK),
    ]
    for change, code in cases:
        got = RunnerReport(calls=(call(**change),))
        assert compare_calls(known({0: call()}), got).code is code, change
    unseen = known({0: call(after="")})
    assert compare_calls(unseen, RunnerReport(calls=(call(),))).code is Code.OK, (
        "the baseline's are not known"
    )


def test_the_text_of_an_exception_is_not_compared_but_its_type_is() -> None:
    expected = {0: call(kind="raise", type="ValueError", text="a", digest="")}
    same = RunnerReport(calls=(call(kind="raise", type="ValueError", text="b", digest=""),))
    other = RunnerReport(calls=(call(kind="raise", type="KeyError", text="a", digest=""),))
    assert compare_calls(known(expected), same).code is Code.OK
    assert compare_calls(known(expected), other).code is Code.VALUE_DIFFERS


def test_a_call_without_an_answer_differs() -> None:
    comparison = compare_calls(known({0: call(), 1: call(1)}), RunnerReport(calls=(call(),)))
    assert (comparison.code, comparison.counts.differing) == (Code.VALUE_DIFFERS, 1)


def test_the_gravest_difference_gives_the_code() -> None:
    got = RunnerReport(calls=(call(digest="x"), call(1, digest="x", floatless="x", typeless="x")))
    assert compare_calls(known({0: call(), 1: call(1)}), got).code is Code.VALUE_DIFFERS


def test_without_calls_the_level_is_tests() -> None:
    assert compare_calls(known({}), RunnerReport()).counts.level is Level.TESTS


@pytest.mark.parametrize(("broken", "of_another"), [("", Code.VALUE_DIFFERS), (OBJECTED, Code.OK)])
def test_what_the_projects_own_code_raises_is_an_outcome(broken: str, of_another: Code) -> None:
    """On inputs unlike those of the tests for candidates that return there: both may raise as they like."""
    raises = call(index=3, kind="raise", type="m.CycleError", digest="")
    breaks = {3: broken} if broken else {}
    baseline = replace(known({0: call()}), derived={3: raises}, breaks=breaks)

    def told(other: CallOutcome) -> RunnerReport:
        return RunnerReport(finished=True, calls=(call(), other))

    assert compare_calls(baseline, told(raises)).code is Code.OK
    dropped = compare_calls(baseline, told(call(index=3)))
    assert dropped.code is Code.VALUE_DIFFERS
    another = compare_calls(baseline, told(replace(raises, type="builtins.KeyError")))
    assert another.code is of_another
    assert not another.hints


@pytest.mark.parametrize(
    ("other", "rules", "code", "hints"),
    [
        ("return", ComparisonRules(loosens=True), Code.VALUE_DIFFERS, 0),
        ("return", ComparisonRules(loosens=True, judge="checks.py::accept"), Code.OK, 1),
        ("return", ComparisonRules(), Code.OK, 1),
        ("raise", ComparisonRules(loosens=True), Code.OK, 0),
    ],
)
def test_where_nobody_means_to_raise_who_returns_gives_a_hint(
    other: str, rules: ComparisonRules, code: Code, hints: int
) -> None:
    raises = call(index=3, kind="raise", type="builtins.TypeError", digest="")
    baseline = replace(known({0: call()}), derived={3: raises}, breaks={3: ACCIDENT})
    answers = {"return": call(index=3), "raise": replace(raises, type="builtins.KeyError")}
    got = RunnerReport(finished=True, calls=(call(), answers[other]))
    compared = compare_calls(baseline, got, rules)
    assert (compared.code, len(compared.hints)) == (code, hints)


def test_a_call_without_an_end_is_too_slow_and_not_another_value() -> None:
    endless = call(kind="raise", type="_codeflash_runner.process.call_limits.CallTimeout")
    found = compare_calls(known({0: call()}), RunnerReport(finished=True, calls=(endless,)))
    assert found.code is Code.TOO_SLOW
    assert "gives nothing within a second of CPU time" in found.reason
    other = call(1, digest="other", floatless="o", typeless="o")
    both = RunnerReport(finished=True, calls=(endless, other))
    assert compare_calls(known({0: call(), 1: call(1)}), both).code is Code.VALUE_DIFFERS


def test_calls_that_are_not_made_after_one_without_an_end_are_not_held_against_a_candidate() -> None:
    endless = call(index=3, kind="raise", type="_codeflash_runner.process.call_limits.CallTimeout")
    derived = {index: call(index=index) for index in (3, 4, 5)}
    baseline = replace(known({0: call()}), derived=derived)
    found = compare_calls(baseline, RunnerReport(finished=True, calls=(call(), endless)))
    assert (found.code, found.counts.derived_differing) == (Code.TOO_SLOW, 1)
    # Who passes for endless with an exception that the baseline raises, too, has to make all calls.
    theirs = replace(baseline, calls={0: replace(endless, index=0)})
    gone = RunnerReport(calls=(replace(endless, index=0),))
    assert compare_calls(theirs, gone).code is Code.VALUE_DIFFERS
    # A captured call that is missing is, whatever the others do.
    more = replace(baseline, calls={0: call(), 1: call(1)})
    assert compare_calls(more, RunnerReport(calls=(call(), endless))).code is Code.VALUE_DIFFERS
