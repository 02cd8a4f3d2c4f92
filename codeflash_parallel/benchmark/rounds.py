"""Rounds: every arm forked onto one core, blocks in turn, the baseline near each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from random import Random

from codeflash_parallel.benchmark.field import Field
from codeflash_parallel.benchmark.host import ReadMachine, read_machine, stand_aside
from codeflash_parallel.benchmark.leftovers import SharedMemory, read_shared
from codeflash_parallel.benchmark.lost import ArmLost, ArmSlow
from codeflash_parallel.benchmark.plan import BASELINE, LEAN_CYCLE_NS, RacePlan, RaceStage, Work, block_order
from codeflash_parallel.benchmark.quiet import load_of, stepped
from codeflash_parallel.benchmark.samples import Block, BlockKind, Round
from codeflash_parallel.benchmark.unit import SECOND, SMALL_S, Ending, Job, Unit

#: A candidate's block may take this many times the baseline's before it is given up as slower.
SLOW_FACTOR = 20

#: Seconds added to that, for machines that stand still for a moment.
PATIENCE_S = 2.0

#: Passes over a group while its cost is being found out; each is longer than the one before.
CALIBRATION_STEPS = 6

#: How much longer one such pass may be than the one before.
CALIBRATION_GROWTH = 16

#: Where less than this share of its own time is CPU time, work is waiting, and that sizes the blocks.
BUSY_SHARE = 0.2

#: Where the CPU clock stands still, passes grow until they wait for as long as this many blocks.
LONGEST_PASS = 4

#: How long each arm's timed blocks of one round should be in all. What the machine does to a block
#: lasts hardly longer than the block, so many short ones tell more than few long ones: half the spread, for
#: the same time, at 1.5 ms as at 6. In a confirmation new processes for every round are the larger cost.
TIMED_NS = {RaceStage.RACE: 24_000_000, RaceStage.CONFIRMATION: 36_000_000}

#: All groups together have so many palindromes at least where nothing is so long that it is not repeated:
#: fewer blocks than about a dozen leave each other's accidents standing ...
LEAST_PALINDROMES = 6

#: ... and as many as let so many rounds fit into this share of the budget: more rounds tell as much as longer
#: ones, and the first ones drop most arms.
FITTING_ROUNDS = {RaceStage.RACE: 16, RaceStage.CONFIRMATION: 24}
FITTING_SHARE = 0.5

#: Of an arm's timed blocks of a group, the outcomes of so many are looked at, on average; encoding them takes
#: as long as a short block. (Those of the first pass over the inputs are, in every unit.)
CHECKED_BLOCKS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How much work one block of a group is.

    Attributes:
        cycle: calls of one pass over the group.
        calls: calls of one block; a multiple of `cycle`.
        block_ns: wall time of such a block of the baseline.
        palindromes: how often every arm's blocks are run in both orders in a round.
    """

    cycle: int
    calls: int
    block_ns: int
    palindromes: int = 1

    @property
    def is_lean(self) -> bool:
        """Return whether one pass is so long that nothing is repeated."""
        return self.block_ns * self.cycle > LEAN_CYCLE_NS * self.calls

    @property
    def deadline_s(self) -> float:
        """Return how long a candidate's block may take."""
        return PATIENCE_S + SLOW_FACTOR * self.block_ns / SECOND


async def calibrate(field: Field, plan: RacePlan, core: int, left_s: float = inf) -> tuple[Scale, ...]:
    """Find out on the baseline how many calls make a block of the planned length, for every group.

    Args:
        left_s: of the race's budget.

    Raises:
        ArmLost: the baseline is lost; `ArmSlow` when one pass takes longer than is left of the budget.
    """
    template = field.templates[BASELINE]
    unit = await template.fork(0, core)
    cycles = template.cycles if plan.work is Work.CALLS else (1,) * len(plan.groups)
    end_s = time.monotonic() + min(left_s, plan.budget_ns / SECOND)
    scales = tuple([await _scale(unit, group, cycle, plan, end_s) for group, cycle in enumerate(cycles)])
    await unit.end()
    field.tidy()
    return with_palindromes(scales, len(field.templates) - 1, plan)


async def _scale(unit: Unit, group: int, cycle: int, plan: RacePlan, end_s: float) -> Scale:
    passes = 1
    job = Job(kind=BlockKind.FIRST, group=group, calls=cycle)
    block = await unit.block(job, max(0.0, end_s - time.monotonic()))
    for _ in range(CALIBRATION_STEPS):
        if block.cpu_ns > LEAN_CYCLE_NS or block.waited_ns >= LONGEST_PASS * plan.block_ns:
            break
        # The first pass of a fresh process is slower than the next ones; only those give the size.
        more = replace(job, calls=cycle * passes)
        block = await unit.block(more, max(0.0, end_s - time.monotonic()))
        if block.cpu_ns >= plan.block_ns / 2:
            break
        wanted = round(passes * plan.block_ns / max(block.cpu_ns, 1))
        passes = max(passes + 1, min(passes * CALIBRATION_GROWTH, wanted))
    # Not the wall clock: on a busy machine most of it is time in line for a core.
    own_ns = block.cpu_ns + block.waited_ns
    busy = block.cpu_ns >= BUSY_SHARE * own_ns
    took_ns = max(1, block.cpu_ns if busy else own_ns) * cycle // block.calls
    final = max(1, round(plan.block_ns / max(took_ns, 1)))
    block_ns = max(1, took_ns * final)
    return Scale(cycle=cycle, calls=cycle * final, block_ns=block_ns)


def with_palindromes(scales: tuple[Scale, ...], arms: int, plan: RacePlan) -> tuple[Scale, ...]:
    """Return scales with as many palindromes as are useful, and fit into the budget.

    Args:
        arms: that race, the baseline not counted.
    """
    once_ns = max(1, sum(_turn_ns(scale, arms) for scale in scales))
    fitting = FITTING_SHARE * plan.budget_ns / FITTING_ROUNDS[plan.stage] / once_ns
    useful = [max(LEAST_PALINDROMES, TIMED_NS[plan.stage] / (2 * s.block_ns)) / len(scales) for s in scales]
    return tuple(
        scale if scale.is_lean else replace(scale, palindromes=max(1, int(min(ceil(wanted), fitting))))
        for scale, wanted in zip(scales, useful, strict=True)
    )


def predicted_ns(scales: tuple[Scale, ...], arms: int) -> int:
    """Return about how long a round of that many arms (the baseline not counted) will take."""
    total = 0
    for scale in scales:
        total += _turn_ns(scale, arms) * scale.palindromes
        if not scale.is_lean:
            total += 2 * (arms + 1) * scale.block_ns * scale.cycle // scale.calls
    return total


def _turn_ns(scale: Scale, arms: int) -> int:
    """Return about how long one palindrome takes; where nothing is repeated there is one half of it."""
    blocks = arms + (arms + 1) // 2
    return scale.block_ns * blocks * (1 if scale.is_lean else 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundPlace:
    """Which round it is and where it is run.

    Attributes:
        left_s: of the race's budget when the round begins.
    """

    number: int
    layout: int
    core: int
    stage: RaceStage
    left_s: float = inf


class _BudgetSpent(Exception):  # noqa: N818 - the end of a round, not an error
    """The budget ended in the middle of a round."""


async def run_round(
    field: Field,
    scales: tuple[Scale, ...],
    place: RoundPlace,
    random: Random,
    read: ReadMachine = read_machine,
) -> Round:
    """Run one round on every arm of the field; arms that are lost on the way are in `field.lost`.

    The round is void if the machine's clocks jumped in it, or if the budget ended in it: then the units are
    left as they are, and the field is to be closed.

    Raises:
        ArmLost: the baseline is lost.
    """
    play = _Play(field, place)
    before = read(place.core)
    spent = ""
    with stand_aside(place.core):
        try:
            await _play_all(play, scales, random)
        except _BudgetSpent:
            spent = "the budget ended in it"
    after = read(place.core)
    round_ = play.result()
    own_ns = sum(round_.wait4_ns.values())
    load = load_of(before, after, round_.blocks, own_ns)
    return replace(round_, load=load, void=spent or stepped(before, after))


async def _play_all(play: _Play, scales: tuple[Scale, ...], random: Random) -> None:
    for arm in random.sample(play.arms, len(play.arms)):
        await play.fork(arm)
    for group, scale in enumerate(scales):
        if not scale.is_lean:
            for arm in random.sample([*play.units], len(play.units)):
                await play.warm(arm, group, scale)
    # Of whoever is lost from here on there are no blocks; all palindromes of a group have the same others.
    candidates = [arm for arm in play.units if arm != BASELINE]
    for group in turns(scales, random):
        scale = scales[group]
        order = block_order(candidates, random)
        for arm in order[: len(order) // 2] if scale.is_lean else order:
            await play.block(arm, _timed(group, scale, random), scale)
    for arm in tuple(play.units):
        await play.end(arm)


def turns(scales: Sequence[Scale], random: Random) -> Iterator[int]:
    """Yield the group of every palindrome of a round: all groups take turns, in an order drawn by lot.

    What the machine does for some milliseconds then meets one palindrome of a group, which its median does
    not mind, and not all that it has.
    """
    for number in range(max(scale.palindromes for scale in scales)):
        left = [group for group, scale in enumerate(scales) if number < scale.palindromes]
        yield from random.sample(left, len(left))


def _timed(group: int, scale: Scale, random: Random) -> Job:
    """Return a timed block; whether its outcomes are looked at is drawn by lot: no arm can know it."""
    is_checked = random.random() * 2 * scale.palindromes < CHECKED_BLOCKS
    return Job(kind=BlockKind.TIMED, group=group, calls=scale.calls, is_checked=is_checked)


class _Play:
    """A round being played. Losing the baseline ends it; losing a candidate takes its blocks out."""

    def __init__(self, field: Field, place: RoundPlace) -> None:
        self.arms = tuple(field.templates)
        self.units: dict[str, Unit] = {}
        self._field = field
        self.place = place
        self._blocks: list[Block] = []
        self._endings: dict[str, Ending] = {}
        self._shared = SharedMemory(read_shared)
        self._end_s = time.monotonic() + place.left_s

    async def fork(self, arm: str) -> None:
        """Fork an arm's unit and measure its channel; its first block pays for the fork and is dropped."""
        try:
            unit = await self._field.templates[arm].fork(self.place.number, self.place.core)
            empty = Job(kind=BlockKind.EMPTY, is_checked=False)
            await unit.block(empty, SMALL_S)
            self._blocks.append(await unit.block(empty, SMALL_S))
            self.units[arm] = unit
        except ArmLost as error:
            await self._lose(arm, error)

    async def warm(self, arm: str, group: int, scale: Scale) -> None:
        """Let an arm see every input once; where a claim is made, the second half of them twice."""
        half = scale.cycle // 2
        whole = Job(kind=BlockKind.FIRST, group=group, calls=scale.cycle)
        first = Job(kind=BlockKind.FIRST, group=group, calls=half)
        cold = Job(kind=BlockKind.COLD, group=group, calls=scale.cycle - half, start=half)
        again = replace(cold, kind=BlockKind.AGAIN)
        told_apart = [first, cold, again] if half else [cold, again]
        for job in told_apart if self.place.stage is RaceStage.CONFIRMATION else [whole]:
            await self.block(arm, job, scale)

    async def block(self, arm: str, job: Job, scale: Scale) -> None:
        """Run one block, unless the arm has been lost.

        Raises:
            _BudgetSpent: there is nothing left, or this block takes longer than what is left and one block.
        """
        if arm not in self.units:
            return
        left_s = self._end_s - time.monotonic()
        if left_s <= 0:
            raise _BudgetSpent
        own_s = scale.deadline_s * (SLOW_FACTOR if arm == BASELINE else 1)
        try:
            block = await self.units[arm].block(job, min(own_s, left_s + scale.block_ns / SECOND))
        except ArmLost as error:
            if isinstance(error, ArmSlow) and time.monotonic() > self._end_s:
                raise _BudgetSpent from None
            await self._lose(arm, error)
        else:
            kept = min(job.calls, scale.cycle) if job.is_checked else 0
            self._blocks.append(replace(block, kept=kept))
            self._shared.note(arm)

    async def end(self, arm: str) -> None:
        try:
            self._endings[arm] = await self.units[arm].end()
        except ArmLost as error:
            await self._lose(arm, error)

    async def _lose(self, arm: str, error: ArmLost) -> None:
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
            wait4_ns={arm: ending.wait4_ns for arm, ending in endings.items()},
            peak_bytes={arm: ending.peak_bytes for arm, ending in endings.items()},
            start_ns={arm: self._field.start_ns[arm] for arm in endings},
            unclean=tuple(sorted(self._field.tidy() | self._shared.unclean())),
        )
