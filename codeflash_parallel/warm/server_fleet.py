"""The warm servers of all slots: what is known of their fork points, and which of them may be used.

Where all slots are seen at one path (`Workspace.mounted`), the same servers serve all; else each has its own.
Each point is verified with the unchanged snapshot, once for each baseline; the result is kept beside it.
Servers are started during the preflight already (`ServerWarmup`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.dispatch.fork_points import LONG_SUITE_S, ForkPoint
from codeflash_parallel.check.session.runner_session import test_files
from codeflash_parallel.process.files import write_atomically
from codeflash_parallel.process.launcher.launcher import Launcher
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.warm.slot_servers import REPLAY, TESTS, Key, SlotServers, verify
from codeflash_parallel.workspace.slot.slot import SlotBroken
from codeflash_parallel.workspace.slot_pool import Slot, SlotPool

#: Seconds that the way to a point may take, besides ten times a run of the baseline.
_START_S = 30.0
_START_FACTOR = 10
#: How often a template that dies is tried again.
_MOST_DEATHS = 2
#: Verifying costs a run of the tests; beyond this it is not done before the first candidate needs it.
_SHORT_SUITE_S = 2.0
#: In the place of a slot's number: the servers of all slots. No slot has it.
_ALL = -1


class Fleet:
    """The servers of all slots of a pool, for one baseline.

    Attributes:
        launcher: starts and follows them.
        plan: how candidates are checked; its baseline is a draft during the preflight.
        unfit: why a point cannot be used in any slot, by mode and point.
        is_complete: the baseline is no draft any more.
        count: `servers` that were started, `restarts`, and `forks` of servers that are closed.
    """

    def __init__(self, *, launcher: Launcher, plan: CheckPlan, folder: Path) -> None:
        self.launcher = launcher
        self.plan = plan
        self.unfit: dict[Key, str] = {}
        self.count: Counter[str] = Counter()
        # Servers are verified by values, too, where candidates are.
        compared = "values" if plan.compare_values else "outcomes"
        self._answers = ForkPointStore(folder / f"serving-{compared}.json")
        self.is_complete = False
        self._verifying: dict[Key, anyio.Event] = {}
        self._deaths: Counter[Key] = Counter()
        self._slots: dict[int, SlotServers] = {}
        self._turns: defaultdict[int, anyio.Lock] = defaultdict(anyio.Lock)
        self._served: set[int] = set()
        self._pool: SlotPool | None = None
        self._new_warnings: list[str] = []
        self._before: Counter[str] = Counter()

    def begin(self) -> None:
        """Count anew: another run uses what stands."""
        self._before += self.tally()

    async def draft(self, plan: CheckPlan, pool: SlotPool) -> None:
        """Take what is known of the baseline so far; servers that were started for other tests are ended."""
        self._pool = pool
        if _files(plan) != _files(self.plan):
            async with pool.acquire_all():
                await self.close()
        self.plan = plan

    async def complete(self, plan: CheckPlan) -> None:
        """Take the whole baseline: from now on points can be verified, and what is known of them counts.

        Args:
            plan: its tests are those of the last draft.
        """
        self.plan, self.is_complete = plan, True
        known = await anyio.to_thread.run_sync(self._answers.read)
        self.unfit |= {key: why for key, why in known.items() if why}

    # --- for slots --------------------------------------------------------------------------------

    @property
    def off(self) -> str:
        """Why there are no servers at all, one clause; empty when there are."""
        if self.plan.new_process:
            return self.plan.new_process
        suite_s = self.plan.baseline.suite_s
        return f"the tests take {suite_s:.0f} s" if suite_s > LONG_SUITE_S else ""

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that checks of this baseline use, as far as is known."""
        return (TESTS, REPLAY) if self.plan.baseline.calls and self.plan.compare_values else (TESTS,)

    @property
    def has_gate(self) -> bool:
        """Whether there are targets, before whose files a template can stop."""
        return bool(self.plan.runner.targets)

    @property
    def start_s(self) -> float:
        """Seconds that the way to a point may take."""
        return _START_S + _START_FACTOR * self.plan.baseline.wall_ns / 1e9

    def obstacle(self, key: Key) -> str:
        """Return why a point cannot be used now, one clause; empty when it can."""
        before = self.unfit.get((key[0], ForkPoint.IMPORTED), "") if key[1] is ForkPoint.COLLECTED else ""
        why = self.off or self.unfit.get(key, before)
        return why or (
            "" if self._answers.of(key) == "" else "it has not been compared with a new process yet"
        )

    def wants(self, key: Key) -> bool:
        """Say whether a server is of use."""
        return not self.unfit.get(key)

    def died(self, key: Key, why: str) -> None:
        """Note that a template died; after some times its point is given up."""
        self._deaths[key] += 1
        if self._deaths[key] >= _MOST_DEATHS:
            self.unfit[key] = f"{why[:1].lower()}{why[1:].removesuffix('.')}"

    def is_unfit(self, key: Key, why: str) -> None:
        """Note that no template can be used at a point, whatever the slot."""
        if key not in self.unfit and key[1] is not ForkPoint.COLLECTED:
            self._new_warnings.append(f"Warm servers are not used at {key[1]}: {why}.")
        self.unfit[key] = why
        self._answers.note(key, why)

    async def verify(self, servers: SlotServers, key: Key, slot: Slot) -> bool:
        """Compare a point with the baseline, unless that is done already; say whether anything was run."""
        server = servers.at(key)
        known = self.unfit.get(key) or self._answers.of(key) is not None or key in self._verifying
        if not self.is_complete or known or server is None or servers.is_outdated(key):
            return False
        self._verifying[key] = ended = anyio.Event()
        try:
            why, unkept = await verify(self.plan, slot.workspace, key[0], server)
        finally:
            del self._verifying[key]
            ended.set()
        if why and servers.at(key) is not server:
            return True  # it was ended by us
        if why and not server.rss_bytes():
            self.died(key, why)
        elif why:
            self.is_unfit(key, f"the baseline is not the same there: {why.removesuffix('.')}")
        else:
            self._answers.note(key, "", unkept)
        return True

    @property
    def unkept(self) -> frozenset[str]:
        """Names of traces that the baseline does not repeat in some fork: no candidate is asked for them."""
        return self._answers.unkept

    # --- for the run --------------------------------------------------------------------------

    async def prepare(self, slot: Slot) -> SlotServers | None:
        """Make a slot's servers ready; the slot is held and clean. `None`: there are none.

        Raises:
            SlotBroken: what the templates left cannot be undone.
        """
        place = _place(slot)
        known = self._slots.get(place)
        if place != _ALL and known is not None and known.slot is not slot:  # it was replaced
            await self.dismiss(slot.number)
        if self.off:
            return None
        self._served.add(slot.number)
        if self._is_long and self._turns[place].locked():
            return known  # somebody else makes them ready: meanwhile checks get a new process
        async with self._turns[place]:
            servers = await self._standing_for(place, slot)
            if servers is None:
                return None
            await servers.start()
        await servers.verify(slot)
        while place == _ALL and self._verifying and not self._is_long:
            await next(iter(self._verifying.values())).wait()
        if self._answers.are_new:
            await anyio.to_thread.run_sync(self._answers.write)
        return servers

    async def _standing_for(self, place: int, slot: Slot) -> SlotServers | None:
        """Return the servers of a place, in a slot of their own where they serve all."""
        if place == _ALL and self._pool is not None:
            try:
                slot = await self._pool.servers_slot()
            except EnvironmentFault as fault:
                self._new_warnings.append(f"Warm servers are not used, for want of a slot. {fault}")
                return None
        servers = self._slots.get(place)
        if servers is None or servers.slot is not slot:
            if servers is not None:
                await servers.close()
            servers = self._slots[place] = SlotServers(self, slot)
        return servers

    async def warm_up(self, pool: SlotPool, slots: int) -> None:
        """Make the servers of some slots ready, all at once, before the first candidate comes.

        A longer suite is verified when the first candidate is there, while others are checked without. Where
        there is nothing to verify, servers that serve one slot are started when it gets its first candidate.
        """
        if not slots or self.off or (self.is_complete and self._is_long):
            return
        is_shared, verifies = _place(pool.baseline) == _ALL, self.is_complete and not self._all_is_known()
        async with anyio.create_task_group() as group:
            if is_shared and not verifies:
                group.start_soon(self._start_shared, pool.baseline)
            elif verifies or not self.is_complete:
                for _ in range(min(slots, pool.size)):
                    group.start_soon(self._warm_up_one, pool)

    @property
    def _is_long(self) -> bool:
        return self.plan.baseline.suite_s > _SHORT_SUITE_S

    def _all_is_known(self) -> bool:
        return all(map(self._is_known, self.modes))

    def _is_known(self, mode: str) -> bool:
        """Say whether a mode's points have been looked at; nothing is collected where nothing is imported."""
        first = self._answers.of((mode, ForkPoint.IMPORTED))
        second = self._answers.of((mode, ForkPoint.COLLECTED)) if self.has_gate else ""
        return bool(first) or (first is not None and second is not None)

    async def _start_shared(self, slot: Slot) -> None:
        async with self._turns[_ALL]:
            servers = await self._standing_for(_ALL, slot)
            if servers is not None:
                with suppress(SlotBroken):  # it is replaced when they are needed
                    await servers.start()

    async def _warm_up_one(self, pool: SlotPool) -> None:
        async with pool.acquire() as slot:
            with suppress(SlotBroken):  # the pool replaces it
                await self.prepare(slot)

    def of(self, slot: Slot) -> SlotServers | None:
        """Return the servers that serve a slot; `None`: there are none."""
        servers = self._slots.get(_place(slot))
        is_its = servers is not None and (slot.workspace.mounted or servers.slot is slot)
        return servers if is_its else None

    async def dismiss(self, number: int) -> None:
        """End the servers of a slot that is about to be, or has been, replaced."""
        async with self._turns[number]:
            servers = self._slots.pop(number, None)
            if servers is not None:
                await servers.close()

    async def close(self) -> None:
        """End all servers; `prepare` starts them again. Cancelling waits for it."""
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for place in tuple(self._slots):
                    group.start_soon(self.dismiss, place)

    @property
    def bytes_of_a_slot(self) -> int:
        """Resident memory of servers that one slot takes: its own, or its part of those that serve all."""
        largest = max((servers.rss_bytes for servers in self._slots.values()), default=0)
        return largest // max(1, len(self._served)) if _ALL in self._slots else largest

    def warnings(self) -> list[str]:
        """Return what a person should know and was not told yet, one sentence each."""
        told, self._new_warnings = self._new_warnings, []
        return told

    def tally(self) -> Counter[str]:
        """Return how many servers were started and restarted, and how many forks they made, in this run."""
        forks = sum(servers.forks for servers in self._slots.values())
        return self.count + Counter(forks=forks) - self._before

    def reasons(self) -> tuple[str, ...]:
        """Return why points cannot be used, one clause each."""
        return tuple(dict.fromkeys(f"{point} of {mode}: {why}" for (mode, point), why in self.unfit.items()))


def _place(slot: Slot) -> int:
    """Return by which number the servers of a slot are known."""
    return _ALL if slot.workspace.mounted else slot.number


def _files(plan: CheckPlan) -> tuple[str, ...]:
    """Return what pytest is told to collect: a template cannot be told anything else."""
    return test_files(plan.baseline.selected, plan.baseline.rootdir)


class ForkPointStore:
    """Findings about the fork points of one baseline, kept beside it.

    Attributes:
        unkept: as in `check.comparison.call_comparison.ComparisonRules`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[Key, str] = {}
        self._written: dict[Key, str] = {}
        self.unkept: frozenset[str] = frozenset()

    def of(self, key: Key) -> str | None:
        """Return why a point cannot be used, empty where it can; `None`: it is not known."""
        return self._known.get(key)

    def note(self, key: Key, why: str, unkept: frozenset[str] = frozenset()) -> None:
        """Take an answer."""
        self._known[key] = why
        self.unkept |= unkept

    @property
    def are_new(self) -> bool:
        """Say whether there is something to write."""
        return self._known != self._written

    def read(self) -> dict[Key, str]:
        """Read what earlier runs found out; what cannot be read is not known. Blocks."""
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            read = {(mode, ForkPoint(point)): str(why) for mode, point, why in data["points"]}
            self.unkept |= frozenset(map(str, data["unkept"]))
        except (OSError, LookupError, ValueError, TypeError):
            read = {}
        self._known, self._written = read | self._known, read
        return dict(self._known)

    def write(self) -> None:
        """Blocks; what cannot be written is found out again."""
        self._written = dict(self._known)
        points = [[mode, point.value, why] for (mode, point), why in sorted(self._known.items())]
        data = {"points": points, "unkept": sorted(self.unkept)}
        with suppress(OSError):
            write_atomically(self._path, json.dumps(data).encode())


#: Returns the servers of a baseline that is still a draft.
FleetFor = Callable[[Baseline], Awaitable[Fleet]]
#: Returns how many slots will get a candidate.
SlotsFor = Callable[[Baseline], int]


class ServerWarmup:
    """Starts servers in the slots of a pool during a preflight."""

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

    async def verify(self, draft: Baseline, /) -> None:
        """Start all servers of a baseline that will hardly change, and verify them."""
        fleet = await self._fleet_for(draft)
        await fleet.complete(fleet.plan)
        self._group.start_soon(fleet.warm_up, self._pool, self._slots_for(draft))
