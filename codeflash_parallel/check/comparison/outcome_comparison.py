"""Decide whether a candidate is equivalent to the baseline. Pure: values in, values out.

The same test ids with the same outcomes; and, for calls that can only be seen inside their tests, the same
multiset of outcomes. `values` compares the calls that are made again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from codeflash_parallel.check.comparison.difference_text import and_more, outcome_text
from codeflash_parallel.check.comparison.value_comparison import ValueComparison
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport, TestOutcome
from codeflash_parallel.result.check_evidence import (
    MAX_IDS,
    FailedTest,
    FirstDifference,
    TestCounts,
    ValueCounts,
)
from codeflash_parallel.result.outcome_codes import Code, Level

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


def compare_tests(expected: Mapping[str, str], report: RunnerReport) -> TestComparison:
    """Compare the tests of a candidate with the baseline's outcomes.

    A run that ended at its first decisive failure misses no test that would have come after it; its code is
    that of a run of all tests: only a failure ends one early, and no other outcome is graver.

    Args:
        expected: outcome by test id, quarantined tests left out.
        report: the candidate's. A test that is skipped, xfailed or not there is no pass.
    """
    ended = any(test in expected and outcome.outcome in DECISIVE for test, outcome in report.tests.items())
    not_run = set(report.collected) - report.tests.keys() if ended else frozenset[str]()
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
    failures = tuple(
        FailedTest(id=t.id, phase=t.phase, message=t.message or _other_outcome(t, expected))
        for t in failing[:MAX_MESSAGES]
    )
    if failing:
        first = failing[0]
        what = "could not be collected" if first.phase == "collect" else _other_outcome(first, expected)
        reason = f"{first.id} {what}{and_more(len(failing) - 1)}."
        return TestComparison(code=Code.TESTS_FAILED, reason=reason, counts=counts, failures=failures)
    if counts.missing:
        reason = f"{counts.missing_ids[0]} did not run{and_more(counts.missing - 1)}."
        return TestComparison(code=Code.TESTS_MISSING, reason=reason, counts=counts)
    return TestComparison(code=Code.OK, reason="Every test has the baseline's outcome.", counts=counts)


def _other_outcome(test: TestOutcome, expected: Mapping[str, str]) -> str:
    if test.outcome in {"failed", "error"}:
        return "fails" if test.outcome == "failed" else f"has an error in {test.phase or 'setup'}"
    return f"is {test.outcome}, it was {expected.get(test.id, 'absent')}"


TestKey = tuple[str, int]
Outcomes = Counter[tuple[str, str, str]]


def outcomes_by_test(calls: Iterable[CallOutcome]) -> dict[TestKey, Outcomes]:
    """Return the multiset of outcomes of each (test, target): threads and tasks may reorder calls."""
    grouped: dict[TestKey, Outcomes] = defaultdict(Counter)
    for call in calls:
        grouped[call.test, call.target][call.essence] += 1
    return dict(grouped)


def compare_observed(
    expected: Mapping[TestKey, Outcomes], got: RunnerReport, targets: Sequence[str]
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
        got=outcome_text(example) if example else "fewer calls than the baseline",
    )
    name = targets[target].rpartition("::")[2]
    reason = f"{name} gives other values inside {test}{and_more(len(differing) - 1)}."
    return ValueComparison(code=Code.VALUE_DIFFERS, reason=reason, counts=counts, difference=difference)


def _differ(expected: Outcomes, observed: Outcomes, calls: int) -> bool:
    sampled = observed.total() < calls
    return bool(observed - expected) if sampled else observed != expected
