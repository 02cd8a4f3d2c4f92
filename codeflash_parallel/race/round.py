"""Rounds: every arm forked onto one core, blocks in turn, the baseline near each.

How many calls make a block, and how many blocks a round, is found out on the baseline.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from random import Random

import anyio

from codeflash_parallel.race.measurement import Block, BlockKind, Round, queued_share
from codeflash_parallel.race.plan import (
    BASELINE,
    LEAN_CYCLE_NS,
    NULL,
    RacePlan,
    RaceStage,
    WorkKind,
    block_order,
)
from codeflash_parallel.race.race_result import ArmFailure, ArmWorkTimeout
from codeflash_parallel.race.worker.arm_pool import ArmPool
from codeflash_parallel.race.worker.arm_worker import (
    GRAIN_S,
    SECOND,
    SMALL_S,
    ArmWorker,
    BlockRequest,
    WorkerUsage,
)
from codeflash_parallel.race.worker.leftover_files import SharedMemoryLeftovers

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


_CPU_DEVICES = Path("/sys/devices/system/cpu")
#: In so many of a group's rounds all outcomes of a checked block are encoded, where that is dear; else some.
#: Who is wrong in one call only, and only where it is timed, is found by that.
FULL_CHECKS = 1 / 8


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


@contextmanager
def stand_aside(core: int, devices: Path = _CPU_DEVICES) -> Iterator[None]:
    """Keep this thread off the cores that share execution units with a round's core, if others are left.

    The core itself is free whenever this thread has something to do.

    Args:
        core: -1 for none in particular.
        devices: where the kernel shows the topology.
    """
    allowed = os.sched_getaffinity(0)
    elsewhere = allowed - siblings(core, devices)
    if core < 0 or elsewhere == allowed or not elsewhere:
        yield
        return
    os.sched_setaffinity(0, elsewhere)
    try:
        yield
    finally:
        # A core of the set may have been taken away meanwhile.
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def siblings(core: int, devices: Path = _CPU_DEVICES) -> frozenset[int]:
    """Return the other cores that share a core's execution units, as far as the kernel shows them."""
    shown = _text(devices / f"cpu{core}/topology/thread_siblings_list").strip()
    return frozenset(_numbers(shown)) - {core}


def _numbers(cpu_list: str) -> Iterator[int]:
    """Yield the numbers of a list as the kernel writes it, such as ``0-2,5``."""
    for part in filter(None, cpu_list.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundContext:
    """Number of a round and the core it runs on.

    Attributes:
        left_s: of the race's budget when the round begins.
        together: long calls of all arms run at once, if there are any.
    """

    number: int
    layout: int
    core: int
    stage: RaceStage
    left_s: float = inf
    together: bool = False


class _BudgetSpent(Exception):  # noqa: N818 - the end of a round, not an error
    """The budget ended in the middle of a round."""


async def run_round(
    field: ArmPool,
    scales: tuple[BlockScale, ...],
    place: RoundContext,
    random: Random,
) -> Round:
    """Run one round on every arm of the field; arms that are lost on the way are in `field.lost`.

    The round is void if the budget ended in it: then the units are left as they are, and the field is to be
    closed.

    Raises:
        ArmFailure: the baseline is lost.
    """
    # Only long calls run at once: a round without any is one like all others.
    at_once = place.together and any(scale.is_lean for scale in scales)
    play = _Play(field, replace(place, together=at_once))
    spent = ""
    with stand_aside(place.core):
        try:
            await _play_all(play, scales, random)
        except _BudgetSpent:
            spent = "the budget ended in it"
    round_ = play.result()
    return replace(round_, queued=queued_share(round_.blocks), void=spent)


async def _play_all(play: _Play, scales: tuple[BlockScale, ...], random: Random) -> None:
    """Run all blocks of a round.

    Of an arm's timed blocks of a group the outcomes of one are looked at, and which one is drawn by lot: no
    arm can know it, and encoding them takes longer than most blocks.
    """
    play.all_encoded = frozenset(group for group, _ in enumerate(scales) if random.random() < FULL_CHECKS)
    for arm in random.sample(play.arms, len(play.arms)):
        await play.fork(arm)
    for group, scale in random.sample([*enumerate(scales)], len(scales)):
        if not scale.is_lean:
            for arm in random.sample([*play.units], len(play.units)):
                await play.warm(arm, group, scale)
    # Of whoever is lost from here on there are no blocks; all palindromes of a group have the same others.
    candidates = [arm for arm in play.units if arm != BASELINE]
    checked = [{arm: random.randrange(2 * scale.palindromes) for arm in play.units} for scale in scales]
    for group in turns(scales, random):
        scale = scales[group]
        if scale.is_lean:
            await play.once(BlockRequest(kind=BlockKind.TIMED, group=group, calls=scale.calls), scale, random)
            continue
        for arm in block_order(candidates, random):
            more = 1 if arm in {BASELINE, NULL} else scale.more
            job = BlockRequest(kind=BlockKind.TIMED, group=group, calls=scale.calls * more)
            await play.block(arm, replace(job, is_checked=not checked[group][arm]), scale)
            checked[group][arm] -= 1
    for group, scale in enumerate(scales):
        if scale.twin_calls:
            await play.meet_twins(group, scale, random)
    await play.end(scales)


def turns(scales: Sequence[BlockScale], random: Random) -> Iterator[int]:
    """Yield the group of every palindrome of a round: all groups take turns, in an order drawn by lot.

    What the machine does for some milliseconds then meets one palindrome of a group, which its median does
    not mind, and not all that it has.
    """
    for number in range(max(scale.palindromes for scale in scales)):
        left = [group for group, scale in enumerate(scales) if number < scale.palindromes]
        yield from random.sample(left, len(left))


class _Play:
    """A round being played. Losing the baseline ends it; losing a candidate takes its blocks out."""

    def __init__(self, field: ArmPool, place: RoundContext) -> None:
        self.arms = tuple(field.templates)
        self.units: dict[str, ArmWorker] = {}
        self.all_encoded: frozenset[int] = frozenset()  # groups
        self._field = field
        self.place = place
        self._blocks: list[Block] = []
        self._endings: dict[str, WorkerUsage] = {}
        self._shared = SharedMemoryLeftovers(field.in_shared_memory)
        self._end_s = time.monotonic() + place.left_s

    async def fork(self, arm: str) -> None:
        """Fork an arm's unit and measure its channel; its first block pays for the fork and is dropped."""
        try:
            unit = await self._field.templates[arm].fork(self.place.number, self.place.core)
            empty = BlockRequest(kind=BlockKind.EMPTY, is_checked=False)
            await unit.block(empty, SMALL_S)
            self._blocks.append(await unit.block(empty, SMALL_S))
            self.units[arm] = unit
        except ArmFailure as error:
            await self._lose(arm, error)

    async def warm(self, arm: str, group: int, scale: BlockScale) -> None:
        """Let an arm see every input once."""
        first = BlockRequest(kind=BlockKind.FIRST, group=group, calls=scale.cycle, is_checked=False)
        await self.block(arm, first, scale)

    async def meet_twins(self, group: int, scale: BlockScale, random: Random) -> None:
        """Let every arm make calls that it has not seen: one block of twins, drawn by lot."""
        start = random.randrange(scale.twin_blocks) * scale.twin_calls
        twins = BlockRequest(kind=BlockKind.TWIN, group=group, calls=scale.twin_calls, start=start)
        await self.once(twins, scale, random)
        if not scale.is_lean:
            await self.block(BASELINE, replace(twins, kind=BlockKind.KNOWN, is_checked=False), scale)

    async def once(self, job: BlockRequest, scale: BlockScale, random: Random) -> None:
        """Run one block of every arm: the project's own caches would answer a second one of the baseline."""
        arms = random.sample([*self.units], len(self.units))
        for some in [arms] if scale.is_lean and self.place.together else [[arm] for arm in arms]:
            await self.together(some, job, scale)

    async def block(self, arm: str, job: BlockRequest, scale: BlockScale) -> None:
        """Run one block, unless the arm has been lost.

        Raises:
            _BudgetSpent: next to nothing is left, or this block takes longer than what is left and one block.
        """
        await self.together([arm], job, scale)

    async def together(self, arms: Sequence[str], job: BlockRequest, scale: BlockScale) -> None:
        """Run one block of each arm that has not been lost, all of them at once.

        Raises:
            _BudgetSpent: as in `block`.
        """
        timed = [arm for arm in arms if arm in self.units]
        if job.is_checked and job.group not in self.all_encoded:
            job = replace(job, lot=self._field.lot(job), drawn=scale.drawn)
        left_s = self._end_s - time.monotonic()
        # Nobody is waited for so little: who gave up at once would look too slow.
        if left_s <= GRAIN_S:
            raise _BudgetSpent
        found: dict[str, Block | ArmFailure] = {}
        async with anyio.create_task_group() as tasks:
            for arm in timed:
                own_s = scale.deadline_s * (SLOW_FACTOR if arm == BASELINE else 1)
                once_s = scale.block_ns / SECOND
                deadline_s = min(len(timed) * own_s, left_s + len(timed) * once_s)
                tasks.start_soon(self._tried, arm, job, deadline_s, found)
        self._shared.note(timed)
        for arm in timed:
            await self._take(arm, found[arm], job, scale)

    async def _tried(
        self, arm: str, job: BlockRequest, deadline_s: float, found: dict[str, Block | ArmFailure]
    ) -> None:
        try:
            found[arm] = await self.units[arm].block(job, deadline_s)
        except ArmFailure as error:
            found[arm] = error

    async def _take(self, arm: str, found: Block | ArmFailure, job: BlockRequest, scale: BlockScale) -> None:
        if isinstance(found, Block):
            self._blocks.append(replace(found, kept=job.encoded(scale.cycle)))
        elif isinstance(found, ArmWorkTimeout) and time.monotonic() > self._end_s:
            raise _BudgetSpent
        else:
            await self._lose(arm, found)

    async def end(self, scales: Sequence[BlockScale]) -> None:
        """End all units; before, the baseline makes as many calls at a time as candidates did.

        What came of them is compared. Not earlier: it makes the baseline's memory unlike the others'.
        """
        for group, scale in enumerate(scales):
            if scale.more > 1:
                many = BlockRequest(kind=BlockKind.MANY, group=group, calls=scale.calls * scale.more)
                await self.block(BASELINE, many, scale)
        for arm in tuple(self.units):
            await self._end(arm)

    async def _end(self, arm: str) -> None:
        try:
            self._endings[arm] = await self.units[arm].end()
        except ArmFailure as error:
            await self._lose(arm, error)

    async def _lose(self, arm: str, error: ArmFailure) -> None:
        self.units.pop(arm, None)
        await self._field.lose(arm, error)
        if arm == BASELINE:
            raise self._field.lost[arm]

    def result(self) -> Round:
        """Return what was measured, and remove what the units left behind."""
        place, endings = self.place, self._endings
        return Round(
            number=place.number,
            layout=place.layout,
            core=place.core,
            blocks=tuple(block for block in self._blocks if block.arm in self.units),
            children_ns={arm: ending.children_ns for arm, ending in endings.items()},
            peak_bytes={arm: ending.peak_bytes for arm, ending in endings.items()},
            start_ns={arm: self._field.start_ns[arm] for arm in endings},
            unclean=tuple(sorted(self._field.tidy() | self._shared.unclean())),
            together=place.together,
        )
