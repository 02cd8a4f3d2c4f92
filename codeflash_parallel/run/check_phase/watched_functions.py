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

from codeflash_parallel.baseline.baseline_findings import captured_calls
from codeflash_parallel.baseline.baseline_replay import BaselineReplayer, absences, bounded, replayed
from codeflash_parallel.baseline.baseline_store import load_or_learn
from codeflash_parallel.baseline.preflight import later_limits
from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import replays_alone
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.session.runner_report import CallOutcome, LocatedFunction
from codeflash_parallel.check.session.runner_session import (
    BASELINE_RECORDING,
    RunnerConfig,
    SelectedRun,
    WrapMode,
    hashed,
    run_session,
    selected_run_spec,
)
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.race.cost_groups import DEAR_COPY
from codeflash_parallel.result.candidate_model import Candidate, name_of
from codeflash_parallel.result.outcome_codes import Code, Level
from codeflash_parallel.run.check_phase.candidate_examiner import combined
from codeflash_parallel.run.ledger import RunContext
from codeflash_parallel.run.run_targets import is_test
from codeflash_parallel.workspace.slot_pool import Slot

#: CPU nanoseconds that the calls of watched functions may take in each check.
_CHECK_NS = 200_000_000
#: Fields of a baseline that are the same for targets and watched functions.
_SAME = ("python", "pytest", "plugins", "rootdir", "inifile", "plain_status", "leaks", "seed")
#: Callers have together so much of the targets' time, and each spends so much of its own in targets.
COVERED = 0.8
LEAST_SHARE = 0.2
#: Callers with less of the targets' time are not taken.
_SLIGHT = 0.05
#: Samples that are wanted while the tests run, their least and largest distance, and how many are enough.
_LOOKS = 4000
_LEAST_S, _MOST_S = 0.0001, 0.002
_ENOUGH_LOOKS = 40
#: How often functions further out are tried where calls of the nearest cannot be made again, and for how long
#: another attempt is begun, in seconds.
_ATTEMPTS = 3
_PATIENCE_S = 10.0
#: CPU nanoseconds that their calls may take in each check.
_CALLERS_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class WatchedBaseline:
    """Calls of functions beside the targets.

    Attributes:
        runner: its targets are the run's, and then these functions.
        baseline: what the calls give.
    """

    runner: RunnerConfig
    baseline: Baseline

    @property
    def functions(self) -> tuple[Target, ...]:
        """Return the functions of which there are calls."""
        numbers = sorted({call.target for call in self.baseline.calls.values()})
        return tuple(self.runner.targets[number] for number in numbers)


class WatchedFunctions:
    """Compares the calls of watched functions, for one run.

    Attributes:
        callers: of the targets, of which calls are timed; `None`: there are none.
    """

    def __init__(self, context: RunContext) -> None:
        self._context, self._changes = context, context.changes
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
            plan = replace(context.plan, runner=ground.runner, baseline=baseline, rules=rules)
            got = await replays_alone(plan, slot.workspace, candidate, slot)
        return with_watched(outcome, got, touched & baseline.uncaptured.keys())

    def ground(self, candidate: Candidate, outcome: CheckOutcome) -> tuple[RunnerConfig, Baseline]:
        """Return what the call that differs was compared with: calls have numbers here, too.

        Args:
            candidate: it was judged.
            outcome: what was said of it; the run's own ground unless a watched function's call differs.
        """
        context, difference = self._context, outcome.difference
        if difference is not None and difference.target not in context.baseline.targets:
            for ground in self._grounds(candidate):
                if difference.target in ground.baseline.targets:
                    return ground.runner, ground.baseline
        return context.runner, context.baseline

    def _grounds(self, candidate: Candidate) -> list[WatchedBaseline]:
        """Return what calls of other functions than the targets are held against, as far as it is known."""
        callers = self.callers
        found = [callers] if callers and self._changes.keeps(candidate, callers.functions) else []
        functions = self._functions(candidate)
        if functions in self._known:
            found.append(WatchedBaseline(self._runner(functions), self._known[functions]))
        return found

    def _functions(self, candidate: Candidate) -> tuple[Target, ...]:
        context, changes = self._context, self._changes
        if context.settings.compare is not ComparisonMode.VALUES or not context.runner.targets:
            return ()
        return (
            changes.beside(candidate) if changes.serving(candidate).point is not ForkPoint.COLLECTED else ()
        )

    def _runner(self, functions: tuple[Target, ...]) -> RunnerConfig:
        """Return the runner of a run that wraps targets, too: what they call is no outermost call."""
        runner = self._context.runner
        return replace(runner, targets=(*runner.targets, *functions))

    async def _learned(self, functions: tuple[Target, ...]) -> Baseline:
        """Return what the snapshot does in calls of these functions, from disk or from a run of the tests."""
        context, name = self._context, name_of([str(target) for target in functions])
        folder = Path(context.baseline.inputs).parent / "beside" / name
        tests = context.baseline.asked

        async def learn() -> Baseline:
            runner, inputs = self._runner(functions), folder / "inputs"
            return (await _learn(context, runner, inputs, tests, _CHECK_NS))[0]

        return await load_or_learn(folder, learn)


async def _learn(
    context: RunContext, runner: RunnerConfig, inputs: Path, tests: Sequence[str], check_ns: int
) -> tuple[Baseline, Sequence[CallOutcome]]:
    """Run tests of the baseline with everything wrapped, and make calls of functions beside targets again.

    Args:
        runner: its first targets are the run's.
        inputs: file for the inputs of the calls.
        tests: ids.
        check_ns: CPU time that these calls may take in each check.

    Returns:
        What candidates are compared with, of these calls only; and all calls that the tests made.
    """
    whole, slot = context.baseline, context.pool.baseline
    workspace = hashed(slot.workspace, HASH_SEEDS[1])
    run = SelectedRun(
        wrap=WrapMode.CAPTURE, recording=BASELINE_RECORDING, inputs=str(inputs), only=tuple(tests)
    )
    spec = selected_run_spec(runner, workspace, whole, run)
    limits, steps = later_limits(whole), context.steps
    watch = steps.tests("run of the tests, calls of other functions are captured")
    async with _cleaned(slot):
        report = (await run_session(runner, workspace, spec, limits, watch=watch)).report
    first = len(whole.targets)
    captured = {i: call for i, call in captured_calls(whole, report).items() if call.target >= first}
    making = BaselineReplayer(
        runner=runner,
        workspace=slot.workspace,
        inputs=inputs,
        tree=slot,
        limits=limits,
        steps=steps,
    )
    files = tuple(context.mirror.paths(context.snapshot))
    needed = {target.path for target in runner.targets}
    async with _cleaned(slot):
        got = await replayed(making, captured, absences(files, whole.asked, whole.rootdir, needed))
    steps.begin("")
    calls = affordable(got.found.calls, {call.index: call.ns for call in report.calls}, check_ns)
    names = tuple(map(str, runner.targets))
    made = {index for _, index in report.executed if index >= first}
    sources = got.replays[0].sources if got.replays else {}
    found = replace(
        _without_calls(whole, names),
        calls=bounded(calls),
        repeats=got.found.repeats,
        manners=got.manners,
        replaced=tuple(sorted(got.replaced.union(whole.replaced))),
        inputs=str(inputs),
        costs_ns=got.costs_ns(captured),
        copies_ns=got.copies_ns(captured),
        inputs_of={i: f"{c.target} {c.inputs}" for i, c in captured.items() if c.inputs},
        aside=got.aside,
        sheltered=tuple(index for index in got.sheltered if index in calls),
        unstable=got.found.unstable,
        uncaptured=dict(Counter(names[index] for index in made - {call.target for call in calls.values()})),
        loaded={path: next(iter(digests)) for path, digests in sources.items()},
    )
    return found, report.calls


def _without_calls(whole: Baseline, targets: tuple[str, ...]) -> Baseline:
    same: dict[str, Any] = {name: getattr(whole, name) for name in _SAME}
    return Baseline(**same, selected=(), expected={}, executing=(), targets=targets)


@asynccontextmanager
async def _cleaned(slot: Slot) -> AsyncIterator[None]:
    """Discard what is left in a slot, also on cancellation: others use it."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await slot.discard()


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
    return combined(outcome, got, values)


# --- callers of the targets -------------------------------------------------------------------------------


def nearest(located: LocatedFunction, unfit: Collection[str] = ()) -> Mapping[str, int]:
    """Return the nearest fit callers and in how many samples they had targets; none if they cover too little.

    Args:
        located: where the targets' time goes.
        unfit: more functions whose calls cannot be made again.
    """
    within, found = Counter[str](), Counter[str]()
    for chain, count in located.chains:
        within.update(dict.fromkeys(chain, count))
    fit = {
        name
        for name, count in within.items()
        if count >= LEAST_SHARE * located.seen.get(name, 0) and _is_own(name)
    }.difference(unfit, located.unfit)
    for chain, count in located.chains:
        found.update(dict.fromkeys([name for name in chain if name in fit][:1], count))
    whole = sum(count for _, count in located.chains)
    taken = {name: count for name, count in found.items() if count >= _SLIGHT * whole}
    return taken if whole >= _ENOUGH_LOOKS and sum(taken.values()) >= COVERED * whole else {}


def _is_own(name: str) -> bool:
    """Return whether a function is no test's and none that Python calls by itself."""
    return not is_test(name.partition("::")[0]) and not name.endswith("__")


async def callers_of(context: RunContext) -> WatchedBaseline | None:
    """Return the callers whose calls are timed in the place of the targets'; `None` where there are none.

    A run of the tests on the baseline, sampled by a timer, tells where the targets' time is spent and for
    which callers. Outwards from the targets, the first functions of the project are taken whose calls can be
    copied, that spend enough of their time in targets, and that together have most of the targets' time.
    """
    folder = Path(context.baseline.inputs).parent / "callers"
    known = await load_or_learn(folder, partial(_found, context, folder / "inputs"))
    if not known.calls:
        return None
    runner = replace(context.runner, targets=tuple(map(Target.parse, known.targets)))
    return WatchedBaseline(runner, known)


async def _found(context: RunContext, inputs: Path) -> Baseline:
    """Return what the nearest callers give; no calls where none will do."""
    whole, runner, tests = context.baseline, context.runner, context.baseline.executing
    began_s, located, unfit = anyio.current_time(), await _located(context), set[str]()
    for _ in range(_ATTEMPTS):
        names = nearest(located, unfit)
        if not names or anyio.current_time() > began_s + _PATIENCE_S:
            break
        wrapped = replace(runner, targets=(*runner.targets, *map(Target.parse, names)))
        found, calls = await _learn(context, wrapped, inputs, tests, _CALLERS_NS)
        bad = {name for name in names if not _is_made_again(calls, found, found.targets.index(name))}
        if not bad and found.calls:
            return replace(found, share=_share(located, found))
        unfit |= bad
    return _without_calls(whole, whole.targets)


def _share(located: LocatedFunction, found: Baseline) -> float:
    """Return the part of the time of functions, of which there are calls, that is spent in targets."""
    names = {found.targets[call.target] for call in found.calls.values()}
    inside = sum(count for chain, count in located.chains if not names.isdisjoint(chain))
    return min(1.0, inside / sum(located.seen[name] for name in names))


def _is_made_again(calls: Sequence[CallOutcome], found: Baseline, target: int) -> bool:
    """Return whether most outermost calls of a function are made again, with cheap inputs."""
    recorded = [call.index for call in calls if call.target == target]
    cheap = [i for i in recorded if found.copies_ns.get(i, 0) <= DEAR_COPY * found.costs_ns.get(i, 0)]
    return len(recorded) <= 2 * sum(found.costs_ns.get(index, 0) > 0 for index in cheap)


async def _located(context: RunContext) -> LocatedFunction:
    """Run the tests that execute targets, sampled by a timer."""
    baseline, slot = context.baseline, context.pool.baseline
    workspace, tests = hashed(slot.workspace, HASH_SEEDS[0]), baseline.executing
    interval_s = min(max(baseline.seconds_of(tests) / _LOOKS, _LEAST_S), _MOST_S)
    spec = selected_run_spec(context.runner, workspace, baseline, SelectedRun(only=tests))
    watch = context.steps.tests("run of the tests, to find callers of the targets")
    spec, limits = {**spec, "locate": interval_s}, later_limits(baseline)
    report = (await run_session(context.runner, workspace, spec, limits, watch=watch)).report
    await slot.discard()
    return report.located
