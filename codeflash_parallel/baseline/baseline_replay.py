"""Captured calls of a baseline made again; and derived inputs: tried out, replayed beside them, and sorted.

A derived input counts where the baseline ends normally on it (it returns, raises what it was seen to raise,
or what a `raise` in the project's own code says) and twice alike, in two processes with
different hash seeds. In the second one and in all candidates the same calls come in the same order.

Captured calls are made again without the tests, and with them where a call needs something of them: an input
may be an object of a class that a test module defines, or name a file beside the tests. Such calls are
*sheltered*: they are made with everything there, in a process of their own, and all others without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from time import time
from typing import NamedTuple

import anyio

from codeflash_parallel.baseline.baseline_findings import (
    SURROUNDINGS,
    Stability,
    repetitions,
    stable,
    timed_calls,
    unkept_targets,
    without_arguments,
    without_unkept,
)
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.check.call_replay import without
from codeflash_parallel.check.comparison.call_comparison import stable_traces
from codeflash_parallel.check.session.runner_report import CallOutcome, RunnerReport
from codeflash_parallel.check.session.runner_session import (
    DerivationRequest,
    RunnerConfig,
    derive_spec,
    hashed,
    replay_spec,
    run_session,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.workspace.slot.slot import Slot

#: Of the process that tries inputs out, which bounds itself: what is written until then counts.
_TRYING = ProcessLimits(wall_s=30.0, cpu_s=15.0)
_MAX_FLOATS = 8 << 20
#: Where no inputs are derived.
_NOTHING = RunnerReport()
#: Who runs into these ones says nothing about the input: another depth of calls, another machine.
_NEVER_NORMAL = frozenset({"builtins.RecursionError", "builtins.MemoryError"})

#: Why a derived call does not vouch for a candidate: calls of its target leave something in the process.
HISTORY = "its outcome depends on the calls before it"


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedInputs:
    """Derived inputs that count.

    Attributes:
        calls: their outcomes in the order of the calls: those that keep all relations first.
        breaks: the relation that some of them break.
        sizes: length of the longest container or text in captured calls, and in these.
        dropped: why others do not count, and how many.
    """

    calls: Mapping[int, CallOutcome] = field(default_factory=dict)
    breaks: Mapping[int, str] = field(default_factory=dict)
    sizes: tuple[int, int] = (0, 0)
    dropped: Mapping[str, int] = field(default_factory=dict)


class FirstReplay(NamedTuple):
    """The first of two replays, and when it ended."""

    report: RunnerReport
    ended_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineReplayer:
    """Makes captured and derived calls on the baseline.

    Attributes:
        workspace: the baseline's.
        inputs: the file that holds the captured inputs.
        derived: the file for derived ones, where some are made.
        tree: lets files lie elsewhere meanwhile.
        aside: which ones.
        limits: of one replay.
        steps: tells what is done at the moment.
        wanted: which inputs are derived.
        captured_s: when the last captured call was made in its test, at the latest.
    """

    runner: RunnerConfig
    workspace: Workspace
    inputs: Path
    derived: Path = Path()
    tree: Slot | None = None
    aside: tuple[str, ...] = ()
    limits: ProcessLimits
    steps: StepReporter
    wanted: DerivationRequest = field(default_factory=DerivationRequest)
    captured_s: float = field(default_factory=time)

    async def drawn(self, captured: Mapping[int, CallOutcome]) -> RunnerReport:
        """Derive inputs from captured calls and try them out, with everything there."""
        self.steps.begin("inputs are derived from captured calls")
        workspace = hashed(self.workspace, HASH_SEEDS[0])
        paths = str(self.inputs), str(self.derived)
        spec = derive_spec(self.runner, *paths, tuple(captured), raised_by(captured.values()), self.wanted)
        return (await run_session(self.runner, workspace, spec, _TRYING)).report

    async def run(
        self, captured: Mapping[int, CallOutcome], made: Sequence[int], drawn: RunnerReport = _NOTHING
    ) -> tuple[list[RunnerReport], DerivedInputs]:
        """Return two replays of captured calls, and the derived calls on which they agree."""
        breaks = breaks_of(drawn)
        order = in_order(drawn.derived, breaks)
        first = await self.first(made, order)
        # Backwards: what a call gives may depend on what was asked of shared objects before.
        backwards = in_order(order, breaks, -1)
        replays = [first.report, await self.second(first, captured, made, backwards)]
        found = sorted_out(drawn, captured, replays)
        if tuple(found.calls) != order:
            # Others come before them now than before, as they do with a candidate that asks otherwise.
            backwards = in_order(found.calls, breaks, -1)
            replays.append(await self._replay(HASH_SEEDS[0], made, backwards))
            found = _without_history(found, sorted_out(drawn, captured, replays[1:]))
        return replays[:2], found

    async def first(self, made: Sequence[int], derived: Sequence[int] = ()) -> FirstReplay:
        """Make calls for the first time."""
        return FirstReplay(await self._replay(HASH_SEEDS[0], made, derived), time())

    async def second(
        self,
        first: FirstReplay,
        captured: Mapping[int, CallOutcome],
        made: Sequence[int],
        derived: Sequence[int] = (),
    ) -> RunnerReport:
        """Make the same calls again, under another hash seed and in another second."""
        # Not at the same time: both may write below the same private folder.
        await another_second(first.ended_s if _varies(captured, first.report) else self.captured_s)
        return await self._replay(HASH_SEEDS[1], made, derived)

    async def _replay(self, seed: int, calls: Sequence[int], derived: Sequence[int]) -> RunnerReport:
        workspace = hashed(self.workspace, seed)
        made = (str(self.derived), derived)
        spec = replay_spec(self.runner, str(self.inputs), (), calls, texts=(*calls, *derived), derived=made)
        watch = self.steps.calls("replay of captured calls", len(calls) + len(derived))
        async with without(self.tree, self.aside):
            session = await run_session(self.runner, workspace, spec, self.limits, watch=watch)
        # A replay that dies leaves the calls before it; the rest counts as unstable.
        return session.report


async def another_second(past_s: float) -> None:
    """Return in a later second of the wall clock: who tells seconds must not look as if he repeated himself.

    Candidates are asked later, and would be rejected for what the clock says.
    """
    now_s = time()
    if int(now_s) == int(past_s):
        await anyio.sleep(int(now_s) + 1 - now_s)


def _varies(captured: Mapping[int, CallOutcome], got: RunnerReport) -> bool:
    """Say whether a call gives or leaves something else than in its test: derived inputs show no such sign.

    What was in globals then nobody has seen: whoever changes them may.
    """
    seen = ((captured.get(call.index), call) for call in got.calls)
    differ = (one is not None and one.digest and one.essence != call.essence for one, call in seen)
    return bool(got.changed_globals) or any(differ)


def raised_by(calls: Iterable[CallOutcome]) -> dict[int, tuple[str, ...]]:
    """Return the types of the exceptions that calls ended with, by target: normal outcomes of it."""
    found: dict[int, set[str]] = {}
    for call in calls:
        if call.kind == "raise" and call.type not in _NEVER_NORMAL:
            found.setdefault(call.target, set()).add(call.type)
    return {target: tuple(sorted(types)) for target, types in found.items()}


def breaks_of(drawn: RunnerReport) -> dict[int, str]:
    """Return the relations that drawn inputs break, by number."""
    return {index: one.breaks for index, one in drawn.derived.items() if one.breaks}


def in_order(indexes: Collection[int], breaks: Mapping[int, str], step: int = 1) -> tuple[int, ...]:
    """Return derived calls in the order in which they are made: what ends in one must not hide others."""
    return tuple(sorted(indexes, key=lambda index: (index in breaks, step * index)))


def sorted_out(
    drawn: RunnerReport, captured: Mapping[int, CallOutcome], replays: Sequence[RunnerReport]
) -> DerivedInputs:
    """Return the derived calls that end normally and alike in two replays.

    A result of a type that no captured call gave says that the input is unlike all of theirs. What the
    baseline raised when it was tried out, and was kept all the same, it has to raise again.
    """
    first, second = ({call.index: call for call in replay.calls} for replay in replays[:2])
    # What captured calls do not say of their arguments these do not say either.
    unkept = unkept_targets(captured)
    types = {(call.target, call.kind, call.type) for call in captured.values()}
    breaks = breaks_of(drawn)
    calls = {}
    for index, one in drawn.derived.items():
        seen, before, call = captured[one.base], first.get(index), second.get(index)
        if before is None or call is None:
            continue
        if seen.target in unkept:
            before, call = without_arguments(before), without_arguments(call)
        if before.unencodable or call.unencodable or not call.repeats(before):
            continue
        known = (seen.target, call.kind, call.type) in types
        if one.raises != (call.type if call.kind == "raise" else ""):
            continue
        traces = stable_traces(before.traces, call.traces)
        calls[index] = replace(call, test=seen.test, target=seen.target, traces=traces)
        if not known and not one.raises:
            breaks.setdefault(index, "the type of the result")
    order = in_order(calls, breaks)
    found = {index: calls[index] for index in order}
    dropped = {
        "the baseline raises": sum(told.raised for told in drawn.derivations),
        "the baseline is too slow": sum(told.slow for told in drawn.derivations),
        "the baseline disagrees with itself": len(drawn.derived) - len(found),
        **{f"making them ended with {told.failed}": 1 for told in drawn.derivations if told.failed},
    }
    return DerivedInputs(
        calls=bounded(found),
        breaks={i: name for i, name in breaks.items() if i in found},
        sizes=(
            max((told.seen for told in drawn.derivations), default=0),
            max((drawn.derived[index].size for index in found), default=0),
        ),
        dropped={why: count for why, count in dropped.items() if count},
    )


def _without_history(found: DerivedInputs, again: DerivedInputs) -> DerivedInputs:
    """Return derived calls on which another order agrees; where some do not, none of their target vouches."""
    targets = {call.target for index, call in found.calls.items() if index not in again.calls}
    told = {index: HISTORY for index, call in again.calls.items() if call.target in targets}
    return replace(again, breaks={**told, **again.breaks})


def bounded(calls: Mapping[int, CallOutcome]) -> dict[int, CallOutcome]:
    """Drop the floats of calls, from where on they are too many to be kept."""
    room, kept = _MAX_FLOATS, {}
    for index, call in calls.items():
        room -= len(call.floats)
        kept[index] = call if room >= 0 else replace(call, floats="", skeleton="")
    return kept


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
