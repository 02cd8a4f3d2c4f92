"""The comparison must be exact: what differs is named, what is absent is no pass."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.check.comparison.outcome_comparison import (
    compare_observed,
    compare_tests,
    outcomes_by_test,
)
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport, TestOutcome, read_report
from codeflash_parallel.result.outcome_codes import Code

TARGETS = ("m.py::f",)


OUTCOMES = st.sampled_from(["passed", "failed", "error", "skipped", "xfailed", "xpassed"])


def call(index: int = 0, **fields: object) -> CallOutcome:
    plain = CallOutcome(
        index=index, test="t", target=0, kind="return", type="int", digest="d", floatless="fl", typeless="ty",
        after="a", text="1", args="(0)",
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]


def report_of(**outcomes: str) -> RunnerReport:
    return RunnerReport(finished=True, tests={t: TestOutcome(id=t, outcome=o) for t, o in outcomes.items()})


@given(st.dictionaries(st.text(min_size=1, max_size=3), OUTCOMES, max_size=6))
def test_equal_outcomes_are_ok_and_counted(outcomes: dict[str, str]) -> None:
    comparison = compare_tests(outcomes, report_of(**outcomes))
    assert comparison.code is Code.OK
    assert comparison.counts.passed == comparison.counts.expected == len(outcomes)


@given(st.dictionaries(st.sampled_from("abcd"), OUTCOMES, min_size=1), st.data())
def test_any_single_change_of_an_outcome_is_seen(outcomes: dict[str, str], data: st.DataObject) -> None:
    changed = data.draw(st.sampled_from(sorted(outcomes)))
    other = data.draw(OUTCOMES.filter(lambda o: o != outcomes[changed]))
    comparison = compare_tests(outcomes, report_of(**{**outcomes, changed: other}))
    assert comparison.code in {Code.TESTS_FAILED, Code.TESTS_MISSING}
    assert comparison.counts.failed + comparison.counts.missing == 1


@given(st.dictionaries(st.sampled_from("abcd"), OUTCOMES, min_size=1), st.data())
def test_a_missing_test_is_no_pass(outcomes: dict[str, str], data: st.DataObject) -> None:
    gone = data.draw(st.sampled_from(sorted(outcomes)))
    report = report_of(**{t: o for t, o in outcomes.items() if t != gone})
    comparison = compare_tests(outcomes, report)
    assert comparison.code is Code.TESTS_MISSING
    assert comparison.counts.missing_ids == (gone,)


def test_a_skip_in_place_of_a_pass_is_missing() -> None:
    assert compare_tests({"a": "passed"}, report_of(a="skipped")).code is Code.TESTS_MISSING


def test_a_collection_error_is_a_failure_with_its_message() -> None:
    broken = TestOutcome(id="test_m.py", outcome="error", phase="collect", message="ImportError: no x")
    comparison = compare_tests({"test_m.py::a": "passed"}, RunnerReport(tests={"test_m.py": broken}))
    assert comparison.code is Code.TESTS_FAILED
    assert comparison.failures[0].message == "ImportError: no x"


def ended_early(report: RunnerReport) -> RunnerReport:
    """Cut a report after the first test that failed, as a run that stops there would."""
    kept: dict[str, TestOutcome] = {}
    for name, test in report.tests.items():
        kept[name] = test
        if test.outcome in {"failed", "error"}:
            break
    return replace(report, tests=kept)


@given(st.dictionaries(st.sampled_from("abcdef"), OUTCOMES, min_size=1), st.data())
def test_a_run_that_ended_early_has_the_code_of_the_whole_run(
    expected: dict[str, str], data: st.DataObject
) -> None:
    got = data.draw(st.dictionaries(st.sampled_from(sorted(expected)), OUTCOMES))
    collected = data.draw(st.lists(st.sampled_from(sorted(expected)), unique=True))
    expected = {test: outcome for test, outcome in expected.items() if outcome not in {"failed", "error"}}
    got = {test: outcome for test, outcome in got.items() if test in expected}
    whole = replace(report_of(**got), collected=tuple(dict.fromkeys([*collected, *got])))
    screened = compare_tests(expected, ended_early(whole))
    assert screened.code is compare_tests(expected, whole).code
    counts = screened.counts
    assert counts.passed + counts.failed + counts.missing + counts.not_run == len(expected)
    assert counts.missing <= compare_tests(expected, whole).counts.missing


def test_what_was_not_run_is_not_missing_and_what_was_not_collected_is() -> None:
    expected = dict.fromkeys("abcd", "passed")
    report = replace(report_of(a="passed", b="failed"), collected=("a", "b", "c"))
    comparison = compare_tests(expected, report)
    assert comparison.code is Code.TESTS_FAILED
    counts = comparison.counts
    assert (counts.passed, counts.failed, counts.missing, counts.not_run) == (1, 1, 1, 1)
    assert counts.missing_ids == ("d",)


def test_a_run_that_ends_without_a_failure_of_a_known_test_has_missing_tests() -> None:
    report = replace(report_of(a="passed", unknown="failed"), collected=("a", "b", "unknown"))
    comparison = compare_tests({"a": "passed", "b": "passed"}, report)
    assert (comparison.code, comparison.counts.missing_ids) == (Code.TESTS_MISSING, ("b",))


def test_observed_outcomes_are_a_multiset() -> None:
    one, two = call(0, digest="x"), call(1, digest="y")
    expected = outcomes_by_test([one, two])
    assert compare_observed(expected, RunnerReport(calls=(two, one)), TARGETS).code is Code.OK
    assert compare_observed(expected, RunnerReport(calls=(one, one)), TARGETS).code is Code.VALUE_DIFFERS
    assert compare_observed(expected, RunnerReport(calls=(one,)), TARGETS).code is Code.VALUE_DIFFERS


def test_of_calls_that_were_sampled_only_those_that_were_seen_count() -> None:
    one, two, other = call(0, digest="1"), call(1, digest="2"), call(2, digest="3")
    expected = outcomes_by_test([one, two])
    sampled = {("t", 0): 2}
    assert compare_observed(expected, RunnerReport(executed=sampled), TARGETS).code is Code.OK
    assert compare_observed(expected, RunnerReport(calls=(two,), executed=sampled), TARGETS).code is Code.OK
    differs = compare_observed(expected, RunnerReport(calls=(other,), executed=sampled), TARGETS)
    assert differs.code is Code.VALUE_DIFFERS


def test_reading_records() -> None:
    report = read_report(
        [
            {"t": "hello", "python": "3.11", "pytest": "8", "plugins": ["xdist"]},
            {"t": "phase", "id": "a", "when": "setup", "outcome": "passed", "ns": 1},
            {"t": "phase", "id": "a", "when": "call", "outcome": "skipped", "xfail": True, "ns": 2},
            {"t": "phase", "id": "b", "when": "setup", "outcome": "failed", "message": "boom"},
            {"t": "phase", "id": "c", "when": "call", "outcome": "passed", "xfail": True},
            {"t": "executed", "id": "a", "target": 0, "calls": 2},
            {"t": "source", "path": "m.py", "digest": "x"},
            {"t": "from the future"},
            {"t": "end", "status": 1},
        ]
    )
    assert report.finished
    assert {t: o.outcome for t, o in report.tests.items()} == {"a": "xfailed", "b": "error", "c": "xpassed"}
    assert report.tests_ns == 3
    assert report.executed == {("a", 0): 2}
    assert report.sources == {"m.py": frozenset({"x"})}


def test_tests_that_passed_come_in_one_record() -> None:
    report = read_report(
        [
            {"t": "passed", "id": "a", "ns": [1, 2, 3]},
            {"t": "passed", "id": "twice", "ns": [1, 1, 1]},
            {"t": "passed", "id": "twice", "ns": [1, 1, 1]},
            # Rerun: a first try in single phases, the second one as a whole.
            {"t": "phase", "id": "again", "when": "setup", "outcome": "passed", "ns": 10},
            {"t": "phase", "id": "again", "when": "call", "outcome": "rerun", "ns": 10},
            {"t": "passed", "id": "again", "ns": [1, 1, 1]},
            # An error in the teardown of a test that had passed under the same id.
            {"t": "passed", "id": "late", "ns": [1, 1, 1]},
            {"t": "phase", "id": "late", "when": "teardown", "outcome": "failed", "ns": 1, "message": "boom"},
        ]
    )
    found = {test: (outcome.outcome, outcome.ns) for test, outcome in report.tests.items()}
    assert found == {
        "a": ("passed", 6),
        "twice": ("passed", 6),
        "again": ("passed", 23),
        "late": ("error", 4),
    }


def test_reading_what_servers_and_watches_say() -> None:
    report = read_report(
        [
            {"t": "served", "point": "imported"},
            {"t": "spawned", "id": "a"},
            {"t": "spawned", "id": "b"},
            {"t": "spawned", "id": "a"},
            {"t": "unswappable", "why": "a decorator"},
        ]
    )
    assert (report.served, report.spawned) == ("imported", ("a", "b"))
    assert report.unswappable == "a decorator"
