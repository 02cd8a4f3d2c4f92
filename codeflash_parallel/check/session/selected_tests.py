"""Decide which tests are run, in which order, and what a rejection under that order still needs. Pure."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.process.atomic_file import write_atomically
from codeflash_parallel.result.candidate.candidate_model import digest_of


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


#: Tests that one history names at most.
MOST_TESTS = 200
#: Histories, one for each set of targets, that one repository has at most.
MOST_HISTORIES = 200
#: Weight that a kill keeps from one run to the next: a test that catches nothing any more falls behind.
_KEPT = 0.8
#: Below this a kill is forgotten (some twenty runs ago).
_LEAST = 0.01
#: A larger file is not ours.
_LARGEST_BYTES = 1 << 20


class Kills:
    """The kills of one set of targets: of earlier runs, and of this one as they happen."""

    def __init__(self, path: Path, weights: Mapping[str, float]) -> None:
        self._path = path
        self._before = dict(weights)
        self._now: dict[str, float] = {}

    @classmethod
    def load(cls, home: Path, targets: Iterable[Target]) -> Kills:
        """Read the history of some targets from a repository's folder in the cache."""
        name = digest_of("\n".join(sorted(map(str, targets))).encode())[:24]
        path = home / "kills" / f"{name}.json"
        return cls(path, _read(path))

    def add(self, test: str) -> None:
        """Note that a test caught a candidate."""
        self._now[test] = self._now.get(test, 0.0) + 1.0

    @property
    def order(self) -> tuple[str, ...]:
        """Return the tests that caught something, the most deadly first."""
        return ranked(self._merged())

    def save(self) -> None:
        """Write the history, if this run has added to it. Blocks."""
        if self._now:
            with contextlib.suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._path, json.dumps(bounded(self._merged())).encode())
                _forget_the_oldest(self._path.parent)

    def _merged(self) -> dict[str, float]:
        return merged(self._before, self._now)


def merged(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    """Return the weights after a run with some kills."""
    tests = before.keys() | now.keys()
    return {test: _KEPT * before.get(test, 0.0) + now.get(test, 0.0) for test in tests}


def ranked(weights: Mapping[str, float]) -> tuple[str, ...]:
    """Return tests by weight, the heaviest first; equal ones by name."""
    return tuple(sorted(weights, key=lambda test: (-weights[test], test)))


def bounded(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the heaviest weights, as many as are kept."""
    return {test: weights[test] for test in ranked(weights)[:MOST_TESTS] if weights[test] >= _LEAST}


def _forget_the_oldest(folder: Path) -> None:
    """Remove the histories that were not written for longest, beyond those that are kept."""
    by_age = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in by_age[MOST_HISTORIES:]:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, float]:
    """Return what a file says, as far as it makes sense."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return {}
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = data.items() if isinstance(data, dict) else ()
    return bounded({test: float(weight) for test, weight in entries if _is_weight(weight)})


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
