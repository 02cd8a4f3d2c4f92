"""One run, from candidates to a result: prepare, check, race, profile, refine, report."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

import anyio

from codeflash_parallel import __version__
from codeflash_parallel.baseline.step_reporter import StepReporter
from codeflash_parallel.config.settings import settings_document
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.events import Observer, RunFinished, RunStarted, RunWaits
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.run import result_builder
from codeflash_parallel.run.check_phase.check_coordinator import CheckCoordinator
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import CandidateEntry, Ledger, RunFindings
from codeflash_parallel.run.provider_requests import ProviderRequests, Providers, command_of, open_providing
from codeflash_parallel.run.race_phase.host_races import HostRaces
from codeflash_parallel.run.race_phase.race_coordinator import RaceCoordinator, load_policy
from codeflash_parallel.run.remote_hosts import Cluster, PartRequest, RemoteHosts, RunPart
from codeflash_parallel.run.run_folder import save_run
from codeflash_parallel.run.run_preparation import Entries, RunPreparation
from codeflash_parallel.run.run_state import (
    SCHEMA,
    Ending,
    RaceMode,
    RunEnd,
    RunRequest,
    StepCache,
    StepKind,
    write_end,
    write_request,
)
from codeflash_parallel.run.run_trace import TimelineRecorder
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources

Source = AsyncIterable[Submission] | Iterable[Submission]


class Run:
    """Makes one run. `evaluate` is called once.

    Args:
        notes: warnings of the run.
        request: what this process executes of the run; by default all of it.
        cluster: other hosts, which check and race the candidates.
        cache: results of the run's steps; by default those in its folder.
    """

    def __init__(  # noqa: PLR0913 - what, for whom, and what other processes have done of it
        self,
        *,
        resources: EvaluatorResources,
        run_id: str,
        providers: Providers,
        observers: Sequence[Observer],
        mode: RaceMode,
        notes: Sequence[str] = (),
        request: PartRequest | None = None,
        cluster: Cluster | None = None,
        cache: StepCache | None = None,
    ) -> None:
        self._resources, self._setup, self._settings = resources, resources.setup, resources.setup.settings
        self._run_id, self._providers, self._mode, self._notes = run_id, providers, mode, notes
        self._folder = self._setup.run_dir(run_id)
        self._cache = cache or StepCache(self._folder)
        self._request, self._cluster = request or PartRequest(), cluster
        self._timeline = TimelineRecorder()
        self._ledger = Ledger(run_id, (self._timeline, *observers))
        self._steps = StepReporter(self._ledger.announce, run_id)
        self._policy = load_policy(self._settings.ranking, self._ledger.warn)
        self._scope = anyio.CancelScope()
        self._interrupted = ""
        self._over_budget = False
        self._submitted = 0
        self._findings = RunFindings(
            run_id=run_id,
            # Seeds come from the run's id, so that a run can be repeated by naming its seed.
            seed=self._settings.seed or zlib.crc32(run_id.encode()) or 1,
            races=mode is not RaceMode.CHECK,
            setup=self._setup,
            ledger=self._ledger,
            finding=self._request.before,
        )

    @property
    def findings(self) -> RunFindings:
        """Everything that the run has found out so far."""
        return self._findings

    def interrupt(self, code: str) -> None:
        """Stop: kill what runs, keep what is finished."""
        self._interrupted = self._interrupted or code
        self._scope.cancel()

    def wait(self, why: str) -> None:
        """Note, and tell the observers, what the run waits for on this machine; empty: nothing any more."""
        self._findings.waits(now=bool(why))
        self._ledger.announce(RunWaits(run_id=self._run_id, why=why))

    async def evaluate(self, source: Source) -> RunResult:
        """Evaluate every candidate of the source.

        Args:
            source: of a run that is resumed: the candidates that it had.

        Raises:
            UsageError, EnvironmentFault: the run could not be made.
        """
        findings = self._findings
        self._ledger.announce(RunStarted(run_id=self._run_id, slots=self._setup.shares.slots))
        entries = await self._entered(source)
        if isinstance(source, Sequence) and not source:
            return await self._finish(result_builder.without_candidates(findings))
        with self._scope:
            await self._within_budget(entries)
        self._steps.begin("")
        for warning in findings.context.pool.new_warnings() if findings.context else ():
            self._ledger.warn(warning)
        if self._interrupted:
            return await self._finish(result_builder.interrupted(findings, self._interrupted))
        result = result_builder.judged(findings)
        if result.winner and self._settings.campaign and findings.context:
            keep = partial(findings.context.campaign.keep, self._run_id, findings.context.snapshot.tree)
            await anyio.to_thread.run_sync(keep)
        return await self._finish(result)

    async def _within_budget(self, source: Entries) -> None:
        budget_s = self._settings.wall_budget or float("inf")
        with anyio.move_on_after(budget_s) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._steps.pulse)
                await self._make_steps(source)
                group.cancel_scope.cancel()
        if scope.cancelled_caught:
            self._over_budget = True
            self._ledger.warn(
                f"The wall budget of {budget_s:g} s was spent. "
                f"`codeflash-parallel resume {self._run_id}` continues the run."
            )

    async def _make_steps(self, source: Entries) -> None:
        """Prepare; then check, race, profile and refine, again while refinements bring candidates."""
        resources, findings, policy = self._resources, self._findings, self._policy
        preparation = RunPreparation(resources, findings, self._cache, self._steps)
        here = self._cluster is None
        context, preparer, source = await preparation.prepare(source, checks_here=here)
        async with open_providing(self._providers, context) as providers, self._hosts(providers) as hosts:
            check = CheckCoordinator(context, preparer, providers, hosts, self._request.constants)
            coordinator = RaceCoordinator if hosts is None else partial(HostRaces, hosts)
            races = coordinator(findings, context, check.admission, providers, policy)
            while source:
                while source:
                    source = await self._check(check, races, source, checks_here=here)
                if (
                    self._request.part is RunPart.CHECKS
                    or not await races.race()
                    or self._mode is RaceMode.TIME
                ):
                    return
                with findings.phase("profile"):
                    findings.finding = await providers.profile(findings.finding)
                source = await self._refine(providers)

    @asynccontextmanager
    async def _hosts(self, providers: ProviderRequests) -> AsyncIterator[RemoteHosts | None]:
        """Open the hosts of the cluster for the run; `None` where this one does everything."""
        if self._cluster is None or self._findings.context is None:
            yield None
            return
        opened = self._cluster.open_hosts(self._findings.context, wants_evidence=providers.asks_for_repairs)
        hosts = None
        try:
            async with opened as hosts:
                yield hosts
        finally:
            self._findings.hosts = hosts.uses() if hosts is not None else ()

    async def _check(
        self, check: CheckCoordinator, races: RaceCoordinator, source: Entries, *, checks_here: bool
    ) -> Entries:
        """Check candidates; return repairs of those that fresh inputs reject.

        Fresh inputs are made beside the choice of what is timed and the checks; beside the checks twins, and
        what calls of watched functions give.
        """
        self._steps.begin("")
        learned = anyio.Event() if checks_here and self._request.part is not RunPart.RACE else None
        with self._findings.phase("behavior"):
            async with anyio.create_task_group() as tasks:
                if learned is not None:
                    tasks.start_soon(check.learn_fresh, source, learned)
                elif not checks_here:
                    await check.tell_constants(source)
                if self._findings.races:
                    check.watch_callers(await self._chosen(races))
                    if self._request.part is not RunPart.CHECKS:
                        tasks.start_soon(races.make_twins)
                if learned is not None:
                    tasks.start_soon(check.learn_watched, source, learned)
                await check.screen(source)
                repaired = await check.complete(learned)
                if not self._ledger.newly_passed():
                    tasks.cancel_scope.cancel()
        return repaired

    async def _chosen(self, races: RaceCoordinator) -> WatchedBaseline | None:
        """Choose what is timed; return the functions whose calls are, where those are not the targets'."""
        known = self._request.callers
        if not known or self._request.part is not RunPart.CHECKS:
            known[:] = [await races.choose()]
        return known[0]

    async def _refine(self, providers: ProviderRequests) -> Entries:
        """Return the candidates that a refiner makes of the leaders."""
        with self._findings.phase("refine"):
            return [self._ledger.add(one) for one in await providers.refine(self._findings.finding)]

    # --- request and end of the run --------------------------------------------------------------------

    async def _entered(self, source: Source) -> Entries:
        """Enter what is there; what is still being produced is entered as it arrives."""
        there = [self._ledger.add(one) for one in source] if isinstance(source, Sequence) else None
        await anyio.to_thread.run_sync(write_request, self._folder, self._run_request(there))
        for note in self._notes:
            self._ledger.warn(note)
        return self._arriving(source) if there is None else there

    async def _arriving(self, source: Source) -> AsyncGenerator[CandidateEntry, None]:
        """Enter submissions as they come, and note the end of the source."""
        if isinstance(source, AsyncIterable):
            async for submission in source:
                yield self._enter(submission)
        else:
            for submission in source:
                yield self._enter(submission)
        self._cache.put(bool, True, StepKind.SOURCE_END)

    def _enter(self, submission: Submission) -> CandidateEntry:
        entry = self._ledger.add(submission)
        self._cache.put(Submission, entry.submission, StepKind.SUBMITTED, self._submitted)
        self._submitted += 1
        return entry

    def _run_request(self, there: Sequence[CandidateEntry] | None) -> RunRequest:
        providers = self._providers.completed(self._settings)
        return RunRequest(
            schema=SCHEMA,
            run_id=self._run_id,
            version=__version__,
            repository=str(self._setup.repository.root),
            project=str(self._setup.repository.project),
            mode=self._mode,
            seed=self._findings.seed,
            settings=settings_document(self._settings),
            submissions=tuple(entry.submission for entry in there or ()),
            is_complete=there is not None,
            repairer=command_of(providers.repairer),
            refiner=command_of(providers.refiner),
        )

    async def _finish(self, result: RunResult) -> RunResult:
        candidates = [entry.candidate for entry in self._ledger if entry.candidate is not None]
        # Where the machinery failed a candidate, it is worth a try to resume the run.
        is_unjudged = any(
            one.status is CandidateStatus.INFRA or one.code is Code.RACE_NOT_HELD for one in result.candidates
        )
        is_open = self._interrupted or self._over_budget or is_unjudged
        end = RunEnd(ending=Ending.OPEN if is_open else Ending.FINISHED, code=self._interrupted)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(save_run, self._folder, result, candidates))
            await anyio.to_thread.run_sync(write_end, self._folder, end)
            await anyio.to_thread.run_sync(self._timeline.save, self._folder)
        self._ledger.announce(RunFinished(run_id=self._run_id, result=result))
        return result


def new_run_id() -> str:
    """Return an id that sorts by time and does not repeat."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
