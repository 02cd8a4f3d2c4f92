"""What candidates are held against: a baseline from memory, from disk or from a preflight; its servers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel import __version__
from codeflash_parallel.baseline.baseline_store import load, one_learner, save
from codeflash_parallel.baseline.preflight.baseline_findings import SelectionScope
from codeflash_parallel.baseline.preflight.baseline_validator import MissingPrerequisite
from codeflash_parallel.baseline.preflight.preflight import Preflight, PreflightDepth
from codeflash_parallel.baseline.preflight.step_reporter import StepReporter
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules
from codeflash_parallel.check.comparison.float_tolerance import Tolerance
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    SelectedRun,
    hashed,
    run_guest,
    selected_run_spec,
)
from codeflash_parallel.config.environment_allowlist import withheld_names
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.process.environment import HASH_SEEDS, identity
from codeflash_parallel.result.candidate.candidate_model import name_of
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.runtime_protocols import ProcessLimits
from codeflash_parallel.run.setup.evaluator_setup import Setup, explained, key_of
from codeflash_parallel.run.setup.machine_shares import CheckCapacity, memory_limit_of, slots_used
from codeflash_parallel.run.setup.project_interpreter import environment_stamp
from codeflash_parallel.run.target_functions import named_callable
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.warm.server_warmup import ServerWarmup
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

#: A check's CPU deadline is the setting plus this many times the baseline's CPU time.
_CPU_FACTOR = 5
#: A check's wall deadline is this many times its CPU deadline: a starved process is not a hanging one.
_WALL_FACTOR = 4
#: Warming up is a convenience: a suite that takes longer than this is not worth it.
_WARM_UP_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineRequest:
    """What a run wants to know of the baseline.

    Attributes:
        guest: what all guests of the run have in common.
        candidates: how many are known to come.
        depth: what is wanted; a baseline that has more will do.
        steps: tells what is done at the moment.
    """

    guest: RunnerConfig
    snapshot: Snapshot
    pool: SlotPool
    candidates: int
    depth: PreflightDepth
    steps: StepReporter


class BaselineManager:
    """Knows the baselines of one evaluator, and keeps the servers of the last one."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._known: dict[str, Baseline] = {}
        self._fleet: Fleet | None = None
        self._fleet_of = ""
        self._warm: SlotPool | None = None

    async def baseline(self, demand: BaselineRequest) -> tuple[CheckPlan, Fleet]:
        """Return how candidates are checked, and servers.

        Raises:
            EnvironmentFault: red, or the tests cannot be run.
        """
        if self._fleet is not None:
            self._fleet.begin()
        folder, found = await self._found(demand)
        if found is None:
            async with one_learner(folder):
                found = await anyio.to_thread.run_sync(load, folder)
                found = found or await self._learn(demand, folder)
        # Not this run's seed where another run has made it: what is random came out otherwise there.
        guest = replace(demand.guest, seed=found.seed)
        judge = self._judge(guest, demand.snapshot, demand.pool)
        plan = self._plan(guest, demand.snapshot, found, judge)
        fleet = await self._ready(plan, demand, folder)
        self._known[folder.name] = found
        return plan, fleet

    async def _found(self, demand: BaselineRequest) -> tuple[Path, Baseline | None]:
        """Return the baseline that is known, and where it is kept; the most that there may be comes first."""
        for depth in (PreflightDepth.CALLS, demand.depth):
            folder = self._setup.home / "baselines" / self._key(demand.guest, demand.snapshot, depth)
            found = self._known.get(folder.name) or await anyio.to_thread.run_sync(load, folder)
            if found is not None:
                break
        return folder, found

    async def _ready(self, plan: CheckPlan, demand: BaselineRequest, folder: Path) -> Fleet:
        """Return the servers for a plan, which stand in as many slots as will be used."""
        fleet = await self._fleet_for(plan, demand.pool, folder)
        if fleet.off:
            await self.share_bytecode(plan, demand.pool)
        await fleet.complete(plan)
        demand.steps.begin("warm servers are started")
        await fleet.warm_up(demand.pool, self._slots_for(demand, plan.baseline))
        return fleet

    async def _learn(self, demand: BaselineRequest, folder: Path) -> Baseline:
        """Run the preflight; servers are started as soon as it is known what they are for."""

        async def fleet_for(draft: Baseline) -> Fleet:
            return await self._fleet_for(
                self._plan(demand.guest, demand.snapshot, draft), demand.pool, folder
            )

        slots_for, spare = partial(self._slots_for, demand), int(self._setup.shares.cores) - 1
        async with anyio.create_task_group() as group:
            warmth = ServerWarmup(fleet_for, slots_for, demand.pool, group, spare=spare)
            found = replace(await self._preflight(demand, folder, warmth), seed=demand.guest.seed)
            await anyio.to_thread.run_sync(save, folder, found)
            self._warm = demand.pool
        return found

    async def _preflight(self, demand: BaselineRequest, folder: Path, warmth: ServerWarmup) -> Baseline:
        guest, snapshot, slot = demand.guest, demand.snapshot, demand.pool.baseline
        preflight = Preflight(
            guest=guest,
            slot=slot,
            sources=self._sources(guest, snapshot),
            inputs=folder / "inputs",
            warmth=warmth,
            steps=demand.steps,
            depth=demand.depth,
            judge=self._judge(guest, snapshot, demand.pool),
            choice=SelectionScope.ALL if self._setup.settings.no_select else SelectionScope.NOTICING,
            absent=self._absent(snapshot),
            files=tuple(self._setup.mirror.paths(snapshot)),
        )
        try:
            return await preflight.run()
        except EnvironmentFault as fault:
            raise await explained(fault, guest, slot.workspace) from fault

    def _slots_for(self, demand: BaselineRequest, baseline: Baseline) -> int:
        shares = self._setup.shares
        room = CheckCapacity(slots=demand.pool.size, cores=shares.cores, memory_bytes=shares.free_bytes)
        return slots_used(room, baseline, demand.candidates)

    # --- servers ---------------------------------------------------------------------------------------

    async def _fleet_for(self, plan: CheckPlan, pool: SlotPool, folder: Path) -> Fleet:
        """Return the servers of a baseline: those that stand, if they were started for it."""
        if self._fleet is None or self._fleet_of != folder.name:
            await self.dismiss_servers()
            self._fleet = Fleet(launcher=self._setup.launcher, plan=plan, folder=folder)
            self._fleet_of = folder.name
        await self._fleet.draft(plan, pool)
        return self._fleet

    async def dismiss_servers(self) -> None:
        """End the servers."""
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()

    async def share_bytecode(self, plan: CheckPlan, pool: SlotPool) -> None:
        """Run the baseline's tests once in new slots, so that everybody starts with its bytecode.

        A preflight has done it already. Servers do it for their own slot, not for the baseline's, which
        must not differ from the others in a race.
        """
        if self._warm is pool:
            return
        workspace = pool.baseline.workspace
        spec = selected_run_spec(plan.guest, workspace, plan.baseline, SelectedRun())
        await run_guest(plan.guest, workspace, spec, ProcessLimits(wall_s=_WARM_UP_S))
        await pool.share_bytecode()
        self._warm = pool

    # --- what follows from the setup -------------------------------------------------------------------

    def _plan(
        self, guest: RunnerConfig, snapshot: Snapshot, baseline: Baseline, judge: AcceptFunction | None = None
    ) -> CheckPlan:
        settings = self._setup.settings
        memory_bytes = memory_limit_of(self._setup.shares, settings, baseline.rss_bytes)
        cpu_s = settings.timeout + _CPU_FACTOR * baseline.longest_cpu_ns / 1e9
        return CheckPlan(
            guest=guest,
            baseline=baseline,
            limits=ProcessLimits(cpu_s=cpu_s, wall_s=_WALL_FACTOR * cpu_s, memory_bytes=memory_bytes),
            compare_values=settings.compare is ComparisonMode.VALUES,
            sources=self._sources(guest, snapshot),
            new_process=settings.new_process,
            rules=ComparisonRules(
                tolerance=Tolerance(rtol=settings.rtol, atol=settings.atol),
                strict=settings.strict,
                judge=settings.accept,
            ),
            judge=judge,
        )

    def _judge(self, guest: RunnerConfig, snapshot: Snapshot, pool: SlotPool) -> AcceptFunction | None:
        """Return the user's judge, if there is one.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        place = self._setup.settings.accept
        if not place or not guest.targets:
            return None
        source = self._setup.mirror.read(snapshot, place.partition("::")[0])
        given = named_callable("accept", place, source, guest.targets)
        workspace = hashed(pool.baseline.workspace, HASH_SEEDS[0])
        return AcceptFunction(
            place=place, given=given, guest=guest, workspace=workspace, turn=pool.baselines_turn
        )

    def _absent(self, snapshot: Snapshot) -> MissingPrerequisite:
        withheld = withheld_names(os.environ, self._setup.settings.pass_env)
        return MissingPrerequisite(ignored=snapshot.ignored_left_out, withheld=withheld)

    def _sources(self, guest: RunnerConfig, snapshot: Snapshot) -> dict[str, bytes]:
        return {t.path: self._setup.mirror.read(snapshot, t.path) or b"" for t in guest.targets}

    def ground(self, guest: RunnerConfig, snapshot: Snapshot) -> str:
        """Name the circumstances under which candidates are judged."""
        return self._key(guest, snapshot, PreflightDepth.CALLS)

    def _key(self, guest: RunnerConfig, snapshot: Snapshot, depth: PreflightDepth) -> str:
        """Name a baseline by everything that it depends on."""
        setup = self._setup
        return name_of(
            __version__,
            guest.directory.name,
            snapshot.tree,
            str(setup.repository.project),
            environment_stamp(setup.interpreter),
            [str(target) for target in guest.targets],
            [guest.request.paths, guest.request.keyword, guest.request.marker],
            setup.settings.no_select,
            depth.value,
            identity(os.environ, setup.settings.pass_env),
            key_of(setup.isolation.policy),
            guest.encoders,
            setup.settings.accept,
        )
