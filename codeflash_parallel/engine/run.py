"""One run, from candidates to a result: the order of things."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.behavior.plan import CheckPlan
from codeflash_parallel.behavior.session import Guest
from codeflash_parallel.benchmark.record import RunRecord
from codeflash_parallel.engine import results
from codeflash_parallel.engine.account import Account
from codeflash_parallel.engine.chronicle import Chronicle
from codeflash_parallel.engine.context import Announcer, RunContext
from codeflash_parallel.engine.drafting import Drafting
from codeflash_parallel.engine.fleet import Fleet
from codeflash_parallel.engine.happened import Ending
from codeflash_parallel.engine.journal import Journal
from codeflash_parallel.engine.kills import Kills
from codeflash_parallel.engine.learning import Demand
from codeflash_parallel.engine.ledger import Entry, Ledger
from codeflash_parallel.engine.naming import must_have_named
from codeflash_parallel.engine.policies import load_policy
from codeflash_parallel.engine.preflight import Depth
from codeflash_parallel.engine.providing import Providers, open_providing
from codeflash_parallel.engine.race_mode import RaceMode
from codeflash_parallel.engine.rounds import Rounds
from codeflash_parallel.engine.sources import Entries, entered, entering, peek
from codeflash_parallel.engine.steps import Steps
from codeflash_parallel.engine.store import save_run
from codeflash_parallel.engine.surroundings import Surroundings
from codeflash_parallel.engine.targets import derived_targets, named_targets
from codeflash_parallel.model.candidate import Submission
from codeflash_parallel.model.events import Observer, RunFinished, RunStarted, RunWaits
from codeflash_parallel.model.result import RunResult
from codeflash_parallel.model.settings import Compare
from codeflash_parallel.model.target import Target
from codeflash_parallel.worktrees.git import load_reader
from codeflash_parallel.worktrees.pool import Pool
from codeflash_parallel.worktrees.snapshot import Snapshot

Source = AsyncIterable[Submission] | Iterable[Submission]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ground:
    """What a run stands on.

    Attributes:
        source: with what was taken from it to find the targets put back.
    """

    snapshot: Snapshot
    pool: Pool
    targets: tuple[Target, ...]
    source: Entries


class Run:
    """Makes one run. `evaluate` is called once."""

    def __init__(
        self,
        *,
        surroundings: Surroundings,
        run_id: str,
        providers: Providers,
        observers: Sequence[Observer],
        mode: RaceMode,
        journal: Journal,
    ) -> None:
        self._around = surroundings
        self._setup = surroundings.setup
        self._settings = self._setup.settings
        self._run_id = run_id
        self._providers = providers
        self._mode = mode
        self._journal = journal
        self._ending = Ending.FINISHED
        self._announce = Announcer.of(observers)
        self._steps = Steps(self._announce, run_id)
        self._ledger = Ledger(run_id, self._announce)
        self._chronicle = Chronicle(journal, surroundings, self._ledger, self.folder)
        self._policy = load_policy(self._settings.ranking, self._ledger.warn)
        self._announce.on_dropped = self._ledger.warn
        self._scope = anyio.CancelScope()
        self._interrupted = ""
        self._account = Account(
            run_id=run_id,
            setup=self._setup,
            ledger=self._ledger,
            announce=self._announce,
            races=mode is not RaceMode.CHECK,
            # Seeds come from the run's id, so that a run can be repeated by naming its seed.
            seed=self._settings.seed or zlib.crc32(run_id.encode()) or 1,
        )

    @property
    def folder(self) -> Path:
        """Return where everything about the run is kept."""
        return self._setup.run_dir(self._run_id)

    def interrupt(self, code: str) -> None:
        """Stop: kill what runs, keep what is finished."""
        self._interrupted = self._interrupted or code
        self._scope.cancel()

    def wait(self, why: str) -> None:
        """Tell the observers that somebody else on this machine is waited for; empty: not any more."""
        self._announce(RunWaits(run_id=self._run_id, why=why))

    async def evaluate(self, source: Source) -> RunResult:
        """Judge every candidate of the source.

        Args:
            source: of a run that goes on: the candidates that it had.

        Raises:
            UsageError, EnvironmentFault: the run could not be made.
        """
        self._announce(RunStarted(run_id=self._run_id, slots=self._setup.shares.slots))
        entries = await self._entered(source)
        if isinstance(source, Sequence) and not source:
            return await self._finish(results.of_nobody(self._account))
        with self._scope:
            await self._within_budget(entries)
        self._steps.begin("")
        if self._interrupted:
            self._ending = Ending.INTERRUPTED
            return await self._finish(results.interrupted(self._account, self._interrupted))
        return await self._finish(results.judged(self._account))

    async def _entered(self, source: Source) -> Entries:
        """Enter what is there; what is still being produced is entered as it arrives."""
        there = [self._ledger.add(one) for one in source] if isinstance(source, Sequence) else None
        begun = {
            "run_id": self._run_id,
            "races": self._account.races,
            "refines": self._mode is RaceMode.RACE,
            "seed": self._account.seed,
        }
        await self._chronicle.begin(begun, self._providers, there)
        if there is not None:
            return there
        if isinstance(source, AsyncIterable):
            return entering(self._chronicle.enter, source, self._chronicle.all_entered)
        return entered(self._chronicle.enter, source, self._chronicle.all_entered)

    async def _within_budget(self, source: Entries) -> None:
        budget_s = self._settings.wall_budget or float("inf")
        with anyio.move_on_after(budget_s) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._steps.pulse)
                await self._go(source)
                group.cancel_scope.cancel()
        if scope.cancelled_caught:
            self._ending = Ending.BUDGET
            self._ledger.warn(
                f"The wall budget of {budget_s:g} s was spent. "
                f"`codeflash-parallel resume {self._run_id}` goes on with the run."
            )

    async def _go(self, source: Entries) -> None:
        with self._account.phase("snapshot"):
            ground = await self._grounded(source)
        with self._account.phase("baseline"):
            guest = self._setup.guest(ground.targets, ground.snapshot, self._account.seed)
            drafting = self._drafting(guest, ground)
            context = await self._known(guest, ground, drafting)
        self._account.context = context
        async with open_providing(self._providers, context, self._ledger) as providing:
            rounds = Rounds(
                context,
                self._account,
                learner=self._around.learner,
                drafting=drafting,
                providing=providing,
                kills=await anyio.to_thread.run_sync(Kills.load, self._setup.home, context.targets),
                policy=self._policy,
            )
            await rounds.run(ground.source, self._mode)

    async def _grounded(self, source: Entries) -> _Ground:
        """Freeze the tree, find the targets and make the slots."""
        quiet = self._setup.quiet
        await anyio.to_thread.run_sync(must_have_named, self._setup.repository, self._settings)
        async with anyio.create_task_group() as group:
            group.start_soon(self._load)
            async with quiet.shared():
                snapshot = await self._chronicle.snapshot()
            # In no block: the first candidate may be long in coming, and races of others would wait for it.
            seen, source = await self._seen(source)
            async with quiet.shared():
                targets = await self._targets(seen, snapshot)
                pool = await self._around.pool(snapshot, self._chronicle.owner)
        for warning in pool.warnings:
            self._ledger.warn(warning)
        return _Ground(snapshot=snapshot, pool=pool, targets=targets, source=source)

    async def _load(self) -> None:
        """Make ready what the first check needs."""
        async with self._setup.quiet.shared(), anyio.create_task_group() as group:
            group.start_soon(self._around.compile_guest)
            group.start_soon(anyio.to_thread.run_sync, load_reader)

    async def _seen(self, source: Entries) -> tuple[Sequence[Entry], Entries]:
        """Return what the targets are found by, and the source with whatever was taken from it put back."""
        return ((), source) if self._settings.functions else await peek(source)

    async def _targets(self, seen: Sequence[Entry], snapshot: Snapshot) -> tuple[Target, ...]:
        mirror = self._setup.mirror
        if self._settings.functions:
            return named_targets(mirror, snapshot, self._settings.functions)
        return await derived_targets(mirror, snapshot, [entry.submission for entry in seen])

    def _drafting(self, guest: Guest, ground: _Ground) -> Drafting:
        standing = self._around.learner.ground(guest, ground.snapshot)
        prepared = self._chronicle.stand_on(standing)
        setup = self._setup
        return Drafting(setup.mirror, ground.snapshot, ground.targets, setup.interpreter, prepared)

    async def _known(self, guest: Guest, ground: _Ground, drafting: Drafting) -> RunContext:
        """Return what the run knows once the baseline is known."""
        async with self._setup.quiet.shared():
            plan, fleet = await self._baseline(guest, ground, drafting)
        for warning in plan.baseline.warnings:
            self._ledger.warn(warning)
        return self._context(ground, plan, fleet)

    async def _baseline(self, guest: Guest, ground: _Ground, drafting: Drafting) -> tuple[CheckPlan, Fleet]:
        """Find out what the baseline does, and make candidates of what is there meanwhile."""
        source, limit = ground.source, self._settings.max_candidates or None
        there = source[:limit] if isinstance(source, Sequence) else ()
        demand = Demand(
            guest=guest,
            snapshot=ground.snapshot,
            pool=ground.pool,
            candidates=len(there) if isinstance(source, Sequence) else self._setup.shares.slots,
            depth=self._depth,
            steps=self._steps,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(drafting.ahead, there)
            found = await self._around.learner.baseline(demand)
            group.cancel_scope.cancel()
        return found

    @property
    def _depth(self) -> Depth:
        calls = self._account.races or self._settings.compare is Compare.VALUES
        return Depth.CALLS if calls else Depth.OUTCOMES

    def _context(self, ground: _Ground, plan: CheckPlan, fleet: Fleet) -> RunContext:
        setup = self._setup
        return RunContext(
            run_id=self._run_id,
            run_dir=self.folder,
            settings=self._settings,
            runner=setup.launcher,
            mirror=setup.mirror,
            snapshot=ground.snapshot,
            pool=ground.pool,
            interpreter=setup.interpreter,
            targets=ground.targets,
            plan=plan,
            fleet=fleet,
            free_bytes=setup.shares.free_bytes,
            cores=setup.shares.cores,
            seed=self._account.seed,
            recorder=self._chronicle.recorder(self._run_record()),
            journal=self._journal,
            quiet=setup.quiet,
            steps=self._steps,
        )

    def _run_record(self) -> RunRecord:
        return RunRecord(run_id=self._run_id, seed=self._account.seed, version=__version__)

    async def _finish(self, result: RunResult) -> RunResult:
        candidates = [entry.candidate for entry in self._ledger if entry.candidate is not None]
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(save_run, self.folder, result, candidates))
            await self._chronicle.end(self._ending, self._interrupted)
        self._announce(RunFinished(run_id=self._run_id, result=result))
        return result


def new_run_id() -> str:
    """Return an id that sorts by time and does not repeat."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
