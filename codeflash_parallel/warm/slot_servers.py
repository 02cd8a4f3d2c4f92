"""The warm servers of one slot, or of all: started in a clean slot, replaced when they are worn.

They stand at fork points (`check.dispatch.fork_points`): `imported`, and with targets `collected`, for both
modes. What cannot be used has a reason, and checks get a new process instead. A server is verified before it
is used: in its forks the unchanged snapshot must give what the preflight found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from random import SystemRandom
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules, differing
from codeflash_parallel.check.comparison.outcome_comparison import (
    Outcomes,
    TestKey,
    compare_observed,
    compare_tests,
)
from codeflash_parallel.check.comparison.value_comparison import compare_calls
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.dispatch.run_dispatch import template_spec
from codeflash_parallel.check.integrity.canaries import Canary, arm, draw
from codeflash_parallel.check.integrity.process_faults import leak, machinery_fault, unbelievable
from codeflash_parallel.check.session.runner_session import (
    RunnerSession,
    SelectedRun,
    Tracebacks,
    WrapMode,
    read_session,
    replay_spec,
    selected_run_spec,
)
from codeflash_parallel.result.errors import ungrouped
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import ChildCommand, ServerGone, WarmProcess, Workspace
from codeflash_parallel.sandbox.runner_command import ControlChannelUse, start_command, write_spec
from codeflash_parallel.warm.warm_server import WarmServer, start_server
from codeflash_parallel.workspace.slot_pool import Slot

if TYPE_CHECKING:
    from codeflash_parallel.warm.server_fleet import Fleet

TESTS, REPLAY = "tests", "replay"
#: A template lives as long as its run; nothing else ends one whose evaluator does not close it.
_LIFE_S = 24 * 3600.0
#: Seconds after which a template is replaced: what depends on the time of day at import must not stay as it
#: was for a whole night.
LONGEST_S = 1_800.0
#: Mode and point.
Key = tuple[str, ForkPoint]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Standing:
    """A server, and the spec of its first process."""

    server: WarmServer
    spec: Mapping[str, Any]
    since_s: float

    @property
    def is_worn(self) -> bool:
        """Whether it is gone, or too old."""
        return not self.server.rss_bytes() or monotonic() - self.since_s >= LONGEST_S


class SlotServers:
    """Servers that were started in one slot (`check.dispatch.run_dispatch.WarmServers`). Made by `Fleet`.

    Attributes:
        slot: whose tree the templates see; a fork sees that of its order.
        records: `collected` of the tests stands where calls are recorded.
    """

    def __init__(self, fleet: Fleet, slot: Slot) -> None:
        self.slot = slot
        self._fleet = fleet
        self._standing: dict[Key, _Standing] = {}
        # Where all slots are seen at one path, they share pytest's bytecode, too.
        self._collected = slot.workspace.mounted is not None
        self.records = False
        self._why = ""

    async def server(self, mode: str, point: ForkPoint, /) -> WarmProcess | None:
        """Return the server that stands at a point, if it may be used."""
        key = (mode, point)
        self._why = self._fleet.obstacle(key)
        if not self._why and (key not in self._standing or self.is_outdated(key)):
            self._why = "it has not been started for this slot"
        return None if self._why else self._standing[key].server

    def is_outdated(self, key: Key) -> bool:
        """Say whether a server was started before it was known whether calls are to be recorded there."""
        return key == (TESTS, ForkPoint.COLLECTED) and self.records != self._fleet.plan.watches

    def at(self, key: Key) -> WarmProcess | None:
        """Return the server that stands at a point, verified or not."""
        standing = self._standing.get(key)
        return standing.server if standing else None

    def why(self) -> str:
        """Return why the last answer was `None`, one clause."""
        return self._why

    async def start(self) -> None:
        """Start what is missing, and replace what is worn; their slot is clean before and after.

        Raises:
            SlotBroken: what the templates left cannot be undone.
        """
        for key in [key for key, standing in self._standing.items() if standing.is_worn]:
            self._fleet.count["restarts"] += 1
            await self._drop(key)
        if self._fleet.is_complete and self.records != self._fleet.plan.watches:
            self.records = self._fleet.plan.watches
            if (TESTS, ForkPoint.COLLECTED) in self._standing:
                await self._drop((TESTS, ForkPoint.COLLECTED))
        for start_missing in (self._start_first, self._start_second):
            await self._started(start_missing)

    async def _started(self, start_missing: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        before = self._fleet.count["servers"]
        with ungrouped():
            async with anyio.create_task_group() as group:
                for mode in self._fleet.modes:
                    group.start_soon(start_missing, mode)
        if self._fleet.count["servers"] != before:
            await settle(self.slot)

    async def verify(self, slot: Slot) -> None:
        """Verify what stands and nobody else verifies; the slot is clean before and after.

        Raises:
            SlotBroken: what was run there cannot be undone.
        """
        for key in tuple(self._standing):
            if await self._fleet.verify(self, key, slot):
                await settle(slot)
                # All tests have been run: their bytecode is there now.
                self._collected = self._collected or key[0] == TESTS

    # --- starting --------------------------------------------------------------------------------------

    async def _start_first(self, mode: str) -> None:
        key, fleet = (mode, ForkPoint.IMPORTED), self._fleet
        if self._lacks_first(mode):
            spec = template_spec(fleet.plan.runner, self.slot.workspace, fleet.plan.baseline, *key)
            starting = start_server(fleet.launcher, self._command(spec), fleet.start_s)
            await self._stand(key, spec, starting)

    async def _start_second(self, mode: str) -> None:
        """Fork `collected` from `imported`; that of the tests once a slot for the bytecode alone."""
        if not self._lacks_second(mode):
            return
        key, before = (mode, ForkPoint.COLLECTED), self._standing[mode, ForkPoint.IMPORTED]
        records = mode == TESTS and self.records
        spec = {**before.spec, "wrap": WrapMode.DIGEST.value} if records else before.spec
        path = write_spec(self.slot.workspace, spec, self._fleet.plan.runner.directory)
        self._collected = self._collected or mode == TESTS
        advancing = before.server.advance(ForkPoint.COLLECTED.value, self._fleet.start_s, path)
        await self._stand(key, spec, advancing)

    def _lacks_first(self, mode: str) -> bool:
        key = (mode, ForkPoint.IMPORTED)
        return key not in self._standing and not self._fleet.unfit.get(key)

    def _lacks_second(self, mode: str) -> bool:
        """Say whether `imported` stands and `collected` is missing."""
        key = (mode, ForkPoint.COLLECTED)
        if key in self._standing or (mode, ForkPoint.IMPORTED) not in self._standing:
            return False
        for_bytecode = mode == TESTS and self._fleet.is_complete and not self._collected
        return self._fleet.has_gate and (self._fleet.wants(key) or for_bytecode)

    def _command(self, spec: Mapping[str, Any]) -> ChildCommand:
        fleet, workspace = self._fleet, self.slot.workspace
        limits = replace(fleet.plan.limits, wall_s=_LIFE_S, cpu_s=0.0)
        return start_command(
            workspace, spec, limits, fleet.plan.runner.directory, control=ControlChannelUse.LINES
        )

    async def _stand(self, key: Key, spec: Mapping[str, Any], starting: Awaitable[WarmServer]) -> None:
        try:
            server = await starting
        except ServerGone as gone:
            self._fleet.died(key, str(gone))
            return
        self._fleet.count["servers"] += 1
        self._standing[key] = _Standing(server=server, spec=spec, since_s=monotonic())
        if server.ready.unfit:
            self._fleet.is_unfit(key, server.ready.unfit)
        if not self._fleet.wants(key):
            await self._drop(key)

    async def _drop(self, key: Key) -> None:
        standing = self._standing.pop(key, None)
        if standing is not None:
            self._fleet.count["forks"] += standing.server.forks
            await standing.server.close()

    async def close(self) -> None:
        """End all servers; they are started again when they are needed."""
        async with anyio.create_task_group() as group:
            for key in tuple(self._standing):
                group.start_soon(self._drop, key)

    @property
    def forks(self) -> int:
        """Number of checks that the standing servers have forked."""
        return sum(standing.server.forks for standing in self._standing.values())

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the servers; those of one mode share nearly all of theirs."""
        sizes: Counter[str] = Counter()
        for (mode, _), standing in self._standing.items():
            sizes[mode] = max(sizes[mode], standing.server.ready.rss_bytes)
        return sizes.total()


async def settle(slot: Slot) -> None:
    """Keep the bytecode that the baseline's code made, and undo the rest: what every candidate finds.

    Raises:
        SlotBroken: it cannot be undone.
    """
    await slot.accept_bytecode()
    await slot.discard()


class ServerVerification(NamedTuple):
    """The result of verifying a server.

    Attributes:
        why: the difference; empty: none.
        unkept: names of traces that the baseline itself does not repeat there: they compare nothing.
    """

    why: str
    unkept: frozenset[str] = frozenset()


async def verify(plan: CheckPlan, workspace: Workspace, mode: str, server: WarmProcess) -> ServerVerification:
    """Run the unchanged snapshot through a server and return what differs from the preflight.

    Cancelling kills what runs.

    Args:
        plan: of the run.
        workspace: where it is run; it holds the unchanged snapshot.
        mode: ``tests`` or ``replay``.
        server: it.
    """
    baseline = plan.baseline
    observed = baseline.observed if plan.watches else {}
    canaries: tuple[Canary, ...] = ()
    if mode == "replay":
        spec = replay_spec(plan.runner, baseline.inputs, (), tuple(baseline.calls))
    else:
        canaries = draw(SystemRandom(), baseline.selected, baseline.places)
        spec = _tests_spec(plan, workspace, WrapMode.DIGEST if observed else WrapMode.NONE)
    spec, arms = arm(workspace, spec, canaries)
    path = write_spec(workspace, spec, plan.runner.directory)
    try:
        session = read_session(await server.run(path, plan.limits), arms)
    except ServerGone as gone:
        return ServerVerification(f"its server is gone ({gone})")
    fault = _fault(baseline, session)
    if fault:
        return ServerVerification(fault)
    return (
        _calls(baseline, session)
        if mode == "replay"
        else ServerVerification(_tests(baseline, session, observed))
    )


def _tests_spec(plan: CheckPlan, workspace: Workspace, wrap: WrapMode) -> dict[str, Any]:
    """Return the spec of a screening that ends with the last test."""
    run = SelectedRun(wrap=wrap, tracebacks=Tracebacks.NATIVE)
    return selected_run_spec(plan.runner, workspace, plan.baseline, run)


def _fault(baseline: Baseline, session: RunnerSession) -> str:
    """Return what is wrong with the process or with the bytes that it compiled."""
    if session.report.unswappable:
        return session.report.unswappable
    fault = machinery_fault(session) or (None if baseline.leaks else leak(session.exit))
    if fault is not None:
        return fault.reason
    sources = session.report.sources
    wrong = [path for path, digest in baseline.loaded.items() if sources.get(path, frozenset()) - {digest}]
    return f"the {wrong[0]} that ran is not the snapshot's" if wrong else ""


def _tests(baseline: Baseline, session: RunnerSession, observed: Mapping[TestKey, Outcomes]) -> str:
    compared = compare_tests(baseline.expected, session.report)
    if compared.code is not Code.OK:
        return compared.reason
    fault = unbelievable(session, baseline)
    if fault is not None:
        return fault.reason
    return compare_observed(observed, session.report, baseline.targets).reason


def _calls(baseline: Baseline, session: RunnerSession) -> ServerVerification:
    known = replace(baseline.known, derived={}, breaks={})
    compared = compare_calls(known, session.report)
    unkept = frozenset(
        one.trace for one in differing(known, session.report, {}) if one.is_hint(ComparisonRules())
    )
    return ServerVerification("" if compared.code is Code.OK else compared.reason, unkept)
