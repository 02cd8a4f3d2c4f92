"""Cost of one pass over some work on the baseline, and whether the work can be timed at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, Arm, RacePlan
from codeflash_parallel.race.worker.arm_failure import ArmFailure, ArmWorkTimeout
from codeflash_parallel.race.worker.arm_pool import ArmPool, RaceEnvironment, open_field
from codeflash_parallel.race.worker.arm_worker import ArmWorker, BlockRequest

#: How the reason of a process begins that ends by itself; why it did says more.
_NO_START = "ended before its time"

#: Hash seed of the process; any would do, but two runs are to see the same.
_HASH_SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineProbe:
    """Costs and steadiness of the work on the baseline.

    Attributes:
        costs_ns: of one pass over each group, in the order of the plan: CPU time and waiting; at least 1.
        unsteady: indices of the groups that do not give the same outcomes twice.
        windows: calls of the targets in each group that are timed in place, and what one of them takes.
    """

    costs_ns: tuple[int, ...]
    unsteady: tuple[int, ...]
    windows: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class UntimeableWork:
    """The work cannot be timed on the baseline; the reason is one clause about it."""

    reason: str


async def probe(
    bench: RaceEnvironment, baseline: Arm, plan: RacePlan, *, deadline_s: float
) -> BaselineProbe | UntimeableWork:
    """Run every group of a plan on the baseline, twice, in one unit. Cancelling kills it.

    For work of which a group is always run whole.

    Args:
        bench: what arms are run with.
        baseline: its `id` is not used.
        plan: for its work and its groups.
        deadline_s: wall seconds that one pass over one group may take.
    """
    try:
        async with open_field(bench, [replace(baseline, id=BASELINE)], plan, _HASH_SEED) as field:
            return await _probed(field, plan, deadline_s)
    except ArmFailure as lost:
        return _unfit(lost, deadline_s)


async def _probed(field: ArmPool, plan: RacePlan, deadline_s: float) -> BaselineProbe | UntimeableWork:
    if BASELINE not in field.lost:
        try:
            return await _passes(await field.templates[BASELINE].fork(0, -1), plan, deadline_s)
        except ArmFailure as error:
            await field.lose(BASELINE, error)
    return _unfit(field.lost[BASELINE], deadline_s)


def _unfit(lost: ArmFailure, deadline_s: float) -> UntimeableWork:
    slow = isinstance(lost, ArmWorkTimeout)
    said = lost.reason.removeprefix(f"{_NO_START}: ")
    return UntimeableWork(reason=f"one call of it was not done after {deadline_s:g} s" if slow else said)


async def _passes(unit: ArmWorker, plan: RacePlan, deadline_s: float) -> BaselineProbe | UntimeableWork:
    costs_ns, unsteady, windows = [], [], []
    empty = await unit.block(BlockRequest(kind=BlockKind.EMPTY, is_checked=False), deadline_s)
    window_ns = empty.cpu_ns / max(1, empty.windows)
    for group in range(len(plan.groups)):
        job = BlockRequest(kind=BlockKind.FIRST, group=group, calls=1)
        first = await unit.block(job, deadline_s)
        if unit.said:
            return UntimeableWork(reason=unit.said)
        # The first one pays for what the next one finds done.
        again = await unit.block(job, deadline_s)
        costs_ns.append(max(1, again.cpu_ns + again.waited_ns + again.rest_ns))
        windows.append((first.windows, first.cpu_ns / max(1, first.windows) - window_ns))
        if first.digest != again.digest:
            unsteady.append(group)
    return BaselineProbe(costs_ns=tuple(costs_ns), unsteady=tuple(unsteady), windows=tuple(windows))
