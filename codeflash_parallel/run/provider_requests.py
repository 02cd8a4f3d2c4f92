"""Repairs, line profiles and refinements: requests to providers, with their evidence and budget."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import anyio

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.profile.line_profiler import ProfileFailure, profile
from codeflash_parallel.race.plan import BASELINE
from codeflash_parallel.repair.broker import (
    Broker,
    ProviderSpending,
    RefinementContender,
    choose_refinements,
    may_repair,
    open_broker,
)
from codeflash_parallel.repair.command_providers import CommandProvider, command_provider
from codeflash_parallel.repair.provider_protocol import (
    Ancestor,
    Outcome,
    ProviderAnswers,
    ProviderFailure,
    RefinementKind,
    RefinementRequest,
    Refiner,
    Repairer,
    RepairRequest,
)
from codeflash_parallel.result.candidate_model import (
    CandidateId,
    CandidateOrigin,
    Submission,
    name_of,
)
from codeflash_parallel.result.result_model import LineProfile, Speedup
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.ledger import CandidateEntry, RaceFinding, RunContext
from codeflash_parallel.run.run_state import ProviderCommand, RunRequest, StepKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Providers:
    """The repairer and the refiner of a run, where there are some."""

    repairer: Repairer | None = None
    refiner: Refiner | None = None

    @classmethod
    def of(cls, repair: str, refine: str, *, deadline_s: float, cwd: str = "") -> Providers:
        """Return the providers that two texts name, see `command_provider`; an empty one names none.

        Raises:
            UsageError: `BAD_COMMAND` when one cannot be run.
        """
        return cls(
            repairer=command_provider(repair, "repair", deadline_s=deadline_s, cwd=cwd) if repair else None,
            refiner=command_provider(refine, "refine", deadline_s=deadline_s, cwd=cwd) if refine else None,
        )

    def completed(self, settings: Settings) -> Providers:
        """Return the providers with those that the settings name."""
        repair = "" if self.repairer else settings.repair_command
        refine = "" if self.refiner else settings.refine_command
        named = Providers.of(repair, refine, deadline_s=settings.provider_timeout)
        return Providers(repairer=self.repairer or named.repairer, refiner=self.refiner or named.refiner)

    def resumed(self, request: RunRequest, deadline_s: float) -> Providers:
        """Return the providers with the commands that a run had."""
        repairer, refiner = self.repairer, self.refiner
        if repairer is None and request.repairer and request.repairer.argv:
            repairer = CommandProvider(**asdict(request.repairer), deadline_s=deadline_s)
        if refiner is None and request.refiner and request.refiner.argv:
            refiner = CommandProvider(**asdict(request.refiner), deadline_s=deadline_s)
        return Providers(repairer=repairer, refiner=refiner)

    def missing(self, request: RunRequest) -> list[str]:
        """Return one sentence for each provider that a run had and that is not there any more."""
        both = (
            ("repairer", request.repairer, self.repairer),
            ("refiner", request.refiner, self.refiner),
        )
        return [
            f"The run had a {name} that is a callable; it is not given now, and asked nothing more."
            for name, had, has in both
            if had is not None and has is None
        ]


def command_of(provider: object) -> ProviderCommand | None:
    """Return the command of a provider, without arguments for a Python callable."""
    if provider is None:
        return None
    if not isinstance(provider, CommandProvider):
        return ProviderCommand()
    return ProviderCommand(argv=provider.argv, cwd=str(Path(provider.cwd or os.curdir).resolve()))


#: Tracing every line costs a factor of ten to fifty; captured calls beyond these are not profiled.
_PROFILED_CALLS = 500
_PROFILE_CPU_S = 60.0


@asynccontextmanager
async def open_providing(providers: Providers, context: RunContext) -> AsyncIterator[ProviderRequests]:
    """Open the broker of a run; leaving the block waits for no provider."""
    complete, deadline_s = providers.completed(context.settings), context.settings.provider_timeout
    async with open_broker(
        complete.repairer, complete.refiner, deadline_s=deadline_s, warn=context.ledger.warn
    ) as broker:
        yield ProviderRequests(broker, context)


class ProviderRequests:
    """Requests repairs and refinements, and profiles what they need to see. Made by `open_providing`."""

    def __init__(self, broker: Broker, context: RunContext) -> None:
        self._broker, self._context, self._ledger = broker, context, context.ledger
        # Of an earlier process of the run, whose providers may be gone.
        self._has_repairs = context.cache.count(StepKind.REPAIR) > 0
        self._has_refinements = context.cache.count(StepKind.REFINEMENT) > 0
        self._spent = ProviderSpending()
        self._profiles: dict[str, LineProfile | None] = {}
        self._ends_s = time.monotonic() + (context.settings.wall_budget or float("inf"))

    # --- repair ----------------------------------------------------------------------------------------

    @property
    def asks_for_repairs(self) -> bool:
        """Whether there is somebody to ask, or was in an earlier process of the run."""
        return self._broker.repairs or self._has_repairs

    async def repair(self, entry: CandidateEntry) -> list[Submission]:
        """Request repairs of a rejected candidate, if there is evidence and the budget allows it."""
        outcome, result = entry.outcome, entry.result
        if outcome is None or result is None or not self.wants_evidence(entry, outcome):
            return []
        self._spent = self._spent.with_repair(_root(entry))
        request = RepairRequest(
            candidate=entry.id,
            targets=tuple(map(str, self._context.targets)),
            code=result.code.value,
            reason=result.reason,
            diff=entry.staged.diff,
            source=self._context.sources_of(entry.staged),
            failures=result.failures,
            missing=result.tests.missing_ids,
            difference=result.difference,
            ancestry=(*entry.lineage, entry.id),
        )
        asking = partial(self._broker.request_repair, request)
        return await self._answered(StepKind.REPAIR, [request], asking)

    def wants_evidence(self, entry: CandidateEntry, outcome: CheckOutcome) -> bool:
        """Return whether a repair of a candidate with this outcome would be requested now."""
        if not self.asks_for_repairs:
            return False
        shown = len(outcome.failures) + outcome.tests.missing + outcome.values.differing
        return may_repair(self._context.settings, self._now(), _root(entry), shown)

    def _now(self) -> ProviderSpending:
        return replace(
            self._spent,
            correct=sum(entry.passed for entry in self._ledger),
            candidates=len(self._ledger),
            seconds_left=self._ends_s - time.monotonic(),
        )

    async def _answered(
        self,
        kind: StepKind,
        requests: Sequence[RepairRequest | RefinementRequest],
        asking: Callable[[], Awaitable[Outcome]],
    ) -> list[Submission]:
        """Return the answers to a request, unless the step cache has them; a failure is not stored."""
        cache = self._context.cache
        about = [name_of(request.candidate, request.diff) for request in requests]
        known: ProviderAnswers | None = cache.get(ProviderAnswers, kind, about)
        outcome = known or await asking()
        if isinstance(outcome, ProviderFailure):
            self._ledger.warn(outcome.reason)
            return []
        if known is None:
            await cache.keep(ProviderAnswers, outcome, kind, about)
        is_repair = kind is StepKind.REPAIR
        return [
            Submission(
                # the ledger gives it a free name
                id=CandidateId(f"{answer.parent}-{'repaired' if is_repair else 'refined'}"),
                content=answer.content,
                origin=CandidateOrigin.REPAIR if is_repair else CandidateOrigin.REFINEMENT,
                parent=CandidateId(answer.parent),
                explanation=answer.explanation,
            )
            for answer in outcome.answers
        ]

    # --- profile ---------------------------------------------------------------------------------------

    async def profile(self, finding: RaceFinding) -> RaceFinding:
        """Profile the baseline, and the winner if there is one; what fails is said and costs nothing else."""
        if not finding.leaders:
            return finding
        winner = self._ledger.get(finding.leaders[0])
        await self.profile_ahead(winner)
        return replace(
            finding,
            winner_profile=self._profiles[winner.id],
            baseline_profile=self._profiles[BASELINE],
        )

    async def profile_ahead(self, entry: CandidateEntry) -> None:
        """Profile the baseline and a candidate side by side, unless that was done."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._profile_of, entry)
            if BASELINE not in self._profiles:
                workspace = self._context.pool.baseline.workspace
                self._profiles[BASELINE] = await self._profile_in(workspace, "the baseline", ())

    async def _profile_of(self, entry: CandidateEntry) -> LineProfile | None:
        if entry.id not in self._profiles:
            async with self._context.pool.acquire() as slot:
                await slot.stage(entry.staged.edits)
                paths = tuple(edit.path for edit in entry.staged.edits)
                self._profiles[entry.id] = await self._profile_in(slot.workspace, entry.id, paths)
        return self._profiles[entry.id]

    async def _profile_in(self, workspace: Workspace, name: str, prove: Sequence[str]) -> LineProfile | None:
        context = self._context
        if not context.baseline.costs_ns:
            self._ledger.warn("There is no line profile: none of the targets' calls could be captured.")
            return None
        known: LineProfile | None = context.cache.get(LineProfile, StepKind.PROFILE, name, prove)
        if known is not None:
            return known
        spec = context.runner.spec(
            "profile",
            prove,
            inputs=context.baseline.inputs,
            calls=list(context.baseline.costs_ns),
            max_calls=_PROFILED_CALLS,
            tracer="auto",
        )
        memory_bytes = context.plan.limits.memory_bytes
        limits = ProcessLimits(cpu_s=_PROFILE_CPU_S, wall_s=2 * _PROFILE_CPU_S, memory_bytes=memory_bytes)
        async with context.quiet.shared():
            found = await profile(
                context.setup.launcher,
                workspace,
                spec=spec,
                limits=limits,
                runner_dir=context.runner.directory,
            )
        if isinstance(found, ProfileFailure):
            self._ledger.warn(f"There is no line profile of {name}. {found.reason}")
            return None
        context.cache.put(LineProfile, found, StepKind.PROFILE, name, prove)
        return found

    # --- refine ----------------------------------------------------------------------------------------

    async def refine(self, finding: RaceFinding) -> list[Submission]:
        """Request refinements of the fastest candidates that are ready now, in one batch."""
        if not (self._broker.refines or self._has_refinements):
            return []
        chosen = choose_refinements(self._context.settings, self._now(), self._contenders(finding))
        if not chosen:
            return []
        self._spent = replace(self._spent, refined=self._spent.refined | set(chosen))
        requests = [await self._refinement_request(self._ledger.get(name), finding) for name in chosen]
        asking = partial(self._broker.request_refinement, requests)
        return await self._answered(StepKind.REFINEMENT, requests, asking)

    def _contenders(self, finding: RaceFinding) -> list[RefinementContender]:
        """Return the candidates that are measurably faster than the baseline, the fastest first."""
        gains = {
            entry.id: speedup.estimate
            for entry in self._ledger
            if (speedup := _speedup(finding, entry.id)) is not None and speedup.low > 1
        }
        found = []
        for name in sorted(gains, key=lambda name: -gains[name]):
            entry = self._ledger.get(name)
            parent = entry.submission.parent if entry.is_refinement else None
            found.append(
                RefinementContender(
                    id=name,
                    depth=self._depth(entry),
                    speedup=gains[name],
                    parent_speedup=gains.get(parent, 0.0) if parent else 0.0,
                )
            )
        return found

    def _depth(self, entry: CandidateEntry) -> int:
        """Return how many steps of a candidate's lineage, itself included, are refinements."""
        return sum(self._ledger.get(name).is_refinement for name in (*entry.lineage, entry.id))

    async def _refinement_request(self, entry: CandidateEntry, finding: RaceFinding) -> RefinementRequest:
        speedup = _speedup(finding, entry.id)
        assert speedup is not None  # only faster candidates are refined
        return RefinementRequest(
            candidate=entry.id,
            kind=RefinementKind.ADAPTIVE if self._depth(entry) else RefinementKind.FIRST,
            targets=tuple(map(str, self._context.targets)),
            diff=entry.staged.diff,
            source=self._context.sources_of(entry.staged),
            speedup=speedup,
            profile=await self._profile_of(entry),
            baseline_profile=self._profiles.get(BASELINE),
            ancestry=tuple(self._ancestor(name, finding) for name in (*entry.lineage, entry.id)),
        )

    def _ancestor(self, name: CandidateId, finding: RaceFinding) -> Ancestor:
        entry = self._ledger.get(name)
        return Ancestor(
            candidate=name,
            diff=entry.candidate.diff if entry.candidate else "",
            explanation=entry.submission.explanation,
            speedup=_speedup(finding, name),
        )


def _speedup(finding: RaceFinding, name: CandidateId) -> Speedup | None:
    ranked = finding.ranking.of(name) if finding.ranking else None
    return ranked.speedup if ranked else None


def _root(entry: CandidateEntry) -> CandidateId:
    """Return the first of a candidate's ancestors, or itself: repairs are counted for it."""
    return entry.lineage[0] if entry.lineage else entry.id
