"""Results that the user's judge is asked about, and its answers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from codeflash_parallel.baseline.baseline_findings import stable
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.comparison.call_comparison import (
    BaselineReplays,
    CallMeasurement,
    ComparisonRules,
)
from codeflash_parallel.check.comparison.value_comparison import compare_calls, judged_calls, to_measure
from codeflash_parallel.check.session.runner_report import CallDigests, CallOutcome, RunnerReport
from codeflash_parallel.race.worker.arm_worker import ResultJudge
from codeflash_parallel.result.outcome_codes import Code, Level

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
    jury = ResultJudge(judge=judge, baseline=baseline)  # type: ignore[arg-type]
    asked = [(0, "d"), (0, "good"), (1, "good"), (3, "good"), (3, "bad"), (9, "d")]
    assert [jury.accepts(*one) for one in asked] == [True, True, True, False, False, False]
