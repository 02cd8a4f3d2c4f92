"""Watched functions: the others in the files that a candidate edits, beside the targets.

Targets are captured, timed and replayed for all candidates. A candidate that changes more than bodies of
targets may change any function of the files that it edits, by a new definition, a default, a constant, an
assignment at the end of the module: so the calls that tests make of these are captured, too, once for a set
of files, and made again by each such candidate that has passed all else. Only outermost calls count: what
targets alone call is compared by their values. Another result or exception rejects; another state of the
arguments is a hint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from codeflash_parallel.baseline.baseline_store import load, save
from codeflash_parallel.baseline.preflight.baseline_findings import captured_calls
from codeflash_parallel.baseline.preflight.hidden_test_files import absences
from codeflash_parallel.baseline.preflight.input_derivation import BaselineReplayer, bounded
from codeflash_parallel.baseline.preflight.preflight import later_limits
from codeflash_parallel.baseline.preflight.test_dependent_calls import ReplayFindings, replayed
from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import replays_alone
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.session.runner_outcomes import CallOutcome
from codeflash_parallel.check.session.runner_report import RunnerReport
from codeflash_parallel.check.session.runner_session import (
    BASELINE_RECORDING,
    RunnerConfig,
    SelectedRun,
    WrapMode,
    hashed,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.process.environment import HASH_SEEDS
from codeflash_parallel.result.candidate.candidate_model import Candidate, name_of
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.workspace.slot_pool import Slot

#: CPU nanoseconds that the calls of watched functions may take in each check.
_CHECK_NS = 200_000_000
#: Fields of a baseline that are the same for targets and watched functions.
_SAME = ("python", "pytest", "plugins", "rootdir", "inifile", "plain_status", "leaks", "seed")


@dataclass(frozen=True, slots=True)
class WatchedBaseline:
    """Calls of functions beside the targets.

    Attributes:
        guest: its targets are the run's, and then these functions.
        baseline: what the calls give.
    """

    guest: RunnerConfig
    baseline: Baseline

    @property
    def functions(self) -> tuple[Target, ...]:
        """Return the functions of which there are calls."""
        numbers = sorted({call.target for call in self.baseline.calls.values()})
        return tuple(self.guest.targets[number] for number in numbers)


class WatchedFunctions:
    """Compares the calls of watched functions, for one run.

    Attributes:
        callers: of the targets, of which calls are timed; `None`: there are none.
    """

    def __init__(self, context: RunContext, changes: Changes) -> None:
        self._context, self._changes = context, changes
        self._known: dict[tuple[Target, ...], Baseline] = {}
        self.callers: WatchedBaseline | None = None

    async def judged(self, outcome: CheckOutcome, candidate: Candidate, slot: Slot) -> CheckOutcome:
        """Judge a candidate that has passed its check by the calls of watched functions.

        Args:
            outcome: of the check.
            candidate: it is staged.
            slot: where.
        """
        if outcome.code is Code.OK:
            await self.learn(candidate)
        for ground in self._grounds(candidate):
            if outcome.code is Code.OK:
                outcome = await self._judged(outcome, candidate, slot, ground)
        return outcome

    async def learn(self, candidate: Candidate) -> None:
        """Learn what calls of the functions give that a candidate may change beside the targets, once."""
        functions = self._functions(candidate)
        if functions and functions not in self._known:
            async with self._context.pool.baselines_turn:
                if functions not in self._known:
                    self._known[functions] = await self._learned(functions)

    async def _judged(
        self, outcome: CheckOutcome, candidate: Candidate, slot: Slot, ground: WatchedBaseline
    ) -> CheckOutcome:
        context, baseline = self._context, ground.baseline
        touched = {str(target) for target in self._changes.touched(candidate)}
        got = CheckOutcome(code=Code.OK, reason="")
        if baseline.calls:
            rules = replace(context.plan.rules, watched=True, judge="", unkept=context.fleet.unkept)
            plan = replace(context.plan, guest=ground.guest, baseline=baseline, rules=rules)
            got = await replays_alone(plan, slot.workspace, candidate, slot)
        return with_watched(outcome, got, touched & baseline.uncaptured.keys())

    def ground(self, candidate: Candidate, outcome: CheckOutcome) -> tuple[RunnerConfig, Baseline]:
        """Return what the call that differs was held against: calls have numbers here, too.

        Args:
            candidate: it was judged.
            outcome: what was said of it; the run's own ground unless a watched function's call differs.
        """
        context, difference = self._context, outcome.difference
        if difference is not None and difference.target not in context.baseline.targets:
            for ground in self._grounds(candidate):
                if difference.target in ground.baseline.targets:
                    return ground.guest, ground.baseline
        return context.guest, context.baseline

    def _grounds(self, candidate: Candidate) -> list[WatchedBaseline]:
        """Return what calls of other functions than the targets are held against, as far as it is known."""
        callers = self.callers
        found = [callers] if callers and self._changes.keeps(candidate, callers.functions) else []
        functions = self._functions(candidate)
        if functions in self._known:
            found.append(WatchedBaseline(self._guest(functions), self._known[functions]))
        return found

    def _functions(self, candidate: Candidate) -> tuple[Target, ...]:
        context, changes = self._context, self._changes
        if context.settings.compare is not ComparisonMode.VALUES or not context.guest.targets:
            return ()
        return (
            changes.beside(candidate) if changes.serving(candidate).point is not ForkPoint.COLLECTED else ()
        )

    def _guest(self, functions: tuple[Target, ...]) -> RunnerConfig:
        """Return the guest of a run that wraps targets, too: what they call is no outermost call."""
        guest = self._context.guest
        return replace(guest, targets=(*guest.targets, *functions))

    async def _learned(self, functions: tuple[Target, ...]) -> Baseline:
        """Return what the snapshot does in calls of these functions, from disk or from a run of the tests."""
        name = name_of([str(target) for target in functions])
        folder = Path(self._context.baseline.inputs).parent / "beside" / name
        known = await anyio.to_thread.run_sync(load, folder)
        if known is None:
            await anyio.to_thread.run_sync(partial(folder.mkdir, parents=True, exist_ok=True))
            guest, inputs = self._guest(functions), folder / "inputs"
            learned = await learn(self._context, guest, inputs, self._context.baseline.asked)
            known = baseline_of(self._context.baseline, guest, learned, inputs, _CHECK_NS)
            await anyio.to_thread.run_sync(save, folder, known)
        return known


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchedReplays:
    """What calls of functions beside the targets give on the baseline.

    Attributes:
        report: of the run of the tests in which they were captured.
        captured: those of them that were captured.
        got: what replays of those gave.
    """

    report: RunnerReport
    captured: Mapping[int, CallOutcome]
    got: ReplayFindings


async def learn(
    context: RunContext, guest: RunnerConfig, inputs: Path, tests: Sequence[str]
) -> WatchedReplays:
    """Run tests of the baseline with everything wrapped, and make calls of functions beside targets again.

    Args:
        guest: its first targets are the run's.
        inputs: file for the inputs of the calls.
        tests: ids.
    """
    whole, slot = context.baseline, context.pool.baseline
    workspace = hashed(slot.workspace, HASH_SEEDS[1])
    run = SelectedRun(
        wrap=WrapMode.CAPTURE, recording=BASELINE_RECORDING, inputs=str(inputs), only=tuple(tests)
    )
    spec = selected_run_spec(guest, workspace, whole, run)
    limits, steps = later_limits(whole), context.steps
    watch = steps.tests("run of the tests, calls of other functions are captured")
    async with _cleaned(slot):
        report = (await run_guest(guest, workspace, spec, limits, watch=watch)).report
    first = len(whole.targets)
    captured = {i: call for i, call in captured_calls(whole, report).items() if call.target >= first}
    making = BaselineReplayer(
        guest=guest,
        workspace=slot.workspace,
        inputs=inputs,
        tree=slot,
        limits=limits,
        steps=steps,
    )
    files = tuple(context.mirror.paths(context.snapshot))
    needed = {target.path for target in guest.targets}
    async with _cleaned(slot):
        got = await replayed(making, captured, absences(files, whole.asked, whole.rootdir, needed))
    steps.begin("")
    return WatchedReplays(report=report, captured=captured, got=got)


@asynccontextmanager
async def _cleaned(slot: Slot) -> AsyncIterator[None]:
    """Discard what is left in a slot, also where it is no longer wanted: others go on in it."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await slot.discard()


def baseline_of(
    whole: Baseline, guest: RunnerConfig, learned: WatchedReplays, inputs: Path, check_ns: int
) -> Baseline:
    """Return what candidates are held against: some calls of watched functions, and nothing else.

    Args:
        check_ns: CPU time that these calls may take in each check.
    """
    report, got, names = learned.report, learned.got, tuple(str(target) for target in guest.targets)
    calls = affordable(got.found.calls, {call.index: call.ns for call in report.calls}, check_ns)
    made = {index for _, index in report.executed if index >= len(whole.targets)}
    sources = got.replays[0].sources if got.replays else {}
    same: dict[str, Any] = {name: getattr(whole, name) for name in _SAME}
    return Baseline(
        **same,
        selected=(),
        expected={},
        executing=(),
        targets=names,
        calls=bounded(calls),
        repeats=got.found.repeats,
        manners=got.manners,
        replaced=tuple(sorted(got.replaced.union(whole.replaced))),
        inputs=str(inputs),
        costs_ns=got.costs_ns(learned.captured),
        copies_ns=got.copies_ns(learned.captured),
        inputs_of={i: f"{c.target} {c.inputs}" for i, c in learned.captured.items() if c.inputs},
        aside=got.aside,
        sheltered=tuple(index for index in got.sheltered if index in calls),
        unstable=got.found.unstable,
        uncaptured=dict(Counter(names[index] for index in made - {call.target for call in calls.values()})),
        loaded={path: next(iter(digests)) for path, digests in sources.items()},
    )


def affordable(
    calls: Mapping[int, CallOutcome], costs_ns: Mapping[int, int], left: int
) -> dict[int, CallOutcome]:
    """Return the cheapest calls, as many as may be made in so many nanoseconds, in order."""
    kept = set()
    for index in sorted(calls, key=lambda index: (costs_ns.get(index, 0), index)):
        left -= costs_ns.get(index, 0)
        if left < 0:
            break
        kept.add(index)
    return {index: call for index, call in calls.items() if index in kept}


def with_watched(outcome: CheckOutcome, got: CheckOutcome, uncompared: Collection[str]) -> CheckOutcome:
    """Add what calls of watched functions say to what a check said.

    Args:
        outcome: of the check, in which nothing differed.
        got: of these calls.
        uncompared: functions that are changed and were not compared: the level is that of the tests.
    """
    values = replace(
        outcome.values,
        beside=outcome.values.beside + got.values.compared,
        differing=outcome.values.differing + got.values.differing,
        level=Level.TESTS if uncompared else outcome.values.level,
        uncompared=tuple(sorted({*outcome.values.uncompared, *uncompared})),
    )
    differs = replace(got, tests=outcome.tests, tests_ns=outcome.tests_ns, outside=outcome.outside)
    return replace(
        outcome if got.code is Code.OK else differs,
        values=values,
        hints=(*outcome.hints, *got.hints),
        timings_ms=dict(Counter(outcome.timings_ms) + Counter(got.timings_ms)),
        gate_ns=outcome.gate_ns + got.gate_ns,
        isolation_ns=outcome.isolation_ns + got.isolation_ns,
    )
