"""Warm servers beside a preflight: started as soon as they have something to stand for, on idle cores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from anyio.abc import TaskGroup

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.slot.slot import SlotBroken
from codeflash_parallel.workspace.slot_pool import SlotPool

#: Returns the servers of a baseline that is still a draft.
FleetFor = Callable[[Baseline], Awaitable[Fleet]]
#: Returns how many slots will get a candidate.
SlotsFor = Callable[[Baseline], int]


class ServerWarmup:
    """Warms the slots of a pool up while a preflight goes on (`warmth.Warmth`)."""

    def __init__(
        self, fleet_for: FleetFor, slots_for: SlotsFor, pool: SlotPool, group: TaskGroup, *, spare: int
    ) -> None:
        """Make one.

        Args:
            fleet_for: takes a draft.
            slots_for: says how many slots are worth it.
            pool: whose slots are warmed up.
            group: where servers are started.
            spare: cores besides the one that the preflight's own runs keep busy.
        """
        self._fleet_for, self._slots_for = fleet_for, slots_for
        self._pool, self._group, self._spare = pool, group, spare

    async def begin(self, draft: Baseline, /) -> None:
        """Start servers of a draft's tests on spare cores: the next run of the baseline is measured."""
        await self._pool.share_bytecode()
        fleet = await self._fleet_for(draft)
        self._group.start_soon(fleet.warm_up, self._pool, min(self._slots_for(draft), self._spare))

    async def go_on(self, draft: Baseline, /) -> None:
        """Start all servers."""
        fleet = await self._fleet_for(draft)
        self._group.start_soon(fleet.warm_up, self._pool, self._slots_for(draft))

    async def sees(self, draft: Baseline, edits: Sequence[Edit], /) -> bool:
        """Say whether a test fails in a fork that runs these edits; other slots verify points meanwhile."""
        fleet = await self._fleet_for(draft)
        await fleet.complete(fleet.plan)
        self._group.start_soon(fleet.warm_up, self._pool, self._slots_for(draft) - 1)
        with suppress(SlotBroken):  # the pool replaces it
            async with self._pool.acquire() as slot:
                return await fleet.sees(slot, edits)
        return False

    async def distrust(self, draft: Baseline, /) -> None:
        """Give up what has not seen a failure that a new process saw."""
        (await self._fleet_for(draft)).distrust()
