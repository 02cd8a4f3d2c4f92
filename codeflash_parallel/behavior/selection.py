"""Decide which tests are run, in which order, and what a rejection under that order still needs. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.report import GuestReport
from codeflash_parallel.model.functions import definitions, parse_or_none
from codeflash_parallel.model.target import Target


def selected_tests(report: GuestReport, *, targets: int) -> tuple[str, ...]:
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


def executing_tests(report: GuestReport) -> tuple[str, ...]:
    """Return the tests in which a target was called, in the order of collection."""
    executed = {test for (test, _), count in report.executed.items() if count and test}
    return tuple(test for test in report.collected if test in executed)


def called_at_import(report: GuestReport) -> bool:
    """Say whether a target was called outside all tests: during import or collection."""
    return any(count for (test, _), count in report.executed.items() if not test)


def touched_targets(reports: Iterable[GuestReport]) -> dict[str, tuple[int, ...]]:
    """Return the targets that each test executed in any of some runs; empty if none of them tells."""
    touched: dict[str, set[int]] = defaultdict(set)
    for report in reports:
        for test, targets in report.touched.items():
            touched[test] |= targets
    return {test: tuple(sorted(targets)) for test, targets in touched.items()}


def needed_tests(baseline: Baseline, changed: Collection[int]) -> tuple[str, ...]:
    """Return the selected tests that can notice a change of the bodies of some targets, in order.

    All of them, where the outcomes depend on the order, where a changed target is executed outside of tests
    or in what tests share (any of them may live on it), and where no test is known to execute it.

    Args:
        baseline: what is known.
        changed: numbers of the targets.
    """
    touched, everywhere = baseline.touched, baseline.touched.get("", ())
    seen = {target for test in baseline.selected for target in touched.get(test, ())}
    known = all(target in seen and target not in everywhere for target in changed)
    if not changed or not known or baseline.order_sensitive or "" in baseline.spawning:
        return baseline.selected
    wanted, starting = set(changed), set(baseline.spawning)
    return tuple(
        test for test in baseline.selected if test in starting or not wanted.isdisjoint(touched.get(test, ()))
    )


def unambiguous(targets: Sequence[Target], sources: Mapping[str, bytes]) -> frozenset[int]:
    """Return the numbers of the targets whose executions can be told from those of other functions.

    Not those of a property with a setter, whose calls nobody counts; nor those of a finalizer, which is
    called whenever garbage is collected.

    Args:
        targets: in the order of their numbers.
        sources: the snapshot's text of their files.
    """
    names = {path: _definitions(text) for path, text in sources.items()}
    return frozenset(
        number
        for number, target in enumerate(targets)
        if names.get(target.path, Counter())[target.qualname] == 1 and not target.qualname.endswith("__del__")
    )


def _definitions(text: bytes) -> Counter[str]:
    tree = parse_or_none(text.decode("utf-8", "replace"))
    return Counter(name for name, _ in definitions(tree.body)) if tree else Counter()


#: What a test costs besides its own setup, call and teardown: pytest's hooks and our records.
_EACH_NS = 300_000
#: What trying out a selection costs besides the tests: a fork, and staging around it.
_TRIAL_NS = 25_000_000


def pays(baseline: Baseline, tried: Collection[str], left_out: Collection[str], candidates: int) -> bool:
    """Say whether trying some tests out costs no more than leaving others out would have saved by now.

    Args:
        baseline: what is known.
        tried: the tests that would be run for it.
        left_out: those that candidates need not run if it turns out well.
        candidates: how many have come that would not have needed them.
    """
    return candidates * _cost_ns(baseline, left_out) >= _TRIAL_NS + _cost_ns(baseline, tried)


def _cost_ns(baseline: Baseline, tests: Collection[str]) -> int:
    return sum(_EACH_NS + baseline.durations_ns.get(test, 0) for test in tests)


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
class Screening:
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


def screening(
    baseline: Baseline, killers: Iterable[str], workers: int, front: Sequence[str] = ()
) -> Screening:
    """Put what killed earlier candidates in front of the tests, in an order that suits who runs them.

    Where the baseline's outcomes depend on the order it is not touched, and all is run in one process.

    Args:
        baseline: what is known.
        killers: ids, the most deadly first; those that are not selected are left out.
        workers: processes that there is room for; 0: one, without xdist.
        front: tests that pass on the baseline when they are run alone, in this order: all others follow.
    """
    order = as_baseline(baseline).tests
    if baseline.order_sensitive:
        return Screening(tests=order)
    if front and not workers:
        return _with_front(order, killers, front)
    if workers:
        order = longest_first(order, baseline.durations_ns)
    known = set(order)
    first = tuple(test for test in dict.fromkeys(killers) if test in known)
    if first == order[: len(first)]:
        return Screening(tests=order, workers=workers)
    moved = frozenset(first)
    others = (test for test in order if test not in moved)
    return Screening(tests=(*first, *others), killers=moved, workers=workers)


def _with_front(order: Sequence[str], killers: Iterable[str], front: Sequence[str]) -> Screening:
    """Run some tests before all others, and what killed earlier candidates before those.

    With a killer before them they are not in the place any more in which they are known to pass.
    """
    known = set(front)
    first = tuple(test for test in dict.fromkeys(killers) if test in known)
    moved = first if first != tuple(front[: len(first)]) else ()
    tests = tuple(dict.fromkeys((*moved, *front, *order)))
    return Screening(tests=tests, killers=frozenset(moved or front))


def as_baseline(baseline: Baseline) -> Screening:
    """Return the screening that the baseline itself has gone through."""
    return Screening(tests=baseline.order or baseline.selected)


class Need(StrEnum):
    """What a rejection needs before it counts."""

    #: Nothing.
    NOTHING = "nothing"
    #: The same again as the baseline was run: in that order, in one process.
    AS_BASELINE = "as-baseline"


def rejection_needs(screened: Screening, blamed: Collection[str]) -> Need:
    """Say what a rejection of a screened candidate needs.

    A killer passes on the baseline where it stands now. Any other test ran after tests that it never ran
    after before, and may fail because of them; so may one that others ran beside.

    Args:
        screened: how it was run.
        blamed: the tests for which it is rejected; none where it is for no single test.
    """
    changed = bool(screened.killers or screened.workers)
    by_killers = blamed and screened.killers.issuperset(blamed) and not screened.workers
    return Need.AS_BASELINE if changed and not by_killers else Need.NOTHING


def tolerated(tests: Iterable[str], expected: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tests whose failure says nothing, because the baseline's own outcome is not known."""
    return tuple(test for test in tests if test not in expected)


def unselected(asked: Iterable[str], selected: Iterable[str]) -> tuple[str, ...]:
    """Return the tests that were asked for and that screening left out, in order."""
    known = set(selected)
    return tuple(test for test in asked if test not in known)
