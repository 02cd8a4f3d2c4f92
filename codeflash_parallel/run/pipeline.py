"""One run, from candidates to a result: the order of things."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.baseline.preflight.preflight import PreflightDepth
from codeflash_parallel.baseline.preflight.step_reporter import StepReporter
from codeflash_parallel.candidates.target import Target
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.kill_history import Kills
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.config.settings import ComparisonMode
from codeflash_parallel.config.settings_json import settings_document
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.events import Observer, RunFinished, RunStarted, RunWaits
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.run.evaluation_rounds import Rounds
from codeflash_parallel.run.intake.candidate_preparation import CandidatePreparer
from codeflash_parallel.run.intake.candidate_sources import Entries, entered, entering, peek
from codeflash_parallel.run.intake.target_discovery import derived_targets, named_targets
from codeflash_parallel.run.intake.target_names import must_have_named
from codeflash_parallel.run.providers.provider_requests import open_providing
from codeflash_parallel.run.providers.providers import Providers, command_of
from codeflash_parallel.run.race_phase.ranking_policy_loader import load_policy
from codeflash_parallel.run.results import result_builder
from codeflash_parallel.run.results.run_findings import RunFindings
from codeflash_parallel.run.setup.baseline_manager import BaselineRequest
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.state.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.state.race_mode import RaceMode
from codeflash_parallel.run.state.run_context import EventAnnouncer, RunContext
from codeflash_parallel.run.store.run_folder import save_run
from codeflash_parallel.run.store.run_state import (
    SCHEMA,
    Ending,
    RunEnd,
    RunRequest,
    write_end,
    write_request,
)
from codeflash_parallel.run.store.step_cache import StepCache, StepKind
from codeflash_parallel.warm.server_fleet import Fleet
from codeflash_parallel.workspace.git.git_client import load_reader
from codeflash_parallel.workspace.slot_pool import SlotPool
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

Source = AsyncIterable[Submission] | Iterable[Submission]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ground:
    """What a run stands on.

    Attributes:
        source: with what was taken from it to find the targets put back.
    """

    snapshot: Snapshot
    pool: SlotPool
    targets: tuple[Target, ...]
    source: Entries


class Run:
    """Makes one run. `evaluate` is called once."""

    def __init__(
        self,
        *,
        surroundings: EvaluatorResources,
        run_id: str,
        providers: Providers,
        observers: Sequence[Observer],
        mode: RaceMode,
        notes: Sequence[str] = (),
    ) -> None:
        self._around = surroundings
        self._setup = surroundings.setup
        self._settings = self._setup.settings
        self._run_id = run_id
        self._providers = providers
        self._mode = mode
        self._notes = notes
        self._submitted = 0
        self._cache = StepCache(self.folder)
        self._ending = Ending.FINISHED
        self._announce = EventAnnouncer.of(observers)
        self._steps = StepReporter(self._announce, run_id)
        self._ledger = Ledger(run_id, self._announce)
        self._policy = load_policy(self._settings.ranking, self._ledger.warn)
        self._announce.on_dropped = self._ledger.warn
        self._scope = anyio.CancelScope()
        self._interrupted = ""
        self._account = RunFindings(
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
            return await self._finish(result_builder.of_nobody(self._account))
        with self._scope:
            await self._within_budget(entries)
        self._steps.begin("")
        if self._interrupted:
            self._ending = Ending.INTERRUPTED
            return await self._finish(result_builder.interrupted(self._account, self._interrupted))
        return await self._finish(result_builder.judged(self._account))

    async def _entered(self, source: Source) -> Entries:
        """Enter what is there; what is still being produced is entered as it arrives."""
        there = [self._ledger.add(one) for one in source] if isinstance(source, Sequence) else None
        await anyio.to_thread.run_sync(write_request, self.folder, self._request(there))
        for note in self._notes:
            self._ledger.warn(note)
        if there is not None:
            return there
        if isinstance(source, AsyncIterable):
            return entering(self._enter, source, self._end_source)
        return entered(self._enter, source, self._end_source)

    def _request(self, there: Sequence[CandidateEntry] | None) -> RunRequest:
        providers = self._providers.completed(self._settings)
        return RunRequest(
            schema=SCHEMA,
            run_id=self._run_id,
            version=__version__,
            repository=str(self._setup.repository.root),
            project=str(self._setup.repository.project),
            mode=self._mode.value,
            seed=self._account.seed,
            settings=settings_document(self._settings),
            submissions=tuple(entry.submission for entry in there or ()),
            is_complete=there is not None,
            repairer=command_of(providers.repairer),
            refiner=command_of(providers.refiner),
        )

    def _enter(self, submission: Submission) -> CandidateEntry:
        """Enter a candidate that came after the start."""
        entry = self._ledger.add(submission)
        self._cache.put(Submission, entry.submission, StepKind.SUBMITTED, self._submitted)
        self._submitted += 1
        return entry

    def _end_source(self) -> None:
        self._cache.put(bool, True, StepKind.SOURCE_END)

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
                snapshot = await self._snapshot()
            # In no block: the first candidate may be long in coming, and races of others would wait for it.
            seen, source = await self._seen(source)
            async with quiet.shared():
                targets = await self._targets(seen, snapshot)
                pool = await self._around.pool(snapshot, self._slots_name())
        for warning in pool.warnings:
            self._ledger.warn(warning)
        return _Ground(snapshot=snapshot, pool=pool, targets=targets, source=source)

    async def _snapshot(self) -> Snapshot:
        """Freeze the user's tree, unless the run has a snapshot."""
        known: Snapshot | None = self._cache.get(Snapshot, StepKind.SNAPSHOT)
        if known is not None:
            return await self._around.same_snapshot(known, self._ledger.warn)
        snapshot = await self._around.snapshot()
        self._cache.put(Snapshot, snapshot, StepKind.SNAPSHOT)
        return snapshot

    def _slots_name(self) -> str:
        """Name the run's slots; those that an earlier process of the run kept stay where they are."""
        names = (f"{self._run_id}.{number}" if number else self._run_id for number in count())
        return next(name for name in names if not (self._setup.home / "slots" / name).exists())

    async def _load(self) -> None:
        """Make ready what the first check needs."""
        async with self._setup.quiet.shared(), anyio.create_task_group() as group:
            group.start_soon(self._around.compile_guest)
            group.start_soon(anyio.to_thread.run_sync, load_reader)

    async def _seen(self, source: Entries) -> tuple[Sequence[CandidateEntry], Entries]:
        """Return what the targets are found by, and the source with whatever was taken from it put back."""
        return ((), source) if self._settings.functions else await peek(source)

    async def _targets(self, seen: Sequence[CandidateEntry], snapshot: Snapshot) -> tuple[Target, ...]:
        mirror = self._setup.mirror
        if self._settings.functions:
            return named_targets(mirror, snapshot, self._settings.functions)
        return await derived_targets(mirror, snapshot, [entry.submission for entry in seen])

    def _drafting(self, guest: RunnerConfig, ground: _Ground) -> CandidatePreparer:
        standing = self._around.learner.ground(guest, ground.snapshot)
        if self._cache.set_ground(standing):
            self._ledger.warn(
                "Interpreter, packages, environment or our version have changed: all are judged again."
            )
        setup = self._setup
        return CandidatePreparer(
            setup.mirror, ground.snapshot, ground.targets, setup.interpreter, self._cache
        )

    async def _known(self, guest: RunnerConfig, ground: _Ground, drafting: CandidatePreparer) -> RunContext:
        """Return what the run knows once the baseline is known."""
        async with self._setup.quiet.shared():
            plan, fleet = await self._baseline(guest, ground, drafting)
        for warning in plan.baseline.warnings:
            self._ledger.warn(warning)
        return self._context(ground, plan, fleet)

    async def _baseline(
        self, guest: RunnerConfig, ground: _Ground, drafting: CandidatePreparer
    ) -> tuple[CheckPlan, Fleet]:
        """Find out what the baseline does, and make candidates of what is there meanwhile."""
        source, limit = ground.source, self._settings.max_candidates or None
        there = source[:limit] if isinstance(source, Sequence) else ()
        demand = BaselineRequest(
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
    def _depth(self) -> PreflightDepth:
        calls = self._account.races or self._settings.compare is ComparisonMode.VALUES
        return PreflightDepth.CALLS if calls else PreflightDepth.OUTCOMES

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
            cache=self._cache,
            quiet=setup.quiet,
            steps=self._steps,
        )

    async def _finish(self, result: RunResult) -> RunResult:
        candidates = [entry.candidate for entry in self._ledger if entry.candidate is not None]
        if self._ending is Ending.FINISHED and any(map(_is_unjudged, result.candidates)):
            self._ending = Ending.UNJUDGED
        end = RunEnd(ending=self._ending, code=self._interrupted)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(save_run, self.folder, result, candidates))
            await anyio.to_thread.run_sync(write_end, self.folder, end)
        self._announce(RunFinished(run_id=self._run_id, result=result))
        return result


def _is_unjudged(result: CandidateResult) -> bool:
    """Say whether the machinery failed a candidate: to resume the run is worth a try."""
    return result.status is CandidateStatus.INFRA or result.code is Code.RACE_NOT_HELD


def new_run_id() -> str:
    """Return an id that sorts by time and does not repeat."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
