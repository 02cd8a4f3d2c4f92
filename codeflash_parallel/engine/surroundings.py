"""What outlives one `evaluate` call: launcher, repository, mirror, slots, baselines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.behavior.arguments import TestRequest
from codeflash_parallel.behavior.baseline import Baseline
from codeflash_parallel.behavior.calls import Rules
from codeflash_parallel.behavior.floats import Tolerance
from codeflash_parallel.behavior.plan import CheckPlan
from codeflash_parallel.behavior.session import Guest, SelectedRun, run_guest, selected_run_spec
from codeflash_parallel.engine.baselines import load, name_of, one_learner, save
from codeflash_parallel.engine.demands import Absent
from codeflash_parallel.engine.encoders import copied_encoders
from codeflash_parallel.engine.findings import Choice
from codeflash_parallel.engine.fleet import Fleet
from codeflash_parallel.engine.interpreter import choose_interpreter, environment_stamp
from codeflash_parallel.engine.isolating import explained, isolation_of, key_of
from codeflash_parallel.engine.places import cache_root
from codeflash_parallel.engine.preflight import Depth, Preflight
from codeflash_parallel.engine.scheduling import Room, slots_used
from codeflash_parallel.engine.warming import Warming
from codeflash_parallel.model.candidate import digest_of
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.settings import Compare, Settings
from codeflash_parallel.model.target import Target
from codeflash_parallel.model.variables import requested_names, withheld_names
from codeflash_parallel.model.workspace import Limits
from codeflash_parallel.process.environment import identity, project_environment
from codeflash_parallel.process.guest import compile_command, install_guest
from codeflash_parallel.process.launcher import Launcher, open_launcher
from codeflash_parallel.process.machine import Machine, auto_slots, read_machine
from codeflash_parallel.process.quiet import NotKept, Quiet
from codeflash_parallel.worktrees.mirror import Mirror, open_mirror
from codeflash_parallel.worktrees.pool import Pool, open_pool
from codeflash_parallel.worktrees.recovery import recover
from codeflash_parallel.worktrees.repository import Repository, find_repository
from codeflash_parallel.worktrees.snapshot import Snapshot, SnapshotRequest

#: Memory that is never given to checks: for the evaluator, git and the page cache.
_RESERVED_BYTES = 512 * 1024 * 1024
#: A check's CPU deadline is the setting plus this many times the baseline's CPU time.
_CPU_FACTOR = 5
#: A check's wall deadline is this many times its CPU deadline: a starved process is not a hanging one.
_WALL_FACTOR = 4
#: Warming up is a convenience: a suite that takes longer than this is not worth it.
_WARM_UP_S = 120.0
#: No check is given less: an interpreter with a scientific stack needs that much.
_LEAST_BYTES = 512 * 1024 * 1024


class Surroundings:
    """Everything that calls of one evaluator share. Made by `Surroundings.open`."""

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        launcher: Launcher,
        mirror: Mirror,
        guest_dir: Path,
        quiet: Quiet,
    ) -> None:
        self.settings = settings
        self.repository = repository
        self.launcher = launcher
        self.mirror = mirror
        self.guest_dir = guest_dir
        self.quiet = quiet
        self.cache = cache_root(settings)
        self.home = self.cache / repository.key
        self.machine: Machine = read_machine()
        project = repository.root / repository.project
        self.interpreter = choose_interpreter(settings.python, project, repository.root)
        place = (self.interpreter, guest_dir, self.cache)
        self.isolation = isolation_of(settings, repository, place, self.memory_bytes)
        self._pool: Pool | None = None
        self._pool_of: object = None
        self._warm: Pool | None = None
        self._pool_stack = AsyncExitStack()
        self._baselines: dict[str, Baseline] = {}
        self._fleet: Fleet | None = None
        self._fleet_key = ""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, settings: Settings, quiet: Quiet | None = None
    ) -> AsyncIterator[Surroundings]:
        """Find the repository, clean up after dead runs, start the launcher; leaving undoes all of it.

        Raises:
            UsageError: not a repository, a bad interpreter.
            EnvironmentFault: no git, no room, an unfit machine.
        """
        cache = cache_root(settings)
        repository = await anyio.to_thread.run_sync(find_repository, path)
        async with AsyncExitStack() as stack:
            launcher = await stack.enter_async_context(open_launcher())
            await recover(cache)
            mirror = await stack.enter_async_context(open_mirror(cache, repository))
            guest_dir = await anyio.to_thread.run_sync(install_guest, cache)
            # In a thread: it may try isolation levels.
            make = partial(cls, settings, repository, launcher, mirror, guest_dir, quiet or NotKept())
            surroundings = await anyio.to_thread.run_sync(make)
            try:
                yield surroundings
            finally:
                await surroundings.close()

    async def close(self) -> None:
        """End the servers and remove the slots."""
        await self._dismiss_fleet()
        stack, self._pool_stack, self._pool = self._pool_stack, AsyncExitStack(), None
        with anyio.CancelScope(shield=True):
            await stack.aclose()

    def run_dir(self, run_id: str) -> Path:
        """Return the folder of a run."""
        return self.home / "runs" / run_id

    @property
    def size(self) -> int:
        """Return how many candidates are evaluated at once."""
        wanted = self.settings.parallel_candidates
        return auto_slots(self.machine) if wanted == "auto" else wanted

    @property
    def pass_env(self) -> tuple[str, ...]:
        """Return the names of the variables that are passed on because they were asked for."""
        return requested_names(os.environ, self.settings.pass_env)

    @property
    def cores(self) -> float:
        """Return how many cores' worth of CPU time checks may use."""
        return min(float(self.machine.cores), self.machine.quota_cores)

    @property
    def free_bytes(self) -> int:
        """Return what all checks and servers together may hold."""
        return max(0, self.machine.memory_bytes - _RESERVED_BYTES)

    @property
    def memory_bytes(self) -> int:
        """Return the memory limit of one check: the setting, or a fair share of what is available."""
        if self.settings.memory_limit:
            return self.settings.memory_limit * 1024 * 1024
        return max(self.free_bytes // (self.size + 1), _LEAST_BYTES)

    async def snapshot(self) -> Snapshot:
        """Take a snapshot of the user's tree (or of the base that was asked for)."""
        return await self.mirror.snapshot(self.snapshot_request)

    @property
    def snapshot_request(self) -> SnapshotRequest:
        """Return what snapshots are taken of."""
        settings = self.settings
        ignored, extra = settings.include_ignored, settings.extra_tests
        return SnapshotRequest(base=settings.base, include_ignored=ignored, extra_tests=extra)

    async def pool(self, snapshot: Snapshot, run_id: str) -> Pool:
        """Return slots that hold a snapshot: those of the last call, if it and the variables are the same."""
        wanted = (snapshot.commit, identity(os.environ, self.settings.pass_env))
        if self._pool is None or self._pool_of != wanted:
            await self.close()
            self._pool = await self._pool_stack.enter_async_context(
                open_pool(
                    self.mirror,
                    snapshot,
                    size=self.size,
                    interpreter=self.interpreter,
                    run_id=run_id,
                    environment_for=self._environment,
                    isolation=self.isolation.policy,
                )
            )
            self._pool_of = wanted
        return self._pool

    def _environment(self, private: Path, number: int) -> Mapping[str, str]:
        pass_env = self.settings.pass_env
        return project_environment(os.environ, private=private, number=number, pass_env=pass_env)

    def guest(self, targets: tuple[Target, ...], snapshot: Snapshot, seed: int) -> Guest:
        """Return what all guests of a run have in common."""
        settings = self.settings
        project = self.repository.root / self.repository.project
        return Guest(
            runner=self.launcher,
            directory=self.guest_dir,
            targets=targets,
            request=TestRequest(paths=settings.tests, keyword=settings.keyword, marker=settings.marker),
            seed=seed,
            overlaid=(snapshot.extra_tests,) if snapshot.extra_tests else (),
            encoders=copied_encoders(settings.encoders, project, self.interpreter, self.home / "encoders"),
        )

    async def baseline(
        self, guest: Guest, snapshot: Snapshot, pool: Pool, candidates: int, depth: Depth
    ) -> tuple[CheckPlan, Fleet]:
        """Return how candidates are checked, and servers: from memory, from disk, or from a preflight.

        Args:
            candidates: how many are known to come.
            depth: what is wanted; a baseline that has more will do.

        Raises:
            EnvironmentFault: red, or the tests cannot be run.
        """
        if self._fleet is not None:
            self._fleet.begin()
        for enough in (Depth.CALLS, depth):
            folder = self.home / "baselines" / self._key(guest, snapshot, enough)
            found = self._baselines.get(folder.name) or await anyio.to_thread.run_sync(load, folder)
            if found is not None:
                break
        else:
            async with one_learner(folder):
                found = await anyio.to_thread.run_sync(load, folder)
                found = found or await self._learn(guest, snapshot, pool, folder, candidates, depth)
        # Not this run's seed where another run has made it: what is random came out otherwise there.
        plan = self._plan(replace(guest, seed=found.seed), snapshot, found)
        fleet = await self._fleet_for(plan, pool, folder)
        if fleet.off:
            await self.share_bytecode(plan, pool)
        await fleet.complete(plan)
        await fleet.warm_up(pool, self._slots_for(pool, candidates, found))
        self._baselines[folder.name] = found
        return plan, fleet

    async def _learn(
        self, guest: Guest, snapshot: Snapshot, pool: Pool, folder: Path, candidates: int, depth: Depth
    ) -> Baseline:
        """Run the preflight; servers are started as soon as it is known what they are for."""

        async def fleet_for(draft: Baseline) -> Fleet:
            return await self._fleet_for(self._plan(guest, snapshot, draft), pool, folder)

        slots_for = partial(self._slots_for, pool, candidates)
        async with anyio.create_task_group() as group:
            preflight = Preflight(
                guest=guest,
                slot=pool.baseline,
                sources=self._sources(guest, snapshot),
                inputs=folder / "inputs",
                warmth=Warming(fleet_for, slots_for, pool, group, spare=int(self.cores) - 1),
                depth=depth,
                choice=Choice.ALL if self.settings.no_select else Choice.NOTICING,
                absent=self._absent(snapshot),
                files=tuple(self.mirror.paths(snapshot)),
            )
            try:
                found = await preflight.run()
            except EnvironmentFault as fault:
                raise await explained(fault, guest, pool.baseline.workspace) from fault
            found = replace(found, seed=guest.seed)
            await anyio.to_thread.run_sync(save, folder, found)
            self._warm = pool
        return found

    def _slots_for(self, pool: Pool, candidates: int, baseline: Baseline) -> int:
        room = Room(slots=pool.size, cores=self.cores, memory_bytes=self.free_bytes)
        return slots_used(room, baseline, candidates)

    async def _fleet_for(self, plan: CheckPlan, pool: Pool, folder: Path) -> Fleet:
        """Return the servers of a baseline: those that stand, if they were started for it."""
        if self._fleet is None or self._fleet_key != folder.name:
            await self._dismiss_fleet()
            self._fleet = Fleet(launcher=self.launcher, plan=plan, folder=folder)
            self._fleet_key = folder.name
        await self._fleet.draft(plan, pool)
        return self._fleet

    async def _dismiss_fleet(self) -> None:
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await fleet.close()

    def _plan(self, guest: Guest, snapshot: Snapshot, baseline: Baseline) -> CheckPlan:
        settings = self.settings
        cpu_s = settings.timeout + _CPU_FACTOR * baseline.cpu_ns / 1e9
        return CheckPlan(
            guest=guest,
            baseline=baseline,
            limits=Limits(cpu_s=cpu_s, wall_s=_WALL_FACTOR * cpu_s, memory_bytes=self.memory_bytes),
            compare_values=settings.compare is Compare.VALUES,
            sources=self._sources(guest, snapshot),
            fresh=settings.fresh,
            rules=Rules(tolerance=Tolerance(rtol=settings.rtol, atol=settings.atol), strict=settings.strict),
        )

    async def compile_guest(self) -> None:
        """Compile the guest once for each interpreter: half of the CPU time of its every start."""
        done = self.guest_dir / f"compiled-{digest_of(str(self.interpreter).encode())[:16]}"
        if not done.exists():
            environment, limits = self._environment(self.guest_dir, 0), Limits(wall_s=_WARM_UP_S)
            await self.launcher.run(compile_command(self.interpreter, environment, limits, self.guest_dir))
            done.touch()

    async def share_bytecode(self, plan: CheckPlan, pool: Pool) -> None:
        """Run the baseline's tests once in new slots, so that everybody starts with its bytecode.

        A preflight has done it already. Servers do it for their own slot, not for the baseline's, which
        must not differ from the others in a race.
        """
        if self._warm is pool:
            return
        workspace = pool.baseline.workspace
        spec = selected_run_spec(plan.guest, workspace, plan.baseline, SelectedRun())
        await run_guest(plan.guest, workspace, spec, Limits(wall_s=_WARM_UP_S))
        await pool.share_bytecode()
        self._warm = pool

    def _absent(self, snapshot: Snapshot) -> Absent:
        withheld = withheld_names(os.environ, self.settings.pass_env)
        return Absent(ignored=snapshot.ignored_left_out, withheld=withheld)

    def _sources(self, guest: Guest, snapshot: Snapshot) -> dict[str, bytes]:
        return {t.path: self.mirror.read(snapshot, t.path) or b"" for t in guest.targets}

    def ground(self, guest: Guest, snapshot: Snapshot) -> str:
        """Name the circumstances under which candidates are judged."""
        return self._key(guest, snapshot, Depth.CALLS)

    def _key(self, guest: Guest, snapshot: Snapshot, depth: Depth) -> str:
        """Name a baseline by everything that it depends on."""
        return name_of(
            __version__,
            guest.directory.name,
            snapshot.tree,
            str(self.repository.project),
            environment_stamp(self.interpreter),
            [str(target) for target in guest.targets],
            [guest.request.paths, guest.request.keyword, guest.request.marker],
            self.settings.no_select,
            depth.value,
            identity(os.environ, self.settings.pass_env),
            key_of(self.isolation.policy),
            guest.encoders,
        )
