"""Functions beside the targets: the others in the files that a candidate edits.

Who changes no more than bodies of targets is compared by the calls of these. Who changes more may change any
function of those files, by a new definition, a default, a constant, an assignment at the end of the module.
So their calls are captured, too, once for a set of files, and made again by each candidate that has passed
all else. Only outermost calls count: what targets alone call is compared by their values, and may change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.check import replays_alone
from codeflash_parallel.behavior.outcomes import CallOutcome
from codeflash_parallel.behavior.plan import CheckOutcome
from codeflash_parallel.behavior.points import Point
from codeflash_parallel.behavior.report import GuestReport
from codeflash_parallel.behavior.session import (
    Guest,
    SelectedRun,
    Wrap,
    hashed,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.engine.absence import absences
from codeflash_parallel.engine.baselines import load, save
from codeflash_parallel.engine.changes import Changes
from codeflash_parallel.engine.context import RunContext
from codeflash_parallel.engine.derivation import Replays, bounded
from codeflash_parallel.engine.preflight import later_limits
from codeflash_parallel.engine.sheltering import Replayed, replayed
from codeflash_parallel.model.candidate import Candidate, name_of
from codeflash_parallel.model.outcome import Code, Level
from codeflash_parallel.model.settings import Compare
from codeflash_parallel.model.target import Target
from codeflash_parallel.process.environment import HASH_SEEDS
from codeflash_parallel.worktrees.pool import Slot

#: Recording calls may cost twice the tests' own time, and never less than this.
_LEAST_RECORDING_S = 2.0
#: CPU nanoseconds that the calls of neighbours may take in each check.
_CHECK_NS = 200_000_000


class Neighbours:
    """Compares the calls of functions beside the targets, for one run.

    Args:
        lock: on the baseline's slot.
    """

    def __init__(self, context: RunContext, changes: Changes, lock: anyio.Lock) -> None:
        self._context, self._changes, self._lock = context, changes, lock
        self._known: dict[tuple[Target, ...], Baseline] = {}

    async def judged(self, outcome: CheckOutcome, candidate: Candidate, slot: Slot) -> CheckOutcome:
        """Judge a candidate that has passed its check by the calls of what lies beside the targets.

        Args:
            outcome: of the check.
            candidate: it is staged.
            slot: where.
        """
        beside = self._beside(candidate)
        if outcome.code is not Code.OK or not beside:
            return outcome
        async with self._lock:
            baseline = self._known.get(beside) or await self._learned(beside)
            self._known[beside] = baseline
        uncompared = uncompared_of(self._changes.touched(candidate), baseline)
        if not baseline.calls:
            return with_neighbours(outcome, CheckOutcome(code=Code.OK, reason=""), uncompared)
        plan = replace(self._context.plan, guest=self._guest(beside), baseline=baseline, by_edits=None)
        got = await replays_alone(plan, slot.workspace, candidate, slot)
        return with_neighbours(outcome, got, uncompared)

    def ground(self, candidate: Candidate, outcome: CheckOutcome) -> tuple[Guest, Baseline]:
        """Return what the call that differs was held against: calls have numbers here, too.

        Args:
            candidate: it was judged.
            outcome: what was said of it; the run's own ground unless a neighbour's call differs.
        """
        context, difference = self._context, outcome.difference
        known = self._known.get(self._beside(candidate))
        if known is None or difference is None or difference.target in context.baseline.targets:
            return context.guest, context.baseline
        return self._guest(self._beside(candidate)), known

    def _beside(self, candidate: Candidate) -> tuple[Target, ...]:
        context, changes = self._context, self._changes
        if context.settings.compare is not Compare.VALUES or not context.guest.targets:
            return ()
        return changes.beside(candidate) if changes.serving(candidate).point is not Point.F2 else ()

    def _guest(self, beside: tuple[Target, ...]) -> Guest:
        """Return the guest of a run that wraps targets, too: what they call is no outermost call."""
        guest = self._context.guest
        return replace(guest, targets=(*guest.targets, *beside))

    async def _learned(self, beside: tuple[Target, ...]) -> Baseline:
        """Return what the snapshot does in calls of these functions, from disk or from a run of the tests."""
        name = name_of([str(target) for target in beside])
        folder = Path(self._context.baseline.inputs).parent / "beside" / name
        known = await anyio.to_thread.run_sync(load, folder)
        if known is not None:
            return known
        await anyio.to_thread.run_sync(partial(folder.mkdir, parents=True, exist_ok=True))
        found = await self._learn(beside, folder / "inputs")
        await anyio.to_thread.run_sync(save, folder, found)
        return found

    async def _learn(self, beside: tuple[Target, ...], inputs: Path) -> Baseline:
        context, guest = self._context, self._guest(beside)
        first = len(context.guest.targets)
        report = await self._captured(guest, inputs)
        captured = captured_calls(report, context.baseline.asked_expected, first)
        slot = context.pool.baseline
        making = Replays(
            guest=guest,
            workspace=slot.workspace,
            inputs=inputs,
            derived=None,
            tree=slot,
            limits=later_limits(context.baseline),
            steps=context.steps,
        )
        needed = {target.path for target in guest.targets}
        files = tuple(context.mirror.paths(context.snapshot))
        levels = absences(files, context.baseline.asked, context.baseline.rootdir, needed)
        got = await replayed(making, captured, levels)
        await slot.discard()
        return baseline_of(context.baseline, guest, report, got, inputs)

    async def _captured(self, guest: Guest, inputs: Path) -> GuestReport:
        """Run all tests that were asked for with everything wrapped."""
        baseline, slot = self._context.baseline, self._context.pool.baseline
        workspace = hashed(slot.workspace, HASH_SEEDS[1])
        seconds = max(_LEAST_RECORDING_S, 2 * baseline.seconds_of(baseline.asked))
        run = SelectedRun(wrap=Wrap.CAPTURE, seconds=seconds, inputs=str(inputs), only=baseline.asked)
        spec = selected_run_spec(guest, workspace, baseline, run)
        watch = self._context.steps.tests("run of the tests, calls of other functions are captured")
        session = await run_guest(guest, workspace, spec, later_limits(baseline), watch=watch)
        await slot.discard()
        return session.report


def captured_calls(report: GuestReport, expected: Mapping[str, str], first: int) -> dict[int, CallOutcome]:
    """Return captured calls of neighbours, by number: those of tests that ended as they do without us.

    Args:
        report: of the run that captured.
        expected: outcomes by test.
        first: number of the first neighbour; those before are targets.
    """
    got = report.tests
    sound = {test for test, outcome in expected.items() if test in got and got[test].outcome == outcome}
    return {
        call.index: call
        for call in report.calls
        if call.captured and call.target >= first and call.test in sound
    }


def baseline_of(whole: Baseline, guest: Guest, report: GuestReport, got: Replayed, inputs: Path) -> Baseline:
    """Return what candidates are held against: some calls of neighbours, and nothing else."""
    first = len(whole.targets)
    costs = {call.index: call.ns for call in report.calls}
    calls = affordable(got.found.calls, costs)
    names = tuple(str(target) for target in guest.targets)
    made = {index for _, index in report.executed if index >= first}
    compared = {call.target for call in calls.values()}
    return replace(
        whole,
        targets=names,
        calls=bounded(calls),
        repeats=got.found.repeats,
        derived={},
        breaks={},
        derivation={},
        observed={},
        globals=(),
        changed_globals={},
        manners=got.manners,
        replaced=tuple(sorted(got.replaced.union(whole.replaced))),
        costs_ns={},
        inputs_of={},
        inputs=str(inputs),
        aside=got.aside,
        sheltered=tuple(index for index in got.sheltered if index in calls),
        unstable=got.found.unstable,
        uncaptured=dict(Counter(names[index] for index in made - compared)),
        loaded=_loaded(got),
        warnings=(),
    )


def _loaded(got: Replayed) -> dict[str, str]:
    """Return the digests of what replays have compiled."""
    reports = got.replays[:1]
    return {path: next(iter(digests)) for report in reports for path, digests in report.sources.items()}


def affordable(calls: Mapping[int, CallOutcome], costs_ns: Mapping[int, int]) -> dict[int, CallOutcome]:
    """Return the cheapest calls, as many as a check may take, in order."""
    left, kept = _CHECK_NS, set()
    for index in sorted(calls, key=lambda index: (costs_ns.get(index, 0), index)):
        left -= costs_ns.get(index, 0)
        if left < 0:
            break
        kept.add(index)
    return {index: call for index, call in calls.items() if index in kept}


def uncompared_of(touched: Collection[Target], baseline: Baseline) -> tuple[str, ...]:
    """Return the functions that a candidate changes, tests call, and no call of which could be made again."""
    names = {str(target) for target in touched}
    return tuple(sorted(names & baseline.uncaptured.keys()))


def with_neighbours(outcome: CheckOutcome, got: CheckOutcome, uncompared: Sequence[str]) -> CheckOutcome:
    """Add what calls beside the targets say to what a check said.

    Args:
        outcome: of the check, in which nothing differed.
        got: of these calls.
        uncompared: functions that are changed and were not compared: the level is that of the tests.
    """
    values = replace(
        outcome.values,
        beside=got.values.compared,
        differing=outcome.values.differing + got.values.differing,
        level=Level.TESTS if uncompared else outcome.values.level,
        uncompared=tuple(uncompared),
    )
    timings_ms = dict(Counter(outcome.timings_ms) + Counter(got.timings_ms))
    spent: dict[str, Any] = {
        "values": values,
        "timings_ms": timings_ms,
        "gate_ns": outcome.gate_ns + got.gate_ns,
        "isolation_ns": outcome.isolation_ns + got.isolation_ns,
    }
    if got.code is Code.OK:
        return replace(outcome, **spent)
    return replace(got, tests=outcome.tests, tests_ns=outcome.tests_ns, outside=outcome.outside, **spent)
