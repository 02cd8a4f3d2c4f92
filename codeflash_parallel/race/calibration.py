"""Scales: how many calls make a block, and how many blocks a round, found out on the baseline."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import ceil, inf

from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, LEAN_CYCLE_NS, RacePlan, RaceStage, WorkKind
from codeflash_parallel.race.worker.arm_pool import ArmPool
from codeflash_parallel.race.worker.arm_worker import SECOND, ArmWorker, BlockRequest

#: A candidate's block may take this many times the baseline's before it is given up as slower.
SLOW_FACTOR = 20

#: Seconds added to that, for machines that stand still for a moment.
PATIENCE_S = 1.0

#: Passes over a group while its cost is being found out; each is longer than the one before.
CALIBRATION_STEPS = 6

#: How much longer one such pass may be than the one before.
CALIBRATION_GROWTH = 16

#: Where less than this share of its own time is CPU time, work is waiting, and that sizes the blocks.
BUSY_SHARE = 0.2

#: Where the CPU clock stands still, passes grow until they wait for as long as this many blocks.
LONGEST_PASS = 4

#: Palindromes are so few that so many rounds fit into this share of the budget: more rounds tell as much as
#: longer ones, and the first ones drop most arms.
FITTING_ROUNDS = {RaceStage.RACE: 16, RaceStage.CONFIRMATION: 24}
FITTING_SHARE = 0.5

#: CPU time that making the inputs of a block of several passes may take: where copies are dear, blocks are
#: short.
MAKING_NS = 6_000_000

#: CPU time that encoding outcomes of a checked block may take, and how many are encoded at least: all have
#: been compared before the race, and one takes up to 1 ms, beside 1.5 ms for all that is timed in a block.
ENCODING_NS = 4_000_000
LEAST_DRAWN = 4

#: Calls in place in one block at most, and about how long we take to read the clocks of one.
MOST_WINDOWS = 400
WINDOW_NS = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockScale:
    """Size of one block of a group.

    Attributes:
        cycle: calls of one pass over the group.
        calls: calls of one block; a multiple of `cycle`.
        block_ns: wall time of such a block of the baseline.
        palindromes: how often every arm's blocks are run in both orders in a round.
        more: so many times as many calls make a block of a candidate.
        making_ns: CPU time of making the inputs of such a block of the baseline.
        twin_calls: calls of one block of twins.
        twin_blocks: such blocks there are; in a round every arm has one of them.
        drawn: outcomes of a checked block that are encoded, at most.
    """

    cycle: int
    calls: int
    block_ns: int
    palindromes: int = 1
    more: int = 1
    making_ns: int = 0
    twin_calls: int = 0
    twin_blocks: int = 0
    drawn: int = LEAST_DRAWN

    @property
    def is_lean(self) -> bool:
        """Return whether one pass is so long that nothing is repeated."""
        return self.block_ns * self.cycle > LEAN_CYCLE_NS * self.calls

    @property
    def deadline_s(self) -> float:
        """Return how long a candidate's block may take."""
        return PATIENCE_S + SLOW_FACTOR * self.block_ns / SECOND


async def calibrate(field: ArmPool, plan: RacePlan, core: int, left_s: float = inf) -> tuple[BlockScale, ...]:
    """Find out on the baseline how many calls make a block of the planned length, for every group.

    Args:
        left_s: of the race's budget.

    Raises:
        ArmFailure: the baseline is lost.
        ArmWorkTimeout: one pass takes longer than is left of the budget.
    """
    template = field.templates[BASELINE]
    unit = await template.fork(0, core)
    cycles = template.cycles if plan.work is WorkKind.CALLS else (1,) * len(plan.groups)
    end_s = time.monotonic() + min(left_s, plan.budget_ns / SECOND)
    scales = tuple([await _scale(unit, group, cycle, plan, end_s) for group, cycle in enumerate(cycles)])
    await unit.end()
    field.tidy()
    return with_palindromes(scales, len(field.templates) - 1, plan)


async def _scale(unit: ArmWorker, group: int, cycle: int, plan: RacePlan, end_s: float) -> BlockScale:
    passes = 1
    job = BlockRequest(kind=BlockKind.FIRST, group=group, calls=cycle)
    block = await unit.block(job, max(0.0, end_s - time.monotonic()))
    drawn = max(LEAST_DRAWN, ENCODING_NS * cycle // max(1, block.deferred_ns))
    for _ in range(CALIBRATION_STEPS):
        if block.cpu_ns + block.rest_ns > LEAN_CYCLE_NS or block.waited_ns >= LONGEST_PASS * plan.block_ns:
            break
        # The first pass of a new process is slower than the next ones; only those give the size.
        more = replace(job, calls=cycle * passes)
        block = await unit.block(more, max(0.0, end_s - time.monotonic()))
        if block.cpu_ns >= plan.block_ns / 2 or block.windows > MOST_WINDOWS / 2:
            break
        wanted = round(passes * plan.block_ns / max(block.cpu_ns, 1))
        passes = max(passes + 1, min(passes * CALIBRATION_GROWTH, wanted))
    # Not the wall clock: on a busy machine most of it is time in line for a core.
    own_ns = block.cpu_ns + block.waited_ns
    busy = block.cpu_ns >= BUSY_SHARE * own_ns
    took_ns = max(1, block.cpu_ns if busy else own_ns) * cycle // block.calls
    making_ns = block.prepared_ns * cycle // block.calls
    final = max(1, min(round(plan.block_ns / max(took_ns, 1)), MAKING_NS // max(making_ns, 1)))
    if plan.work is WorkKind.IN_PLACE:
        final = max(1, min(final, MOST_WINDOWS * block.calls // max(1, block.windows)))
        took_ns = (block.cpu_ns + block.rest_ns) // block.calls + WINDOW_NS * block.windows // block.calls
    block_ns = max(1, took_ns * final)
    twins = plan.groups[group].twins
    scale = BlockScale(
        cycle=cycle,
        calls=cycle * final,
        block_ns=block_ns,
        making_ns=making_ns * final,
        twin_calls=len(twins[0]) if twins else 0,
        twin_blocks=len(twins),
        drawn=drawn,
    )
    return with_more(scale, plan)


def with_more(scale: BlockScale, plan: RacePlan) -> BlockScale:
    """Return a scale by which blocks of fast candidates are about as long as those of the baseline.

    One block is of one pass at least: where that is longer than planned, less is missing.
    """
    most = MAKING_NS // max(scale.making_ns, 1)
    more = max(1, min(round(plan.more_calls * plan.block_ns / scale.block_ns), most))
    return scale if scale.is_lean or plan.work is WorkKind.IN_PLACE else replace(scale, more=more)


def with_palindromes(scales: tuple[BlockScale, ...], arms: int, plan: RacePlan) -> tuple[BlockScale, ...]:
    """Return scales with as many palindromes as are useful, and fit into the budget.

    Args:
        arms: that race, the baseline not counted.
    """
    once_ns = max(1, sum(_turn_ns(scale, arms) for scale in scales))
    fitting = FITTING_SHARE * plan.budget_ns / FITTING_ROUNDS[plan.stage] / once_ns
    useful = [_useful(scale, plan) / len(scales) for scale in scales]
    return tuple(
        scale if scale.is_lean else replace(scale, palindromes=max(1, int(min(ceil(wanted), fitting))))
        for scale, wanted in zip(scales, useful, strict=True)
    )


def for_sprint(scales: tuple[BlockScale, ...]) -> tuple[BlockScale, ...]:
    """Return scales of a race's first rounds, which only look for large differences: half as many blocks."""
    return tuple(replace(scale, palindromes=max(1, scale.palindromes // 2)) for scale in scales)


def _useful(scale: BlockScale, plan: RacePlan) -> float:
    """Return how many palindromes are useful; copies of inputs may take as long as arms are to be timed."""
    wanted = max(plan.least_palindromes, plan.timed_ns / (2 * scale.block_ns))
    whole_ns = 2 * wanted * scale.block_ns + plan.timed_ns
    return min(wanted, whole_ns / (2 * (scale.block_ns + scale.making_ns)))


def predicted_ns(scales: tuple[BlockScale, ...], arms: int) -> int:
    """Return about how long a round of that many arms (the baseline not counted) will take."""
    total = 0
    for scale in scales:
        total += _turn_ns(scale, arms) * scale.palindromes
        calls = scale.twin_calls + (0 if scale.is_lean else scale.cycle)
        total += calls * (arms + 1) * (scale.block_ns + scale.making_ns) // scale.calls
    return total


def _turn_ns(scale: BlockScale, arms: int) -> int:
    """Return about how long one palindrome takes; where nothing is repeated, every arm has one block."""
    block_ns = scale.block_ns + scale.making_ns
    if scale.is_lean:
        return block_ns * (arms + 1)
    own_ns = scale.block_ns + scale.making_ns * scale.more
    return 2 * (arms * own_ns + (arms + 1) // 2 * block_ns)
