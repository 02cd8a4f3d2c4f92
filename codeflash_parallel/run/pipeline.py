"""One run, from candidates to a result: prepare, check, race, profile, refine, report."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.baseline.preflight.step_reporter import StepReporter
from codeflash_parallel.check.kill_history import Kills
from codeflash_parallel.config.settings_json import settings_document
from codeflash_parallel.result.candidate.candidate_model import Submission
from codeflash_parallel.result.events import Observer, RunFinished, RunStarted, RunWaits
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.run import result_builder
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.provider_requests import open_providing
from codeflash_parallel.run.providers import Providers, command_of
from codeflash_parallel.run.race_phase.ranking_policy_loader import load_policy
from codeflash_parallel.run.run_context import EventAnnouncer, RunFindings
from codeflash_parallel.run.run_folder import save_run
from codeflash_parallel.run.run_preparation import Entries, PreparedRun, RunPreparation, entered, entering
from codeflash_parallel.run.run_stages import RunStages
from codeflash_parallel.run.run_state import (
    SCHEMA,
    Ending,
    RaceMode,
    RunEnd,
    RunRequest,
    write_end,
    write_request,
)
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.step_cache import StepCache, StepKind

Source = AsyncIterable[Submission] | Iterable[Submission]


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
        """Prepare; then check, race, profile and refine, again while refinements bring candidates."""
        prepared = await RunPreparation(self._around, self._account, self._cache, self._steps).prepare(source)
        source = prepared.source
        async with self._stages(prepared) as stages:
            while source:
                await stages.check(source)
                if not await stages.race() or self._mode is RaceMode.TIME:
                    return
                await stages.profile()
                source = await stages.refine()

    @asynccontextmanager
    async def _stages(self, prepared: PreparedRun) -> AsyncIterator[RunStages]:
        context = prepared.context
        async with open_providing(self._providers, context, self._ledger) as providing:
            yield RunStages(
                context,
                self._account,
                learner=self._around.learner,
                drafting=prepared.drafting,
                providing=providing,
                kills=await anyio.to_thread.run_sync(Kills.load, self._setup.home, context.targets),
                policy=self._policy,
            )

    # --- what is asked for, and the end ----------------------------------------------------------------

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
