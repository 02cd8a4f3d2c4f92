"""Which captured calls are replayed, what their replays decide, and how a difference is put into words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.baseline.preflight.baseline_findings import repetitions, stable
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
    CallDifference,
    CallMeasurement,
    ComparisonRules,
)
from codeflash_parallel.check.comparison.difference_text import first_difference, reworded
from codeflash_parallel.check.comparison.value_comparison import compare_calls, judged_calls, to_measure
from codeflash_parallel.check.session.runner_outcomes import CallDigests, CallOutcome
from codeflash_parallel.check.session.runner_report import RunnerReport, read_report
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.run.race_phase.workload import RaceJury

CALL = CallOutcome(
    index=0, test="t", target=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty",
    after="a", text="1", args="(0)", captured=True, inputs="i",
)  # fmt: skip
ANSWER = CallDigests(
    call=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty", after="a", traces="",
    ns=7,
)  # fmt: skip
BASELINE = Baseline(
    targets=("m.py::f",), python="3", pytest="8", plugins=(), rootdir=".", inifile="", selected=(),
    expected={}, executing=(),
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


@pytest.mark.parametrize(
    ("answer", "judged"),
    [
        (ANSWER, ()),
        (ANSWER._replace(digest="x", floatless="x", typeless="x"), (0,)),
        (ANSWER._replace(digest="x"), (0,)),
        (ANSWER._replace(after="x"), ()),
        (ANSWER._replace(kind="raise", digest="x"), ()),
    ],
)
def test_a_judge_is_asked_about_other_results(answer: CallDigests, judged: tuple[int, ...]) -> None:
    got = RunnerReport(answers=(answer,))
    assert judged_calls(KNOWN, got) == judged
    assert (0 in to_measure(KNOWN, got, ComparisonRules(judge="j.py::f"))) == bool(judged)


@pytest.mark.parametrize(
    ("code", "accepted", "level"),
    [
        (Code.OK, 1, Level.ACCEPTED),
        (Code.NOT_ACCEPTED, 0, Level.CAPTURED),
        (Code.INPUT_MUTATED, 1, Level.ACCEPTED),
    ],
)
def test_what_a_judge_says_counts(code: Code, accepted: int, level: Level) -> None:
    got = RunnerReport(answers=(ANSWER._replace(digest="x", floatless="x", typeless="x"),))
    said = CallMeasurement(code=code, judge="j.py::f", why="the judge returns False")
    found = compare_calls(KNOWN, got, ComparisonRules(judge="j.py::f"), {0: said})
    assert (found.code, found.counts.accepted, found.counts.level) == (code, accepted, level)
    if code is Code.NOT_ACCEPTED:
        asked = "f gives a result that j.py::f does not accept for (0) in call 0"
        assert found.reason == f"{asked}: the judge returns False."


@pytest.mark.parametrize(
    ("plain", "arguments", "unstable"), [("1", "same", 0), ("1", "changed", 1), ("", "same", 1)]
)
def test_results_that_are_judged_may_differ_on_the_baseline(
    plain: str, arguments: str, unstable: int
) -> None:
    call = replace(CALL, plain=plain, arguments="same")
    other = replace(call, digest="x", after="x", arguments=arguments)
    found = stable({0: CALL}, [RunnerReport(calls=(call,)), RunnerReport(calls=(other,))], {})
    assert (len(found.unstable), len(found.calls)) == (unstable, 1 - unstable)


def test_in_a_race_a_result_is_known_by_what_was_accepted_before() -> None:
    calls = captured("aaab", plain="1", arguments="same")
    baseline = replace(
        BASELINE,
        calls={i: calls[i] for i in (1, 3)},
        repeats={0: "t0"},
        inputs_of={0: "a", 1: "a", 3: "b"},
    )
    known = {(1, "good"): "", (3, "bad"): "the judge returns False"}
    judge = SimpleNamespace(place="j.py::f", why_not=lambda *key: known.get(key, "no answer"))
    jury = RaceJury(judge=judge, baseline=baseline)  # type: ignore[arg-type]
    asked = [(0, "d"), (0, "good"), (1, "good"), (3, "good"), (3, "bad"), (9, "d")]
    assert [jury.accepts(*one) for one in asked] == [True, True, True, False, False, False]
