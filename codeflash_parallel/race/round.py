"""Rounds: every arm forked onto one core, blocks in turn, the baseline near each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from random import Random

import anyio

from codeflash_parallel.race.calibration import SLOW_FACTOR, BlockScale
from codeflash_parallel.race.measurement import Block, BlockKind, Round, queued_share
from codeflash_parallel.race.plan import BASELINE, NULL, RaceStage, block_order
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
            drawn = job.drawn if job.lot else job.calls
            kept = min(job.calls, scale.cycle, drawn) if job.is_checked else 0
            self._blocks.append(replace(found, kept=kept))
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
