"""What outlives one `evaluate` call: launcher, repository, mirror, slots, baselines."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.config.cache_paths import cache_root
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.environment import identity
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.runtime_protocols import ProcessLimits
from codeflash_parallel.run.setup.baseline_manager import BaselineManager
from codeflash_parallel.run.setup.evaluator_setup import Setup, set_up
from codeflash_parallel.sandbox.runner_command import compile_command, compiled_mark, install_guest
from codeflash_parallel.workspace.cleanup import recover
from codeflash_parallel.workspace.git.repository import find_repository
from codeflash_parallel.workspace.slot_pool import SlotPool, open_pool
from codeflash_parallel.workspace.snapshot.mirror import open_mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest

#: Compiling the guest is a convenience: it is not waited for longer than this.
_COMPILE_S = 120.0


class EvaluatorResources:
    """Everything that calls of one evaluator share. Made by `EvaluatorResources.open`.

    Attributes:
        setup: what never changes.
        learner: knows baselines, and keeps their servers.
        pinned: a snapshot that was taken earlier, and the mirror that holds it; it is evaluated instead of
            the user's tree.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.learner = BaselineManager(setup)
        self.pinned: tuple[Snapshot, Path] | None = None
        self._pool: SlotPool | None = None
        self._pool_of: object = None
        self._pool_stack = AsyncExitStack()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: Path, settings: Settings, quiet: HostLock | None = None, sharers: int = 1
    ) -> AsyncIterator[EvaluatorResources]:
        """Find the repository, clean up after dead runs, start the launcher; leaving undoes all of it.

        Args:
            quiet: none by default.
            sharers: how many evaluators share the machine's memory.

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
            make = partial(set_up, settings, repository, launcher, mirror, guest_dir, quiet or HostLock(None))
            surroundings = cls(await anyio.to_thread.run_sync(partial(make, sharers)))
            try:
                yield surroundings
            finally:
                await surroundings.close()

    async def close(self) -> None:
        """End the servers and remove the slots."""
        await self.learner.dismiss_servers()
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
        warn(f"The tree has changed since the run began: it goes on with snapshot {wanted.commit[:12]}.")
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
                    isolation=setup.isolation.policy,
                )
            )
            self._pool_of = wanted
        return self._pool

    async def compile_guest(self) -> None:
        """Compile the guest once for each interpreter: half of the CPU time of its every start."""
        setup = self.setup
        done = compiled_mark(setup.interpreter, setup.guest_dir)
        if not done.exists():
            environment, limits = setup.environment(setup.guest_dir, 0), ProcessLimits(wall_s=_COMPILE_S)
            command = compile_command(setup.interpreter, environment, limits, setup.guest_dir)
            await setup.launcher.run(command)
            done.touch()
