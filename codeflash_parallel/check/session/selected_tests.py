"""Decide which tests are run, in which order, and what a rejection under that order still needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

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
    called_at_import = any(count for (test, _), count in report.executed.items() if not test)
    if not targets or not executing or called_at_import or "" in report.spawned:
        return report.collected
    noticing = {*executing, *report.spawned}
    return tuple(test for test in report.collected if test in noticing)


def executing_tests(report: RunnerReport) -> tuple[str, ...]:
    """Return the tests in which a target was called, in the order of collection."""
    executed = {test for (test, _), count in report.executed.items() if count and test}
    return tuple(test for test in report.collected if test in executed)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScreeningPlan:
    """The order and the processes of one screening.

    Attributes:
        tests: all selected tests, in order.
        killers: those at its front that were moved there, known to pass on the baseline in that place.
        workers: processes that the tests are spread over; 0: one, without xdist.
    """

    tests: tuple[str, ...]
    killers: frozenset[str] = frozenset()
    workers: int = 0

    def needs_confirmation(self, blamed: Collection[str]) -> bool:
        """Tell whether a rejection has to be seen in the baseline's own order, in one process, to count.

        A killer passes on the baseline where it stands now. Any other test ran after tests that it never ran
        after before, and may fail because of them; so may one that others ran beside.

        Args:
            blamed: the tests for which a candidate is rejected; none where it is for no single test.
        """
        by_killers = blamed and self.killers.issuperset(blamed)
        return bool(self.workers) or bool(self.killers and not by_killers)


def screening(baseline: Baseline, killers: Iterable[str], workers: int) -> ScreeningPlan:
    """Put tests that failed for earlier candidates in front of the others.

    Args:
        baseline: what is known.
        killers: ids, the most frequent first; those that are not selected are left out.
        workers: processes that there is room for (they get the longest tests first); 0: one, without xdist.
    """
    order = baseline.selected
    if workers:
        order = tuple(sorted(order, key=lambda test: -baseline.durations_ns.get(test, 0)))
    known = set(order)
    first = tuple(test for test in dict.fromkeys(killers) if test in known)
    if first == order[: len(first)]:
        return ScreeningPlan(tests=order, workers=workers)
    moved = frozenset(first)
    others = (test for test in order if test not in moved)
    return ScreeningPlan(tests=(*first, *others), killers=moved, workers=workers)


#: Starting workers and collecting in each costs about a second, and a spread run has no warm server, which
#: spares about another; a shorter suite would lose by it.
LONG_SUITE_S = 4.0


def xdist_workers(*, suite_s: float, cores: int, in_use: int, waiting: int, has_xdist: bool) -> int:
    """Return how many xdist workers one test run gets; 0: it stays in one process.

    Args:
        suite_s: time of all setups, calls and teardowns of the baseline.
        cores: that may be used.
        in_use: slots that hold a candidate, this one included.
        waiting: candidates in line for a slot: they will want the cores.
        has_xdist: whether the project's interpreter has it.
    """
    idle = cores - in_use - waiting
    if not has_xdist or suite_s < LONG_SUITE_S or idle < 1:
        return 0
    return idle + 1
