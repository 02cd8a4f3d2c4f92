"""Decide whether a candidate is equivalent to the baseline. Pure: values in, values out.

The comparison is exact: the same test ids with the same outcomes, and for each captured call the same kind
of outcome, the same value with the same type, and the same arguments afterwards.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from codeflash_parallel.behavior.report import Answer, CallOutcome, GuestReport, TestOutcome
from codeflash_parallel.model.outcome import Code, Level
from codeflash_parallel.model.result import MAX_IDS, FailedTest, FirstDifference, TestCounts, ValueCounts

#: How grave a differing call is, the gravest first; the code of a candidate is its gravest.
_GRAVEST_FIRST = (Code.VALUE_DIFFERS, Code.TYPE_DIFFERS, Code.INPUT_MUTATED, Code.FLOAT_DIFFERS)

#: Outcomes of a known test that end a screening.
DECISIVE = frozenset({"failed", "error"})

#: How many failing tests carry their message into the result.
MAX_MESSAGES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class TestComparison:
    """Tests held against the baseline's: `code` is `OK`, `TESTS_FAILED` or `TESTS_MISSING`."""

    # Not a test: pytest must not collect it where it is imported.
    __test__: ClassVar[bool] = False

    code: Code
    reason: str
    counts: TestCounts
    failures: tuple[FailedTest, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueComparison:
    """Captured calls held against the baseline's."""

    code: Code
    reason: str
    counts: ValueCounts
    difference: FirstDifference | None = None


def compare_tests(expected: Mapping[str, str], report: GuestReport) -> TestComparison:
    """Hold the tests of a candidate against the baseline's outcomes.

    Args:
        expected: outcome by test id, quarantined tests left out.
        report: the candidate's. A test that is skipped, xfailed or not there is no pass.
    """
    return _compare_tests(expected, report, frozenset())


def compare_screened(expected: Mapping[str, str], report: GuestReport) -> TestComparison:
    """Do the same for a run that ended at its first decisive failure: what came after it is not missing.

    The code is that of a run of all tests: only a failure ends one early, and none is graver.
    """
    failed = any(test in expected and outcome.outcome in DECISIVE for test, outcome in report.tests.items())
    not_run = set(report.collected) - report.tests.keys() if failed else frozenset[str]()
    return _compare_tests(expected, report, not_run)


def _compare_tests(
    expected: Mapping[str, str], report: GuestReport, not_run: Collection[str]
) -> TestComparison:
    failed, missing, skipped_over = [], [], 0
    for test, outcome in expected.items():
        got = report.tests.get(test)
        if got is None and test in not_run:
            skipped_over += 1
        elif got is None or (got.outcome == "skipped" and outcome != "skipped"):
            missing.append(test)
        elif got.outcome != outcome:
            failed.append(test)
    counts = TestCounts(
        expected=len(expected),
        passed=len(expected) - len(failed) - len(missing) - skipped_over,
        failed=len(failed),
        missing=len(missing),
        not_run=skipped_over,
        failed_ids=tuple(failed[:MAX_IDS]),
        missing_ids=tuple(missing[:MAX_IDS]),
    )
    collect_errors = [t for t in report.tests.values() if t.phase == "collect"]
    failing = [report.tests[t] for t in failed] + collect_errors
    return _test_comparison(counts, failing, expected)


def _test_comparison(
    counts: TestCounts, failing: Sequence[TestOutcome], expected: Mapping[str, str]
) -> TestComparison:
    failures = tuple(
        FailedTest(id=t.id, phase=t.phase, message=t.message or _other_outcome(t, expected))
        for t in failing[:MAX_MESSAGES]
    )
    if failing:
        first = failing[0]
        what = "could not be collected" if first.phase == "collect" else _other_outcome(first, expected)
        reason = f"{first.id} {what}{_and_more(len(failing) - 1)}."
        return TestComparison(code=Code.TESTS_FAILED, reason=reason, counts=counts, failures=failures)
    if counts.missing:
        reason = f"{counts.missing_ids[0]} did not run{_and_more(counts.missing - 1)}."
        return TestComparison(code=Code.TESTS_MISSING, reason=reason, counts=counts)
    return TestComparison(code=Code.OK, reason="Every test has the baseline's outcome.", counts=counts)


def _other_outcome(test: TestOutcome, expected: Mapping[str, str]) -> str:
    if test.outcome in {"failed", "error"}:
        return "fails" if test.outcome == "failed" else f"has an error in {test.phase or 'setup'}"
    return f"is {test.outcome}, it was {expected.get(test.id, 'absent')}"


def _and_more(count: int) -> str:
    return f" (and {count} more)" if count > 0 else ""


def compare_calls(
    expected: Mapping[int, CallOutcome],
    got: GuestReport,
    targets: Sequence[str],
    *,
    repeated: int = 0,
    unstable: int = 0,
) -> ValueComparison:
    """Hold the replayed calls of a candidate against the baseline's, call by call.

    Args:
        expected: the baseline's stable outcomes by index of the captured call.
        got: the candidate's replay.
        targets: names of the targets by number.
        repeated: how many captured calls were left out because they repeat those of `expected`.
        unstable: how many captured calls were left out because the baseline disagrees with itself.
    """
    answers: dict[int, CallOutcome | Answer] = {answer.call: answer for answer in got.answers}
    answers |= {call.index: call for call in got.calls}
    differing = [
        (code, call, answers.get(index))
        for index, call in expected.items()
        if (code := _call_code(call, answers.get(index))) is not Code.OK
    ]
    level = Level.CAPTURED if expected else Level.TESTS
    counts = ValueCounts(
        compared=len(expected), differing=len(differing), repeated=repeated, unstable=unstable, level=level
    )
    if not differing:
        reason = f"All {len(expected)} replayed calls give the baseline's values." if expected else ""
        return ValueComparison(code=Code.OK, reason=reason, counts=counts)
    code, call, answer = min(differing, key=lambda found: (_GRAVEST_FIRST.index(found[0]), found[1].index))
    difference = first_difference(call, answer, targets, got.unreplayable.get(call.index, ""))
    return ValueComparison(
        code=code,
        reason=_value_reason(code, difference, len(differing)),
        counts=counts,
        difference=difference,
    )


def _call_code(expected: CallOutcome, got: CallOutcome | Answer | None) -> Code:
    if got is None or got.kind != expected.kind:
        return Code.VALUE_DIFFERS
    if got.kind == "raise":
        # The text of a message is not part of the contract; its type is.
        same = got.type == expected.type
        return _after_code(expected, got) if same else Code.VALUE_DIFFERS
    if got.digest == expected.digest:
        return _after_code(expected, got)
    if got.floatless and got.floatless == expected.floatless:
        return Code.FLOAT_DIFFERS
    if got.typeless and got.typeless == expected.typeless:
        return Code.TYPE_DIFFERS
    return Code.VALUE_DIFFERS


def _after_code(expected: CallOutcome, got: CallOutcome | Answer) -> Code:
    return Code.OK if got.after == expected.after else Code.INPUT_MUTATED


def first_difference(
    expected: CallOutcome, got: CallOutcome | Answer | None, targets: Sequence[str], why: str = ""
) -> FirstDifference:
    """Put one differing call into words, as far as they are known."""
    return FirstDifference(
        target=targets[expected.target] if expected.target < len(targets) else "",
        test=expected.test,
        call=expected.index,
        inputs=expected.args,
        expected=_outcome_text(expected),
        got=_outcome_text(got) if got else (why or "no outcome"),
    )


def reworded(
    difference: FirstDifference, expected: CallOutcome, again: CallOutcome | None
) -> FirstDifference:
    """Say of a differing call what it gave when it was made once more."""
    if again is None:
        return replace(difference, got="another outcome; made once more, the call gave none")
    if _call_code(expected, again) is Code.OK:
        return replace(difference, got="another outcome; made once more, the call gave the baseline's")
    return replace(difference, got=_outcome_text(again))


def _outcome_text(call: CallOutcome | Answer) -> str:
    if isinstance(call, Answer):
        return f"raises {call.type}" if call.kind == "raise" else f"another {call.type}"
    return f"raises {call.type}: {call.text}" if call.kind == "raise" else call.text


def _value_reason(code: Code, difference: FirstDifference, count: int) -> str:
    name = difference.target.rpartition("::")[2]
    what = {
        Code.VALUE_DIFFERS: "gives another value",
        Code.TYPE_DIFFERS: "gives an equal value of another type",
        Code.INPUT_MUTATED: "leaves its arguments (or their identity with the result) in another state",
        Code.FLOAT_DIFFERS: "gives other floats",
    }[code]
    return f"{name} {what} for {_short(difference.inputs)} in call {difference.call}{_and_more(count - 1)}."


def _short(text: str, width: int = 60) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


TestKey = tuple[str, int]
Outcomes = Counter[tuple[str, str, str]]


def outcomes_by_test(calls: Iterable[CallOutcome]) -> dict[TestKey, Outcomes]:
    """Return the multiset of outcomes of each (test, target): threads and tasks may reorder calls."""
    grouped: dict[TestKey, Outcomes] = defaultdict(Counter)
    for call in calls:
        grouped[call.test, call.target][call.essence] += 1
    return dict(grouped)


def compare_observed(
    expected: Mapping[TestKey, Outcomes], got: GuestReport, targets: Sequence[str]
) -> ValueComparison:
    """Hold outcomes observed *inside* the tests against the baseline's, for calls that cannot be replayed.

    Which calls a sample holds depends on the order of the tests and on the load: of calls that were sampled,
    only those that were seen count.

    Args:
        expected: stable multisets of the baseline by (test, target); complete (nothing was sampled).
        got: the candidate's test run, recorded in digest mode.
    """
    seen = outcomes_by_test(got.calls)
    observed = {key: seen.get(key, Counter()) for key in expected}
    differing = [
        key
        for key, outcomes in expected.items()
        if _differ(outcomes, observed[key], got.executed.get(key, 0))
    ]
    compared = sum(sum(outcomes.values()) for outcomes in expected.values())
    level = Level.CAPTURED if compared else Level.TESTS
    counts = ValueCounts(compared=compared, differing=len(differing), level=level)
    if not differing:
        return ValueComparison(code=Code.OK, reason="", counts=counts)
    test, target = differing[0]
    surplus = observed[test, target] - expected[test, target]
    example = next(
        (c for c in got.calls if (c.test, c.target) == (test, target) and c.essence in surplus), None
    )
    difference = FirstDifference(
        target=targets[target],
        test=test,
        call=example.index if example else -1,
        inputs=example.args if example else "",
        expected="what the baseline gave in this test",
        got=_outcome_text(example) if example else "fewer calls than the baseline",
    )
    name = targets[target].rpartition("::")[2]
    reason = f"{name} gives other values inside {test}{_and_more(len(differing) - 1)}."
    return ValueComparison(code=Code.VALUE_DIFFERS, reason=reason, counts=counts, difference=difference)


def _differ(expected: Outcomes, observed: Outcomes, calls: int) -> bool:
    sampled = observed.total() < calls
    return bool(observed - expected) if sampled else observed != expected
