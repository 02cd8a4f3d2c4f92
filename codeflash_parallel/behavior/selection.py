"""Decide which tests are run, in which order, and what a rejection under that order still needs. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from codeflash_parallel.behavior.report import GuestReport


def selected_tests(report: GuestReport, *, targets: int) -> tuple[str, ...]:
    """Return the tests that can notice a change of the targets, in the order of collection.

    These are the tests that execute a target and those that start processes, in which nobody counts calls.
    All tests, where a target is called while modules are imported (any test may hold the result), where
    none executes a target, or where there is no target.

    Args:
        report: of a run of all tests that counted calls.
        targets: how many there are.
    """
    executing = executing_tests(report)
    if not targets or not executing or called_at_import(report):
        return report.collected
    noticing = {*executing, *report.spawned}
    return tuple(test for test in report.collected if test in noticing)


def executing_tests(report: GuestReport) -> tuple[str, ...]:
    """Return the tests in which a target was called, in the order of collection."""
    executed = {test for (test, _), count in report.executed.items() if count and test}
    return tuple(test for test in report.collected if test in executed)


def called_at_import(report: GuestReport) -> bool:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Screening:
    """The order of one screening.

    Attributes:
        tests: all selected tests.
        killers: those at its front that were moved there, known to pass on the baseline in that place.
    """

    tests: tuple[str, ...]
    killers: frozenset[str] = frozenset()

    def in_changed_order(self, collected: tuple[str, ...]) -> tuple[str, ...]:
        """Return the tests where their order is not that of collection."""
        return self.tests if self.tests != collected else ()


def screening(order: Sequence[str], killers: Iterable[str], *, order_sensitive: bool) -> Screening:
    """Put what killed earlier candidates in front of the verified order.

    Args:
        order: the selected tests in an order that the baseline was run in.
        killers: ids, the most deadly first; those that are not selected are left out.
        order_sensitive: the baseline's outcomes depend on the order: then it is not touched.
    """
    if order_sensitive:
        return Screening(tests=tuple(order))
    known = set(order)
    first = [test for test in dict.fromkeys(killers) if test in known]
    if tuple(first) == tuple(order[: len(first)]):
        return Screening(tests=tuple(order))
    moved = frozenset(first)
    return Screening(tests=(*first, *(test for test in order if test not in moved)), killers=moved)


class Need(StrEnum):
    """What a rejection needs before it counts."""

    #: Nothing.
    NOTHING = "nothing"
    #: The same again in the order that the baseline was run in.
    VERIFIED_ORDER = "verified-order"


def rejection_needs(screened: Screening, blamed: Collection[str]) -> Need:
    """Say what a rejection of a screened candidate needs.

    A killer passes on the baseline where it stands now. Any other test ran after tests that it never ran
    after before, and may fail because of them.

    Args:
        screened: the order that was used.
        blamed: the tests for which it is rejected; none where it is for no single test.
    """
    if not screened.killers or (blamed and screened.killers.issuperset(blamed)):
        return Need.NOTHING
    return Need.VERIFIED_ORDER


def tolerated(tests: Iterable[str], expected: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tests whose failure says nothing, because the baseline's own outcome is not known."""
    return tuple(test for test in tests if test not in expected)


def unselected(asked: Iterable[str], selected: Iterable[str]) -> tuple[str, ...]:
    """Return the tests that were asked for and that screening left out, in order."""
    known = set(selected)
    return tuple(test for test in asked if test not in known)
