"""A pool of slots: handed out in the order of asking, restored and verified when they come back.

Most are made when they are first handed out: a run may need few of them, and needs the first one at once.

No slot is lost: not on cancellation, not on an exception, not when it breaks. A broken one is put aside and
replaced; when that fails, too, the pool is smaller and says so.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.isolation_policy import IsolationPolicy
from codeflash_parallel.workspace.cache_layout import cache_faults
from codeflash_parallel.workspace.cleanup import SlotOwner, removable, remove_run
from codeflash_parallel.workspace.slot.slot import Slot, SlotBroken, SlotResidue
from codeflash_parallel.workspace.slot.slot_factory import EnvironmentFor, SlotFactory
from codeflash_parallel.workspace.snapshot.mirror import Mirror, mend
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.tree_guard import OriginalFile

__all__ = ["Slot", "SlotPool", "open_pool"]

_T = TypeVar("_T")


class _Waiter(Generic[_T]):
    """Somebody in line. `every`: wants all slots there are, else one, `from_end`: the last one."""

    __slots__ = ("event", "every", "from_end", "granted")

    def __init__(self, *, every: bool, from_end: bool) -> None:
        self.every, self.from_end = every, from_end
        self.granted: list[_T] = []
        self.event = anyio.Event()


class SlotQueue(Generic[_T]):
    """Hands slots out.

    Args:
        slots: all there are, free; whoever is served gets those that come first.
    """

    def __init__(self, slots: Iterable[_T]) -> None:
        self._free = deque(slots)
        self._size = len(self._free)
        self._waiting: deque[_Waiter[_T]] = deque()
        self._taken: set[_T] = set()

    @property
    def size(self) -> int:
        """Number of slots, free or taken."""
        return self._size

    @property
    def free(self) -> tuple[_T, ...]:
        """Slots that nobody has, in the order in which they are handed out."""
        return tuple(self._free)

    @property
    def taken(self) -> frozenset[_T]:
        """Slots that were handed out and have not come back."""
        return frozenset(self._taken)

    async def wait(self, *, every: bool, from_end: bool = False) -> list[_T]:
        """Wait for one slot, or for all, and return them; an empty list: there are none any more.

        Args:
            from_end: the one that would be handed out last.
        """
        waiter = _Waiter[_T](every=every, from_end=from_end)
        self._waiting.append(waiter)
        self._serve()
        try:
            await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise
        return waiter.granted

    def _leave(self, waiter: _Waiter[_T]) -> None:
        """Undo a wait that was cancelled, before or after it was served; the slots were not used."""
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        self._free.extendleft(reversed(waiter.granted))
        self._taken.difference_update(waiter.granted)
        self._serve()

    def _serve(self) -> None:
        """Serve in order: nobody overtakes one who waits for all slots."""
        while self._waiting:
            needed = self._size if self._waiting[0].every else 1
            if self._size and len(self._free) < needed:
                return
            waiter = self._waiting.popleft()
            if self._size:
                take = self._free.pop if waiter.from_end else self._free.popleft
                waiter.granted = [take() for _ in range(needed)]
                self._taken.update(waiter.granted)
            waiter.event.set()

    def give_up(self, slot: _T) -> None:
        """Say that whoever had a slot has it no longer; nobody else has it yet."""
        self._taken.discard(slot)

    def put_back(self, slot: _T, *, at_end: bool = False) -> None:
        """Make a slot the first to be handed out, or the last."""
        (self._free.append if at_end else self._free.appendleft)(slot)
        self._serve()

    def add_taken(self, slot: _T) -> None:
        """Count with one slot more, which somebody has."""
        self._size += 1
        self._taken.add(slot)

    def lose_one(self) -> None:
        """Count with one slot less."""
        self._size -= 1
        self._serve()


class SlotPool:
    """Slots for candidates, and one more for the baseline; made by `open_pool`.

    Attributes:
        baseline: the baseline's own slot, never given to a candidate.
        baselines_turn: held by whoever runs something there beside a preflight or a race.
        warnings: what a person should know, one sentence each.
    """

    def __init__(
        self, maker: SlotFactory, baseline: Slot, slots: Mapping[int, Slot], numbers: Sequence[int]
    ) -> None:
        """Make one.

        Args:
            slots: those that are made already, by number.
            numbers: of all.
        """
        self.baseline = baseline
        self.baselines_turn = anyio.Lock()
        self.warnings: list[str] = []
        self._told = 0
        self._maker = maker
        self._line = SlotQueue(numbers)
        self._last = max(numbers)
        self._slots = dict(slots)
        self._quarantined: list[str] = []
        self._bytecode: Mapping[str, OriginalFile] = {}
        self._furnished: set[Slot] = set()
        self._restoring: dict[int, SlotResidue] = {}
        self._making = anyio.Lock()
        self._servers_slot: Slot | None = None
        self._making_servers_slot = anyio.Lock()

    @property
    def size(self) -> int:
        """Number of slots for candidates, free or taken."""
        return self._line.size

    @property
    def quarantined(self) -> tuple[str, ...]:
        """Why slots were put aside, one line each."""
        return tuple(self._quarantined)

    @asynccontextmanager
    async def acquire(self, *, unused: bool = False) -> AsyncIterator[Slot]:
        """Wait for a slot and hold it; on leaving it is restored and verified, however the block ends.

        Whoever holds a slot must not wait for another one.

        Args:
            unused: take the one that was not used for longest, and leave it so: for who needs no servers.

        Raises:
            EnvironmentFault: `NO_SLOT`, every slot is broken.
        """
        slots = await self._wait(every=False, from_end=unused)
        try:
            await self._furnish(slots)
            yield slots[0]
        finally:
            await self._give_back(slots, at_end=unused)

    @asynccontextmanager
    async def acquire_all(self, at_least: int = 0) -> AsyncIterator[tuple[Slot, ...]]:
        """Wait for all slots and hold them, in the order of their numbers; see `acquire`.

        Args:
            at_least: so many are held: those that are missing are made, and kept for the next one who asks.

        Raises:
            EnvironmentFault: `NO_SLOT`, every slot is broken; or one more could not be made.
        """
        slots = await self._wait(every=True)
        try:
            slots += await self._more(at_least - len(slots))
            await self._furnish(slots)
            yield tuple(sorted(slots, key=lambda slot: slot.number))
        finally:
            await self._give_back(slots)

    async def make_ready(self, count: int) -> None:
        """Make slots that will be needed soon; those that cannot be made are tried again when they are."""
        numbers = sorted(self._line.free)[:count]
        with contextlib.suppress(EnvironmentFault):
            await self._made(numbers)

    async def servers_slot(self) -> Slot:
        """Return the slot in which servers stand that serve all slots: no candidate ever gets it.

        Raises:
            EnvironmentFault: it cannot be made.
        """
        async with self._making_servers_slot:
            slot = self._servers_slot
            if slot is None or slot.broken:
                slot = self._servers_slot = await self._another(slot)
            await self._furnish([slot])
        return slot

    async def _another(self, broken: Slot | None) -> Slot:
        """Make a slot that no candidate gets, in the place of one that is broken."""
        if broken is not None:
            await self._remove(broken)
        return await self._make(0)

    def new_warnings(self) -> list[str]:
        """Return the warnings that were not told yet."""
        told, self._told = self._told, len(self.warnings)
        return self.warnings[told:]

    async def _more(self, count: int) -> list[Slot]:
        """Return so many slots beside the pool."""
        numbers = range(self._last + 1, self._last + 1 + count)
        slots = await self._made(numbers)
        for number in numbers:
            self._line.add_taken(number)
        return slots

    async def _wait(self, *, every: bool, from_end: bool = False) -> list[Slot]:
        """Return slots that are whoever waits here's; numbers whose slot cannot be made are lost."""
        while numbers := await self._line.wait(every=every, from_end=from_end):
            try:
                return await self._made(numbers)
            except EnvironmentFault as fault:
                self._return_numbers(numbers, fault)
            except BaseException:
                self._return_numbers(numbers, None)
                raise
        last = self._quarantined[-1] if self._quarantined else "none could be restored"
        raise EnvironmentFault("NO_SLOT", f"No slot is left: {last}.", "See the warnings of the run.")

    def _return_numbers(self, numbers: Iterable[int], fault: EnvironmentFault | None) -> None:
        for number in numbers:
            self._line.give_up(number)
            if fault is None or number in self._slots:
                self._line.put_back(number)
            else:
                self.warnings.append(f"Slot {number} could not be made. {fault}")
                self._line.lose_one()

    async def _made(self, numbers: Iterable[int]) -> list[Slot]:
        """Return slots; those that are missing are made side by side.

        Raises:
            EnvironmentFault: not all could be made.
        """
        async with self._making:
            with anyio.CancelScope(shield=True):  # what is half made would be nobody's
                made, faults = await _make_each(set(numbers).difference(self._slots), self._make)
            self._slots |= made
        if faults:
            raise next(iter(faults.values()))
        return [self._slots[number] for number in numbers]

    async def share_bytecode(self, stored: Mapping[str, OriginalFile] | None = None) -> None:
        """Give each slot, when it is next handed out, the bytecode that the baseline's runs have made.

        Args:
            stored: what those of an earlier process have made of the same snapshot.
        """
        if stored is None:
            await self.baseline.accept_bytecode()
        else:
            await self.baseline.take_bytecode(stored)
        self._bytecode, self._furnished = self.baseline.bytecode, set()

    async def _furnish(self, slots: Iterable[Slot]) -> None:
        """Give slots the bytecode that was shared, unless they have it."""
        for slot in slots:
            if self._bytecode and slot not in self._furnished:
                await slot.take_bytecode(self._bytecode)
                self._furnished.add(slot)

    async def _give_back(self, slots: Sequence[Slot], *, at_end: bool = False) -> None:
        """Restore slots and hand them on; a cancellation waits for that."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for slot in slots:
                    group.start_soon(self._restore, slot, at_end)

    async def _restore(self, slot: Slot, at_end: bool) -> None:  # noqa: FBT001 - for a task group
        """Make a slot fit for the next one, or replace it."""
        number, whole = slot.number, True
        try:
            self._slots[number] = await self._restored(slot)
        except Exception as error:  # noqa: BLE001 - the slot boundary: those in line must not wait for ever
            self.warnings.append(f"Slot {number} is lost and could not be replaced. {error}")
            del self._slots[number]
            whole = False
        if whole and number <= self._last:
            # The next one gets it: servers that stand there are warm, and others need not be started.
            self._line.put_back(number, at_end=at_end)
        else:
            self._line.lose_one()
        if self._slots.get(number) is slot:
            await slot.sweep()

    async def _restored(self, slot: Slot) -> Slot:
        """Return the slot, or the one that takes its place."""
        self._line.give_up(slot.number)
        self._restoring[slot.number] = slot.trace
        try:
            await slot.discard()
        except SlotBroken as error:
            self._quarantined.append(f"slot {slot.number}: {error}")
            return await self._replacement(slot)
        self._mend_mirror(slot)
        return await self._replacement(slot) if slot.kept else slot

    def _mend_mirror(self, slot: Slot) -> None:
        # A few looks at small files: to hand that to a thread would take longer.
        wrong = mend(self._maker.mirror.home.mirror)
        if not wrong:
            return
        self.warnings.append(f"While slot {slot.number} was in use, somebody changed the mirror: {wrong[0]}.")
        taken = [self._slots[number] for number in self._line.taken if number in self._slots]
        for trace in (self._restoring[slot.number], *(one.trace for one in taken)):
            trace.mirror = wrong

    async def _replacement(self, slot: Slot) -> Slot:
        """Make a slot of the same number, and remove the old one unless it is kept."""
        if not slot.kept:
            await self._remove(slot)
        return await self._make(slot.number)

    async def _remove(self, slot: Slot) -> None:
        try:
            await anyio.to_thread.run_sync(partial(self._maker.remove, slot))
        except (OSError, EnvironmentFault) as error:  # the next start tries again
            self.warnings.append(f"Slot {slot.number} could not be removed: {error}.")

    async def _make(self, number: int) -> Slot:
        return await anyio.to_thread.run_sync(
            partial(_healing, self._maker, partial(self._maker.make_again, number))
        )


def open_pool(
    mirror: Mirror,
    snapshot: Snapshot,
    *,
    size: int,
    interpreter: Path,
    run_id: str,
    environment_for: EnvironmentFor,
    isolation: IsolationPolicy | None = None,
) -> AbstractAsyncContextManager[SlotPool]:
    """Make `size` slots for candidates and one for the baseline; leaving the block removes them.

    Args:
        interpreter: absolute path of the project's Python.
        run_id: names the run among those that use the cache now.
        environment_for: builds the environment of a slot from its private folder and its number.
        isolation: what their processes may see and do; `None`: level `none`, without limits.

    Raises:
        EnvironmentFault: `NO_SLOT`, `DISK_FULL`, `CACHE_UNWRITABLE`: not even one slot could be made.
            When only some could be made, the pool is smaller and has a warning.
    """
    maker = SlotFactory(
        mirror=mirror,
        snapshot=snapshot,
        run_id=run_id,
        interpreter=interpreter,
        environment_for=environment_for,
        isolation=isolation or IsolationPolicy(),
    )
    return _open(maker, size)


@asynccontextmanager
async def _open(maker: SlotFactory, size: int) -> AsyncIterator[SlotPool]:
    home = maker.mirror.home
    with cache_faults(home.path):
        owner = await anyio.to_thread.run_sync(partial(SlotOwner, home, maker.run_id))
    try:
        baseline, slots, faults = await _make_first(maker, size)
        numbers = [number for number in range(1, size + 1) if number not in faults]
        pool = SlotPool(maker, baseline, slots, numbers)
        pool.warnings += [
            f"Slot {number} could not be made. {fault}" for number, fault in sorted(faults.items())
        ]
        yield pool
    finally:
        with anyio.CancelScope(shield=True):
            await _close(maker, owner)


def _healing(maker: SlotFactory, make: Callable[[], _T]) -> _T:
    """Make something of the mirror's files; if the mirror lost something, put that back and try again."""
    try:
        return make()
    except EnvironmentFault as fault:
        if fault.code not in {"GIT_FAILED", "MIRROR_DAMAGED"}:
            raise
        maker.mirror.heal(maker.snapshot)
        return make()


async def _make_each(
    numbers: Iterable[int], make: Callable[[int], Awaitable[Slot]]
) -> tuple[dict[int, Slot], dict[int, EnvironmentFault]]:
    """Make slots side by side; return them, and the faults of those that could not be made."""
    made: dict[int, Slot] = {}
    faults: dict[int, EnvironmentFault] = {}

    async def attempt(number: int) -> None:
        try:
            made[number] = await make(number)
        except EnvironmentFault as fault:
            faults[number] = fault

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(attempt, number)
    return made, faults


async def _make_first(
    maker: SlotFactory, size: int
) -> tuple[Slot, dict[int, Slot], dict[int, EnvironmentFault]]:
    """Make the baseline's slot and one for candidates; all of them where they can share its files.

    Returns:
        The baseline's slot, the others by number, and why some of those could not be made.

    Raises:
        EnvironmentFault: not even one could be made.
    """
    pristine: Slot | None = None

    async def make(number: int) -> Slot:
        if pristine is not None and number == pristine.number:
            return pristine
        return await anyio.to_thread.run_sync(partial(_healing, maker, partial(maker.make, number, pristine)))

    if await anyio.to_thread.run_sync(maker.can_share):
        pristine = await make(0)
    first = 1 if pristine is None else size
    made, faults = await _make_each(range(first + 1), make)
    if 0 in faults:
        raise faults[0]
    baseline = made.pop(0)
    if not made:  # then perhaps one of those that would have been made later
        made, more = await _make_each(range(first + 1, size + 1), make)
        faults |= more
    if not made:
        fault = faults[min(faults)]
        code = "NO_SLOT" if fault.code == "GIT_FAILED" else fault.code
        raise EnvironmentFault(code, f"No slot could be made. {fault.message}", fault.hint)
    return baseline, made, faults


async def _close(maker: SlotFactory, owner: SlotOwner) -> None:
    """Remove what the run has made, all parts at once, and last the proof that it is alive."""
    home = maker.mirror.home
    try:
        with cache_faults(home.path):
            async with anyio.create_task_group() as group:
                for part in await anyio.to_thread.run_sync(partial(removable, maker.folder)):
                    group.start_soon(_remove_beside, part)
            await anyio.to_thread.run_sync(partial(remove_run, home, maker.run_id))
    finally:
        owner.release()


async def _remove_beside(part: Path) -> None:
    # No file, or no further thread: `remove_run` tries again, and says why it cannot.
    with contextlib.suppress(OSError, RuntimeError):
        await anyio.to_thread.run_sync(partial(_remove_quickly, part))


def _remove_quickly(part: Path) -> None:
    """Remove a folder by `rm`: threads of ours that remove ten trees take four times as long."""
    command = ["rm", "-rf", "--", str(part)]
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
