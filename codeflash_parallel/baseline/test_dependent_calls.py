"""Captured calls made again without the tests, and with them where a call needs something of them.

An input may be an object of a class that a test module defines, or name a file beside the tests. Such calls
are *sheltered*: they are made with everything there, in a process of their own, and all others without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import NamedTuple

from codeflash_parallel.baseline.baseline_findings import (
    SURROUNDINGS,
    Stability,
    repetitions,
    stable,
    timed_calls,
    without_unkept,
)
from codeflash_parallel.baseline.input_derivation import BaselineReplayer, FirstReplay
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport

#: Names of folders that hold tests and what they need.
_FOLDERS = frozenset({"test", "tests", "testing"})


def absences(
    files: Collection[str], asked: Iterable[str], rootdir: str, needed: Collection[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the paths that replays may lack, the most first: folders of tests; the files of tests alone.

    Args:
        files: of the snapshot.
        asked: ids of tests.
        rootdir: pytest's, from which these ids count, relative to the snapshot's root.
        needed: files that must stay: those of the targets.
    """
    named = {_below(rootdir, test.partition("::")[0]) for test in asked if _is_function(test)}
    tests = sorted(path for path in files if (_has_test_name(path) or path in named) and path not in needed)
    folders = {folder for path in files if (folder := _folder_of_tests(path))}
    folders = {f for f in folders if not any(path.startswith(f"{f}/") for path in needed)}
    outer = sorted(f for f in folders if not any(f.startswith(f"{other}/") for other in folders))
    alone = [path for path in tests if not any(path.startswith(f"{folder}/") for folder in outer)]
    found = ((*outer, *alone), tuple(tests))
    return tuple(dict.fromkeys(paths for paths in found if paths))


def _folder_of_tests(path: str) -> str:
    """Return the outermost folder of tests above a path; empty if there is none."""
    parts = path.split("/")[:-1]
    return next(("/".join(parts[: n + 1]) for n, part in enumerate(parts) if part in _FOLDERS), "")


def _has_test_name(path: str) -> bool:
    name = PurePosixPath(path).name
    is_test = name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
    return is_test and name.endswith(".py")


def _is_function(test: str) -> bool:
    """Say whether a test is a function in a file of tests, and no example in the documentation of code."""
    return any(part.startswith(("test", "Test")) for part in test.split("::")[1:])


def _below(rootdir: str, path: str) -> str:
    return path if rootdir in {"", "."} else f"{rootdir}/{path}"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayFindings:
    """Results of the baseline's replays.

    Attributes:
        replays: those without what lay aside.
        aside: what that was.
        sheltered: calls of `found` that were made with it there.
        others: the replays of those.
    """

    found: Stability
    replays: Sequence[RunnerReport] = ()
    aside: tuple[str, ...] = ()
    sheltered: tuple[int, ...] = ()
    others: Sequence[RunnerReport] = ()

    @property
    def manners(self) -> tuple[str, ...]:
        """Return how values told in any replay what they hold, and what was still to come after the calls."""
        return tuple(sorted({manner for replay in self._all for manner in replay.manners}))

    @property
    def cpu_ns(self) -> int:
        """Return the CPU time of the longest replay."""
        return max((replay.timings_ns.get("cpu", 0) for replay in self._all), default=0)

    @property
    def replaced(self) -> frozenset[str]:
        """Return what of our own code the project replaces in any replay."""
        return frozenset(name for replay in self._all for name in replay.replaced)

    def costs_ns(self, captured: Mapping[int, CallOutcome]) -> dict[int, int]:
        """Return the CPU time of each call that can be timed: the least that was seen.

        One look is not enough: a collection or a page fault in one short call makes its test a heavy one,
        which is then raced by itself.
        """
        again = self._again(captured)
        taken = {index: (captured[index].ns, *(call.ns for call in calls)) for index, calls in again.items()}
        # Nothing was measured where it is zero.
        return {index: min(filter(None, ns), default=0) for index, ns in taken.items()}

    def copies_ns(self, captured: Mapping[int, CallOutcome]) -> dict[int, int]:
        """Return the CPU time of making the inputs of each such call again: the least that was seen."""
        again = self._again(captured)
        return {index: min((call.copy_ns for call in calls), default=0) for index, calls in again.items()}

    def _again(self, captured: Mapping[int, CallOutcome]) -> dict[int, list[CallOutcome]]:
        """Return what all replays say of each such call, or of that which it repeats, by index."""
        repeated = repetitions(captured)
        replays = [{call.index: call for call in replay.calls} for replay in self._all]
        numbers = {index: repeated.get(index, index) for index in timed_calls(self.found)}
        return {
            index: [replay[number] for replay in replays if number in replay]
            for index, number in sorted(numbers.items())
        }

    @property
    def _all(self) -> tuple[RunnerReport, ...]:
        return (*self.replays, *self.others)


async def replayed(
    making: BaselineReplayer, captured: Mapping[int, CallOutcome], levels: Sequence[tuple[str, ...]]
) -> ReplayFindings:
    """Make captured calls again.

    Args:
        making: makes them.
        captured: calls by number.
        levels: what to do without, the most first; the next one is tried where calls need some of it.
    """
    repeated = repetitions(captured)
    made = tuple(index for index in captured if index not in repeated)
    if not made:
        return ReplayFindings(found=stable(captured, [], repeated))

    async def once(aside: tuple[str, ...]) -> _Level:
        at = replace(making, aside=aside)
        first = await at.first(made)
        return _Level(at, first, len(stable(captured, [first.report], repeated).calls))

    best = await once(levels[0] if levels else ())
    bound = stable(captured, [best.first.report], repeated).bound
    left = [index for index in made if bound.get(index) == SURROUNDINGS and best.making.aside]
    some = {index: call for index, call in captured.items() if repeated.get(index, index) in set(left)}
    sheltered = await making.first(left) if left else None
    if sheltered is not None and not stable(some, [sheltered.report], repeated).calls:
        sheltered = None
    for aside in levels[1:] if sheltered is not None else ():
        other = await once(aside)
        best = other if other.calls > best.calls else best
    # What is made for a second time waits for another second of the clock: all of it once.
    replays = [best.first.report, await best.making.second(best.first, captured, made)]
    found = stable(captured, replays, repeated)
    without = ReplayFindings(found=found, replays=replays, aside=best.making.aside)
    if sheltered is None:
        return without
    others = [sheltered.report, await making.second(sheltered, some, left)]
    saved = stable(some, others, repeated)
    return replace(_joined(without, saved), others=others) if saved.calls else without


class _Level(NamedTuple):
    """Results of calls made once without some files, and how many calls do not need these."""

    making: BaselineReplayer
    first: FirstReplay
    calls: int


def _joined(best: ReplayFindings, saved: Stability) -> ReplayFindings:
    found = best.found
    calls = {index: call for index, call in saved.calls.items() if index not in found.calls}
    repeats = {index: test for index, test in saved.repeats.items() if index not in found.repeats}
    every = {**found.calls, **calls}
    joined = Stability(
        calls=without_unkept({index: every[index] for index in sorted(every)}),
        repeats={**found.repeats, **repeats},
        unstable=found.unstable,
        bound={i: why for i, why in found.bound.items() if i not in calls and i not in repeats},
    )
    return replace(best, found=joined, sheltered=tuple(sorted(calls)))


def warnings_of(found: ReplayFindings) -> tuple[str, ...]:
    """Say that calls are made with the tests beside them."""
    if not found.sheltered:
        return ()
    count, all_of = len(found.found.calls.keys() & set(found.sheltered)), len(found.found.calls)
    need = f"{count} of {all_of} captured calls need something of the tests"
    return (f"{need}: they are made again with the tests beside them.",)
