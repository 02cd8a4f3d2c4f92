"""Resources that outlive one `evaluate` call: launcher, repository, mirror, slots, baselines, servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel import __version__
from codeflash_parallel.baseline.baseline_store import load, load_or_learn, read_bytecode, write_bytecode
from codeflash_parallel.baseline.preflight import MissingPrerequisite, Preflight
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.comparison.accept_function import AcceptFunction
from codeflash_parallel.check.comparison.call_comparison import ComparisonRules, Tolerance
from codeflash_parallel.check.session.runner_session import (
    RunnerConfig,
    first_run_spec,
    hashed,
    run_session,
)
from codeflash_parallel.config.environment import HASH_SEEDS, identity, withheld_names
from codeflash_parallel.config.settings import ComparisonMode, Settings
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.candidate_model import name_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.isolation_policy import (
    IsolationLevel,
    IsolationPolicy,
    missing_rights,
    reached_limits,
)
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.run_targets import named_callable
from codeflash_parallel.run.setup.evaluator_setup import Setup, checks_at_once, memory_limit_of, set_up
from codeflash_parallel.run.setup.project_interpreter import environment_stamp
from codeflash_parallel.sandbox.runner_command import compile_command, compiled_mark, install_runner
from codeflash_parallel.warm.server_fleet import Fleet, ServerWarmup
from codeflash_parallel.workspace.cleanup import recover
from codeflash_parallel.workspace.git.git_client import find_repository, load_reader
from codeflash_parallel.workspace.slot_pool import SlotPool, open_pool
from codeflash_parallel.workspace.snapshot.mirror import open_mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest

#: Compiling the runner is a convenience: it is not waited for longer than this.
_COMPILE_S = 120.0


class EvaluatorResources:
    """Everything that calls of one evaluator share. Made by `EvaluatorResources.open`.

    Attributes:
        pinned: a snapshot that was taken earlier, and the mirror that holds it; it is evaluated instead of
            the user's tree.
        setup: what never changes.
        baselines: knows baselines, and keeps their servers.
    """

    def __init__(self, setup: Setup, *, once: bool = False) -> None:
        self.setup = setup
        self.baselines = BaselineManager(setup, once=once)
        self.pinned: tuple[Snapshot, Path] | None = None
        self._pool: SlotPool | None = None
        self._pool_of: object = None
        self._pool_stack = AsyncExitStack()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        settings: Settings,
        quiet: HostLock | None = None,
        sharers: int = 1,
        *,
        once: bool = False,
        installed: Path | None = None,
    ) -> AsyncIterator[EvaluatorResources]:
        """Find the repository, clean up after dead runs, start the launcher; leaving undoes all of it.

        Args:
            quiet: none by default.
            sharers: how many evaluators share the machine's memory.
            once: there is one run: servers that only that could use must be worth it.
            installed: root of the checkout from which the environment's editable packages come, if it is not
                that of the repository.

        Raises:
            UsageError: not a repository, a bad interpreter.
            EnvironmentFault: no git, no room, an unfit machine.
        """
        cache = cache_root(settings)
        repository = await anyio.to_thread.run_sync(find_repository, path)
        repository = repository._replace(installed=installed or repository.root)
        async with AsyncExitStack() as stack:
            launcher = await stack.enter_async_context(open_launcher())
            await recover(cache)
            mirror = await stack.enter_async_context(open_mirror(cache, repository))
            runner_dir = await anyio.to_thread.run_sync(install_runner, cache)
            make = partial(
                set_up, settings, repository, launcher, mirror, runner_dir, quiet or HostLock(None)
            )
            resources = cls(await anyio.to_thread.run_sync(partial(make, sharers)), once=once)
            try:
                yield resources
            finally:
                await resources.close()

    async def close(self) -> None:
        """End the servers and remove the slots."""
        await self.baselines.dismiss_servers()
        stack, self._pool_stack, self._pool = self._pool_stack, AsyncExitStack(), None
        with anyio.CancelScope(shield=True):
            await stack.aclose()

    async def snapshot(self) -> Snapshot:
        """Return the pinned snapshot, or a new one of the user's tree (or of the base that was asked for)."""
        if self.pinned is not None:
            await self.setup.mirror.fetch(*self.pinned)
            return self.pinned[0]
        return await self.setup.mirror.snapshot(SnapshotRequest.of(self.setup.settings))

    async def same_snapshot(self, wanted: Snapshot, warn: Callable[[str], None]) -> Snapshot:
        """Return the snapshot that a run had. The user's tree may have changed since; then that is said.

        Raises:
            EnvironmentFault: `SNAPSHOT_GONE`: the mirror has lost it, and the tree is another one now.
        """
        with suppress(UsageError, EnvironmentFault):  # a base that is gone
            if (await self.snapshot()).commit == wanted.commit:
                return wanted
        if not await self.setup.mirror.holds(wanted):
            raise EnvironmentFault(
                "SNAPSHOT_GONE",
                f"The snapshot {wanted.commit[:12]} of the run is gone, and the tree is another one now.",
                "Evaluate again.",
            )
        self.setup.mirror.adopt(wanted, SnapshotRequest.of(self.setup.settings))
        warn(f"The tree has changed since the run began: it continues with snapshot {wanted.commit[:12]}.")
        return wanted

    async def pool(self, snapshot: Snapshot, run_id: str) -> SlotPool:
        """Return slots that hold a snapshot: those of the last call, if it and the variables are the same."""
        setup = self.setup
        wanted = (snapshot.commit, identity(os.environ, setup.settings.pass_env))
        if self._pool is None or self._pool_of != wanted:
            await self.close()
            self._pool = await self._pool_stack.enter_async_context(
                open_pool(
                    setup.mirror,
                    snapshot,
                    size=setup.shares.slots,
                    interpreter=setup.interpreter,
                    run_id=run_id,
                    environment_for=setup.environment,
                    isolation=setup.isolation,
                )
            )
            self._pool_of = wanted
        return self._pool

    async def preload(self) -> None:
        """Make ready what the first check needs, beside other checks of the machine."""
        async with self.setup.quiet.shared(), anyio.create_task_group() as group:
            group.start_soon(self._compile_runner)
            group.start_soon(anyio.to_thread.run_sync, load_reader)

    async def _compile_runner(self) -> None:
        """Compile the runner once for each interpreter: half of the CPU time of its every start."""
        setup = self.setup
        done = compiled_mark(setup.interpreter, setup.runner_dir)
        if not done.exists():
            environment, limits = setup.environment(setup.runner_dir, 0), ProcessLimits(wall_s=_COMPILE_S)
            command = compile_command(setup.interpreter, environment, limits, setup.runner_dir)
            await setup.launcher.run(command)
            done.touch()


#: A check's CPU deadline is the setting plus this many times the baseline's CPU time.
_CPU_FACTOR = 5
#: A check's wall deadline is this many times its CPU deadline: a starved process is not a hanging one.
_WALL_FACTOR = 4
#: Limits of a red baseline's tests without isolation.
_UNCONFINED = ProcessLimits(wall_s=3600.0)
_BAD = ("failed", "error")
_ANY = "Grant it by --allow-network, --allow-write PATH or --pass-env NAME"


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineRequest:
    """A request for a baseline.

    Attributes:
        runner: what all runners of the run have in common.
        candidates: how many are known to come.
        are_all: no others will come.
        replays: captured calls are wanted; a baseline that has them will do in any case.
        steps: tells what is done at the moment.
    """

    runner: RunnerConfig
    snapshot: Snapshot
    pool: SlotPool
    candidates: int
    are_all: bool
    replays: bool
    steps: StepReporter


class BaselineManager:
    """Knows the baselines of one evaluator, and keeps the servers of the last one."""

    def __init__(self, setup: Setup, *, once: bool = False) -> None:
        self._setup, self._once = setup, once
        self._fleet: Fleet | None = None
        self._fleet_of = ""
        self._warm: SlotPool | None = None

    async def baseline(self, demand: BaselineRequest) -> tuple[CheckPlan, Fleet]:
        """Return the plan of the checks, and the servers.

        Raises:
            EnvironmentFault: red, or the tests cannot be run.
        """
        if self._fleet is not None:
            self._fleet.begin()
        for replays in (True, demand.replays):
            ground = self.ground(demand.runner, demand.snapshot, replays=replays)
            folder = self._setup.home / "baselines" / ground
            found = await anyio.to_thread.run_sync(load, folder)
            if found is not None:
                break
        if found is None:
            found = await load_or_learn(folder, partial(self._learn, demand, folder))
        if self._warm is not demand.pool:  # else a preflight has shared what its runs have made
            await demand.pool.share_bytecode(await anyio.to_thread.run_sync(read_bytecode, folder))
            self._warm = demand.pool
        # Not this run's seed where another run has made it: what is random came out otherwise there.
        runner = replace(demand.runner, seed=found.seed)
        judge = self._judge(runner, demand.snapshot, demand.pool)
        plan = self._plan(replace(demand, runner=runner), found, judge)
        fleet = await self._ready(plan, demand, folder)
        return plan, fleet

    async def _ready(self, plan: CheckPlan, demand: BaselineRequest, folder: Path) -> Fleet:
        """Return the servers for a plan, which stand in as many slots as will be used."""
        fleet = await self._fleet_for(plan, demand.pool, folder)
        await fleet.complete(plan)
        demand.steps.begin("warm servers are started")
        await fleet.warm_up(demand.pool, self._slots_for(demand, plan.baseline))
        return fleet

    async def _learn(self, demand: BaselineRequest, folder: Path) -> Baseline:
        """Run the preflight; servers are started as soon as it is known what they are for."""

        async def fleet_for(draft: Baseline) -> Fleet:
            return await self._fleet_for(self._plan(demand, draft), demand.pool, folder)

        slots_for, spare = partial(self._slots_for, demand), int(self._setup.shares.cores) - 1
        async with anyio.create_task_group() as group:
            warmth = ServerWarmup(fleet_for, slots_for, demand.pool, group, spare=spare)
            found = replace(await self._preflight(demand, folder, warmth), seed=demand.runner.seed)
            self._warm = demand.pool
        bytecode = demand.pool.baseline.bytecode
        await anyio.to_thread.run_sync(write_bytecode, folder, bytecode)
        return found

    async def _preflight(self, demand: BaselineRequest, folder: Path, warmth: ServerWarmup) -> Baseline:
        runner, snapshot, slot = demand.runner, demand.snapshot, demand.pool.baseline
        withheld = withheld_names(os.environ, self._setup.settings.pass_env)
        preflight = Preflight(
            runner=runner,
            pool=demand.pool,
            slot=slot,
            sources=self._sources(runner, snapshot),
            inputs=folder / "inputs",
            warmth=warmth,
            steps=demand.steps,
            judge=self._judge(runner, snapshot, demand.pool),
            replays=demand.replays,
            runs_all=self._setup.settings.no_select,
            absent=MissingPrerequisite(ignored=snapshot.ignored_left_out, withheld=withheld),
            files=tuple(self._setup.mirror.paths(snapshot)),
        )
        try:
            return await preflight.run()
        except EnvironmentFault as fault:
            raise await _explained(fault, runner, slot.workspace) from fault

    def _slots_for(self, demand: BaselineRequest, baseline: Baseline) -> int:
        """Return how many slots get a candidate, as far as the baseline tells: others need no servers."""
        return min(demand.candidates, checks_at_once(self._setup.shares, demand.pool.size, baseline))

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

    # --- what follows from the setup -------------------------------------------------------------------

    def _plan(
        self, demand: BaselineRequest, baseline: Baseline, judge: AcceptFunction | None = None
    ) -> CheckPlan:
        settings = self._setup.settings
        memory_bytes = memory_limit_of(self._setup.shares, settings, baseline.rss_bytes)
        cpu_s = settings.timeout + _CPU_FACTOR * baseline.longest_cpu_ns / 1e9
        return CheckPlan(
            runner=demand.runner,
            baseline=baseline,
            limits=ProcessLimits(cpu_s=cpu_s, wall_s=_WALL_FACTOR * cpu_s, memory_bytes=memory_bytes),
            compare_values=settings.compare is ComparisonMode.VALUES,
            sources=self._sources(demand.runner, demand.snapshot),
            new_process=self._why_new_processes(demand),
            rules=ComparisonRules(
                tolerance=Tolerance(rtol=settings.rtol, atol=settings.atol),
                strict=settings.strict,
                judge=settings.accept,
            ),
            judge=judge,
        )

    def _why_new_processes(self, demand: BaselineRequest) -> str:
        if self._setup.settings.new_process:
            return "a new process was asked for"
        is_few = self._once and demand.are_all and demand.candidates <= demand.pool.size
        return "so few candidates are sooner checked without servers" if is_few else ""

    def _judge(self, runner: RunnerConfig, snapshot: Snapshot, pool: SlotPool) -> AcceptFunction | None:
        """Return the user's judge, if there is one.

        Raises:
            UsageError: `BAD_JUDGE`.
        """
        place = self._setup.settings.accept
        if not place or not runner.targets:
            return None
        source = self._setup.mirror.read(snapshot, place.partition("::")[0])
        given = named_callable("accept", place, source, runner.targets)
        workspace = hashed(pool.baseline.workspace, HASH_SEEDS[0])
        return AcceptFunction(
            place=place, given=given, runner=runner, workspace=workspace, turn=pool.baselines_turn
        )

    def _sources(self, runner: RunnerConfig, snapshot: Snapshot) -> dict[str, bytes]:
        return {t.path: self._setup.mirror.read(snapshot, t.path) or b"" for t in runner.targets}

    def ground(self, runner: RunnerConfig, snapshot: Snapshot, *, replays: bool = True) -> str:
        """Name a baseline by everything that it depends on."""
        setup = self._setup
        return name_of(
            __version__,
            runner.directory.name,
            snapshot.tree,
            str(setup.repository.project),
            environment_stamp(setup.interpreter),
            [str(target) for target in runner.targets],
            [runner.request.paths, runner.request.keyword, runner.request.marker],
            setup.settings.no_select,
            replays,
            identity(os.environ, setup.settings.pass_env),
            _key_of(setup.isolation),
            runner.encoders,
            setup.settings.accept,
        )


async def _explained(fault: EnvironmentFault, runner: RunnerConfig, workspace: Workspace) -> EnvironmentFault:
    """Return what to say of a baseline that is red: it met a limit, or lacks a right that its level takes.

    For the latter its tests are run once more at `none`.

    Args:
        fault: what was found at the level.
        runner: of the run.
        workspace: the baseline's slot; the caller restores it.
    """
    level = workspace.isolation.level
    if fault.code not in {"RED_BASELINE", "BASELINE_CRASHED", "NO_TESTS"}:
        return fault
    if flags := reached_limits(fault.message):
        text, traceback, after = fault.message.partition("Traceback (")
        text += after.strip().splitlines()[-1] if traceback else ""
        return EnvironmentFault(fault.code, text, f"{' or '.join(flags)} gives it more.")
    if level is IsolationLevel.NONE:
        return fault
    free = hashed(workspace, HASH_SEEDS[0]).unconfined()
    session = await run_session(runner, free, first_run_spec(runner, free), _UNCONFINED)
    outcomes = session.report.tests.values()
    if not session.report.collected or any(test.outcome in _BAD for test in outcomes):
        return fault
    message = (
        f"{fault.message} It is green without isolation: what it misses is a right that level {level} takes."
    )
    flags = missing_rights(fault.message)
    granted = f"{' or '.join(flags)} would grant it" if flags else _ANY
    return EnvironmentFault("RED_BASELINE", message, f"{granted}; --isolation none takes no right.")


def _key_of(policy: IsolationPolicy) -> tuple[object, ...]:
    """Return what findings about the baseline depend on, of a policy: not where things lie, but rights.

    The backstop behind the memory limit follows what memory is free at the moment: with it, no baseline
    would be found again by another process.
    """
    rights = policy.as_spec()
    limits = {name: value for name, value in rights["limits"].items() if name != "data_bytes"}
    return (*(rights[name] for name in ("level", "network", "writable")), limits)
