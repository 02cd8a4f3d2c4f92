"""What one pass over some work costs the baseline, and whether it can be timed at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from codeflash_parallel.benchmark.field import READY_S
from codeflash_parallel.benchmark.plan import BASELINE, Arm, RacePlan
from codeflash_parallel.benchmark.samples import BlockKind
from codeflash_parallel.benchmark.unit import (
    ArmLost,
    ArmSlow,
    Bench,
    Job,
    Unit,
    explained,
    start_template,
)

#: How the reason of a process begins that ends by itself; why it did says more.
_NO_START = "ended before its time"

#: Hash seed of the process; any would do, but two runs are to see the same.
_HASH_SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """What was found out.

    Attributes:
        costs_ns: of one pass over each group, in the order of the plan: CPU time and waiting; at least 1.
        unsteady: indices of the groups that do not give the same outcomes twice.
    """

    costs_ns: tuple[int, ...]
    unsteady: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unfit:
    """The work cannot be timed on the baseline; the reason is one clause about it."""

    reason: str


async def probe(bench: Bench, baseline: Arm, plan: RacePlan, *, deadline_s: float) -> Probed | Unfit:
    """Run every group of a plan on the baseline, twice, in one unit. Cancelling kills it.

    For work of which a group is always run whole.

    Args:
        bench: what arms are run with.
        baseline: its `id` is not used.
        plan: for its work and its groups.
        deadline_s: wall seconds that one pass over one group may take.
    """
    template = await start_template(bench, replace(baseline, id=BASELINE), plan, _HASH_SEED)
    try:
        await template.ready(READY_S)
        unit = await template.fork(0, -1)
        return await _passes(unit, plan, deadline_s)
    except ArmLost as error:
        lost = explained(error, await template.close())
        slow = isinstance(lost, ArmSlow)
        said = lost.reason.removeprefix(f"{_NO_START}: ")
        return Unfit(reason=f"one call of it was not done after {deadline_s:g} s" if slow else said)
    finally:
        await template.close()


async def start_ns(bench: Bench, baseline: Arm, plan: RacePlan) -> int:
    """Return the CPU time that a process of the baseline needs to become ready, to the kernel's tick.

    It is 0 where it does not become ready: a race says why. Cancelling kills it.
    """
    template = await start_template(bench, replace(baseline, id=BASELINE), plan, _HASH_SEED)
    try:
        return await template.ready(READY_S)
    except ArmLost:
        return 0
    finally:
        await template.close()


async def _passes(unit: Unit, plan: RacePlan, deadline_s: float) -> Probed | Unfit:
    costs_ns, unsteady = [], []
    for group in range(len(plan.groups)):
        job = Job(kind=BlockKind.FIRST, group=group, calls=1)
        first = await unit.block(job, deadline_s)
        if unit.said:
            return Unfit(reason=unit.said)
        # The first one pays for what the next one finds done.
        again = await unit.block(job, deadline_s)
        costs_ns.append(max(1, again.cpu_ns + again.waited_ns))
        if first.digest != again.digest:
            unsteady.append(group)
    return Probed(costs_ns=tuple(costs_ns), unsteady=tuple(unsteady))
