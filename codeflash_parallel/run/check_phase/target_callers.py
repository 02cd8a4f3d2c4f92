"""Calls of the nearest callers, timed where the targets' own calls cannot be made again.

A run of the tests on the baseline, looked at by a timer, tells where the targets' time is spent and for whom.
Outwards from the targets, the first functions of the project are taken whose calls can be copied, that spend
enough of their time in targets, and that together have most of the targets' time. What they give in these
calls is compared, as it is for other functions beside the targets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.baseline.baseline_store import load, save
from codeflash_parallel.baseline.preflight.baseline_findings import stable
from codeflash_parallel.baseline.preflight.preflight import later_limits
from codeflash_parallel.baseline.preflight.test_dependent_calls import ReplayFindings
from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.session.runner_report import LocatedFunction, RunnerReport
from codeflash_parallel.check.session.runner_session import SelectedRun, hashed, run_guest, selected_run_spec
from codeflash_parallel.process.environment import HASH_SEEDS
from codeflash_parallel.race.workload.cost_groups import DEAR_COPY
from codeflash_parallel.run.check_phase.watched_functions import (
    WatchedBaseline,
    WatchedReplays,
    baseline_of,
    learn,
)
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.run.target_functions import is_test

#: Callers have together so much of the targets' time, and each spends so much of its own in targets.
COVERED = 0.8
LEAST_SHARE = 0.2
#: Who has less of the targets' time is not taken.
_SLIGHT = 0.05
#: Looks that are wanted while the tests run, how far apart they are at least and at most, and how many tell.
_LOOKS = 4000
_LEAST_S, _MOST_S = 0.0001, 0.002
_ENOUGH_LOOKS = 40
#: How often functions further out are tried where calls of the nearest cannot be made again, and for how long
#: another attempt is begun, in seconds.
_ATTEMPTS = 3
_PATIENCE_S = 10.0
#: CPU nanoseconds that their calls may take in each check.
_CHECK_NS = 1_000_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Callers:
    """Functions that call the targets.

    Attributes:
        targets: the run's.
        ground: what the calls of their callers give.
        share: of their time that is spent in targets.
    """

    targets: tuple[Target, ...]
    ground: WatchedBaseline
    share: float

    @property
    def words(self) -> str:
        """Return who they are, and what of their time is the targets', one clause."""
        names = ", ".join(f"`{function.qualname}`" for function in self.ground.functions)
        targets = ", ".join(f"`{target.qualname}`" for target in self.targets)
        return f"of {names}; {targets} is {100 * self.share:.0f} % of it"


def nearest(located: LocatedFunction, unfit: Collection[str] = ()) -> Mapping[str, int]:
    """Return the nearest fit callers and how many looks found targets in them; none if they cover too little.

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
    """Say whether a function is no test's and none that Python calls by itself."""
    return not is_test(name.partition("::")[0]) and not name.endswith("__")


async def callers_of(context: RunContext) -> Callers | None:
    """Return the callers whose calls are timed in the place of the targets'; `None` where there are none."""
    folder = Path(context.baseline.inputs).parent / "callers"
    known = await anyio.to_thread.run_sync(load, folder)
    if known is None:
        await anyio.to_thread.run_sync(partial(folder.mkdir, exist_ok=True))
        known = await _found(context, folder / "inputs")
        await anyio.to_thread.run_sync(save, folder, known)
    if not known.calls:
        return None
    guest = replace(context.guest, targets=tuple(map(Target.parse, known.targets)))
    share = known.share
    return Callers(targets=context.targets, ground=WatchedBaseline(guest, known), share=share)


async def _found(context: RunContext, inputs: Path) -> Baseline:
    """Return what the nearest callers give; no calls where none will do."""
    began_s, located, unfit = anyio.current_time(), await _located(context), set[str]()
    for _ in range(_ATTEMPTS):
        names = nearest(located, unfit)
        if not names or anyio.current_time() > began_s + _PATIENCE_S:
            break
        guest = replace(context.guest, targets=(*context.guest.targets, *map(Target.parse, names)))
        learned = await learn(context, guest, inputs, context.baseline.executing)
        found = baseline_of(context.baseline, guest, learned, inputs, _CHECK_NS)
        bad = {name for name in names if not _is_made_again(learned, found, found.targets.index(name))}
        if not bad and found.calls:
            return replace(found, share=_share(located, found))
        unfit |= bad
    nothing = WatchedReplays(report=RunnerReport(), captured={}, got=ReplayFindings(found=stable({}, [], {})))
    return baseline_of(context.baseline, context.guest, nothing, inputs, 0)


def _share(located: LocatedFunction, found: Baseline) -> float:
    """Return the part of the time of functions, of which there are calls, that is spent in targets."""
    names = {found.targets[call.target] for call in found.calls.values()}
    inside = sum(count for chain, count in located.chains if not names.isdisjoint(chain))
    return min(1.0, inside / sum(located.seen[name] for name in names))


def _is_made_again(learned: WatchedReplays, found: Baseline, target: int) -> bool:
    """Say whether most calls of a function, those inside others' apart, are made again, with cheap inputs."""
    recorded = [call.index for call in learned.report.calls if call.target == target]
    cheap = [i for i in recorded if found.copies_ns.get(i, 0) <= DEAR_COPY * found.costs_ns.get(i, 0)]
    return len(recorded) <= 2 * sum(found.costs_ns.get(index, 0) > 0 for index in cheap)


async def _located(context: RunContext) -> LocatedFunction:
    """Run the tests that execute targets, and look where their time goes."""
    baseline, slot = context.baseline, context.pool.baseline
    workspace, tests = hashed(slot.workspace, HASH_SEEDS[0]), baseline.executing
    interval_s = min(max(baseline.seconds_of(tests) / _LOOKS, _LEAST_S), _MOST_S)
    spec = selected_run_spec(context.guest, workspace, baseline, SelectedRun(only=tests))
    watch = context.steps.tests("run of the tests, to see who calls the targets")
    spec, limits = {**spec, "locate": interval_s}, later_limits(baseline)
    report = (await run_guest(context.guest, workspace, spec, limits, watch=watch)).report
    await slot.discard()
    return report.located
