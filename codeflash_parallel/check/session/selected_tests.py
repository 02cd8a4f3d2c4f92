"""Decide which tests are run, in which order, and what a rejection under that order still needs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import RunnerReport


def selected_tests(report: RunnerReport, *, targets: int) -> tuple[str, ...]:
    """Return the tests that can notice a change of the targets, in the order of collection.

    These are the tests that execute a target and those that start processes, in which nobody counts calls.
    All tests, where a target is called or processes are started outside of tests (any test may depend on
    them), where none executes a target, or where there is no target.

    Args:
        report: of a run of all tests that counted calls.
        targets: how many there are.
    """
    executing = executing_tests(report)
    if not targets or not executing or called_at_import(report) or "" in report.spawned:
        return report.collected
    noticing = {*executing, *report.spawned}
    return tuple(test for test in report.collected if test in noticing)


def executing_tests(report: RunnerReport) -> tuple[str, ...]:
    """Return the tests in which a target was called, in the order of collection."""
    executed = {test for (test, _), count in report.executed.items() if count and test}
    return tuple(test for test in report.collected if test in executed)


def called_at_import(report: RunnerReport) -> bool:
    """Say whether a target was called outside all tests: during import or collection."""
    return any(count for (test, _), count in report.executed.items() if not test)


def by_file(tests: Sequence[str], durations_ns: Mapping[str, int]) -> tuple[str, ...]:
    """Return tests with the quickest files first (by the mean of their tests), inside a file as they were.

    Files stay together: what they set up for all their tests is set up once. Tests of unknown duration
    count nothing; files that are equal keep their order.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[file_of(test)].append(test)

    def mean_ns(file: str) -> float:
        return sum(durations_ns.get(test, 0) for test in files[file]) / len(files[file])

    return tuple(test for file in sorted(files, key=mean_ns) for test in files[file])


def file_of(test: str) -> str:
    """Return the file of a test id."""
    return test.partition("::")[0]


def longest_first(tests: Sequence[str], durations_ns: Mapping[str, int]) -> tuple[str, ...]:
    """Return tests with the longest first, for several processes: short ones fill what is left at the end.

    Tests of unknown duration come last; equal ones keep their order.
    """
    return tuple(sorted(tests, key=lambda test: -durations_ns.get(test, 0)))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScreeningPlan:
    """How one screening is run.

    Attributes:
        tests: all selected tests, in order.
        killers: those at its front that were moved there, known to pass on the baseline in that place.
        workers: processes that the tests are spread over; 0: one, without xdist.
    """

    tests: tuple[str, ...]
    killers: frozenset[str] = frozenset()
    workers: int = 0

    def in_changed_order(self, collected: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tests where their order is not that of collection."""
        return self.tests if self.tests != collected else ()


def screening(baseline: Baseline, killers: Iterable[str], workers: int) -> ScreeningPlan:
    """Put what killed earlier candidates in front of the tests, in an order that suits who runs them.

    Where the baseline's outcomes depend on the order it is not touched, and all is run in one process.

    Args:
        baseline: what is known.
        killers: ids, the most deadly first; those that are not selected are left out.
        workers: processes that there is room for; 0: one, without xdist.
    """
    order = as_baseline(baseline).tests
    if baseline.order_sensitive:
        return ScreeningPlan(tests=order)
    if workers:
        order = longest_first(order, baseline.durations_ns)
    known = set(order)
    first = tuple(test for test in dict.fromkeys(killers) if test in known)
    if first == order[: len(first)]:
        return ScreeningPlan(tests=order, workers=workers)
    moved = frozenset(first)
    others = (test for test in order if test not in moved)
    return ScreeningPlan(tests=(*first, *others), killers=moved, workers=workers)


def as_baseline(baseline: Baseline) -> ScreeningPlan:
    """Return the screening that the baseline itself has gone through."""
    return ScreeningPlan(tests=baseline.order or baseline.selected)


class ConfirmationNeed(StrEnum):
    """What a rejection needs before it counts."""

    #: Nothing.
    NOTHING = "nothing"
    #: The same again as the baseline was run: in that order, in one process.
    AS_BASELINE = "as-baseline"


def rejection_needs(screened: ScreeningPlan, blamed: Collection[str]) -> ConfirmationNeed:
    """Say what a rejection of a screened candidate needs.

    A killer passes on the baseline where it stands now. Any other test ran after tests that it never ran
    after before, and may fail because of them; so may one that others ran beside.

    Args:
        screened: how it was run.
        blamed: the tests for which it is rejected; none where it is for no single test.
    """
    changed = bool(screened.killers or screened.workers)
    by_killers = blamed and screened.killers.issuperset(blamed) and not screened.workers
    return ConfirmationNeed.AS_BASELINE if changed and not by_killers else ConfirmationNeed.NOTHING


def tolerated(tests: Iterable[str], expected: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tests whose failure says nothing, because the baseline's own outcome is not known."""
    return tuple(test for test in tests if test not in expected)


def unselected(asked: Iterable[str], selected: Iterable[str]) -> tuple[str, ...]:
    """Return the tests that were asked for and that screening left out, in order."""
    known = set(selected)
    return tuple(test for test in asked if test not in known)
