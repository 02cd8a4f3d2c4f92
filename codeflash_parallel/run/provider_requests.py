"""Repairs, line profiles and refinements: what is asked of providers, on what evidence and budget."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.profile.line_profiler import ProfileFailure, profile
from codeflash_parallel.race.plan import BASELINE
from codeflash_parallel.repair.broker import Broker, open_broker
from codeflash_parallel.repair.budget import (
    ProviderSpending,
    RefinementContender,
    RequestPermission,
    choose_refinements,
    may_repair,
    refinement_depth,
    refinement_kind,
)
from codeflash_parallel.repair.provider_answers import Outcome, ProviderAnswers, ProviderFailure
from codeflash_parallel.repair.provider_protocol import (
    Ancestor,
    Answer,
    RefinementRequest,
    RepairRequest,
)
from codeflash_parallel.result.candidate.candidate_model import (
    CandidateId,
    CandidateOrigin,
    Submission,
    name_of,
)
from codeflash_parallel.result.line_profile import LineProfile
from codeflash_parallel.result.result_model import Speedup
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.providers import Providers
from codeflash_parallel.run.run_context import RaceFinding, RunContext
from codeflash_parallel.run.step_cache import StepKind

#: Tracing every line costs a factor of ten to fifty; captured calls beyond these are not profiled.
_PROFILED_CALLS = 500
_PROFILE_CPU_S = 60.0

#: Steps that are requests to providers.
_REQUESTS = (StepKind.REPAIR, StepKind.REFINEMENT)


@asynccontextmanager
async def open_providing(
    providers: Providers, context: RunContext, ledger: Ledger
) -> AsyncIterator[ProviderRequests]:
    """Open the broker of a run; leaving the block waits for no provider."""
    complete = providers.completed(context.settings)
    async with open_broker(
        complete.repairer,
        complete.refiner,
        deadline_s=context.settings.provider_timeout,
        warn=ledger.warn,
    ) as broker:
        yield ProviderRequests(broker, context, ledger)


class ProviderRequests:
    """Asks for repairs and refinements, and profiles what they need to see. Made by `open_providing`."""

    def __init__(self, broker: Broker, context: RunContext, ledger: Ledger) -> None:
        self._broker = broker
        self._context = context
        self._ledger = ledger
        # Of an earlier process of the run, whose providers may be gone.
        self._has_answers = {kind for kind in _REQUESTS if context.cache.count(kind)}
        self._spent = ProviderSpending()
        self._profiles: dict[str, LineProfile | None] = {}
        self._ends_s = time.monotonic() + (context.settings.wall_budget or float("inf"))

    # --- repair ----------------------------------------------------------------------------------------

    async def repair(self, entry: CandidateEntry, /) -> Sequence[Submission]:
        """Ask for repairs of a rejected candidate, if there is evidence and the budget allows it."""
        if entry.outcome is None or not self.wants_evidence(entry, entry.outcome):
            return ()
        self._spent = self._spent.with_repair(_root(entry))
        request = self._repair_request(entry)
        asking = partial(self._broker.request_repair, request)
        outcome = await self._answered(StepKind.REPAIR, [request], asking)
        return self._submissions(outcome, CandidateOrigin.REPAIR, "repaired")

    def wants_evidence(self, entry: CandidateEntry, outcome: CheckOutcome, /) -> bool:
        """Say whether a repair of a candidate with this outcome would be asked for now."""
        if not (self._broker.repairs or StepKind.REPAIR in self._has_answers):
            return False
        permission = may_repair(self._context.settings, self._now(), _root(entry), _evidence(outcome))
        return permission is RequestPermission.GRANTED

    def _now(self) -> ProviderSpending:
        correct = sum(entry.passed for entry in self._ledger)
        return replace(
            self._spent,
            correct=correct,
            candidates=len(self._ledger),
            seconds_left=self._ends_s - time.monotonic(),
        )

    def _repair_request(self, entry: CandidateEntry) -> RepairRequest:
        result = entry.result
        assert result is not None  # only judged candidates are repaired
        return RepairRequest(
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

    def _submissions(self, outcome: Outcome, origin: CandidateOrigin, word: str) -> list[Submission]:
        if isinstance(outcome, ProviderFailure):
            self._ledger.warn(outcome.reason)
            return []
        return [_submission(answer, origin, word) for answer in outcome.answers]

    async def _answered(
        self,
        kind: StepKind,
        requests: Sequence[RepairRequest | RefinementRequest],
        asking: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """Return the answer to a request, unless the step cache has it; one that failed is not stored."""
        cache = self._context.cache
        about = [name_of(request.candidate, request.diff) for request in requests]
        known: ProviderAnswers | None = cache.get(ProviderAnswers, kind, about)
        if known is not None:
            return known
        outcome = await asking()
        if isinstance(outcome, ProviderAnswers):
            await cache.keep(ProviderAnswers, outcome, kind, about)
        return outcome

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
        spec = context.guest.spec(
            "profile",
            prove,
            inputs=context.baseline.inputs,
            calls=list(context.baseline.costs_ns),
            max_calls=_PROFILED_CALLS,
            tracer="auto",
        )
        memory_bytes = context.limits.memory_bytes
        limits = ProcessLimits(cpu_s=_PROFILE_CPU_S, wall_s=2 * _PROFILE_CPU_S, memory_bytes=memory_bytes)
        async with context.quiet.shared():
            found = await profile(
                context.runner, workspace, spec=spec, limits=limits, guest_dir=context.guest.directory
            )
        if isinstance(found, ProfileFailure):
            self._ledger.warn(f"There is no line profile of {name}. {found.reason}")
            return None
        context.cache.put(LineProfile, found, StepKind.PROFILE, name, prove)
        return found

    # --- refine ----------------------------------------------------------------------------------------

    async def refine(self, finding: RaceFinding) -> list[Submission]:
        """Ask for refinements of the fastest candidates that are ready now, in one batch."""
        if not (self._broker.refines or StepKind.REFINEMENT in self._has_answers):
            return []
        if finding.ranking is None:
            return []
        chosen = choose_refinements(self._context.settings, self._now(), self._contenders(finding))
        if not chosen:
            return []
        self._spent = self._spent.with_refinements(chosen)
        asked = [await self._refinement_request(self._ledger.get(name), finding) for name in chosen]
        requests = [request for request in asked if request is not None]
        asking = partial(self._broker.request_refinement, requests)
        outcome = await self._answered(StepKind.REFINEMENT, requests, asking)
        return self._submissions(outcome, CandidateOrigin.REFINEMENT, "refined")

    def _contenders(self, finding: RaceFinding) -> list[RefinementContender]:
        found = []
        for entry in self._ledger:
            gain = self._gain(entry.id, finding)
            if gain is None:
                continue
            parent = self._gain(entry.submission.parent, finding) if entry.submission.parent else None
            found.append(
                RefinementContender(
                    id=entry.id,
                    depth=refinement_depth(self._origins(entry)),
                    speedup=gain.estimate,
                    parent_speedup=parent.estimate if parent and entry.is_refinement else 0.0,
                )
            )
        return sorted(found, key=lambda contender: -contender.speedup)

    def _gain(self, name: CandidateId, finding: RaceFinding) -> Speedup | None:
        """Return the speedup of a candidate that is measurably faster than the baseline."""
        ranked = finding.ranking.of(name) if finding.ranking else None
        if ranked is None or ranked.speedup is None or ranked.speedup.low <= 1:
            return None
        return ranked.speedup

    def _origins(self, entry: CandidateEntry) -> list[CandidateOrigin]:
        return [self._ledger.get(name).submission.kind for name in (*entry.lineage, entry.id)]

    async def _refinement_request(
        self, entry: CandidateEntry, finding: RaceFinding
    ) -> RefinementRequest | None:
        gain = self._gain(entry.id, finding)
        if gain is None:
            return None
        return RefinementRequest(
            candidate=entry.id,
            kind=refinement_kind(refinement_depth(self._origins(entry))),
            targets=tuple(map(str, self._context.targets)),
            diff=entry.staged.diff,
            source=self._context.sources_of(entry.staged),
            speedup=gain,
            profile=await self._profile_of(entry),
            baseline_profile=self._profiles.get(BASELINE),
            ancestry=tuple(self._ancestor(name, finding) for name in (*entry.lineage, entry.id)),
        )

    def _ancestor(self, name: CandidateId, finding: RaceFinding) -> Ancestor:
        entry = self._ledger.get(name)
        ranked = finding.ranking.of(name) if finding.ranking else None
        return Ancestor(
            candidate=name,
            diff=entry.candidate.diff if entry.candidate else "",
            explanation=entry.submission.explanation,
            speedup=ranked.speedup if ranked else None,
        )


def _root(entry: CandidateEntry) -> CandidateId:
    """Return the first of a candidate's ancestors, or itself: repairs are counted for it."""
    return entry.lineage[0] if entry.lineage else entry.id


def _evidence(outcome: CheckOutcome) -> int:
    """Return how many things can be shown to a repairer."""
    return len(outcome.failures) + outcome.tests.missing + outcome.values.differing


def _submission(answer: Answer, origin: CandidateOrigin, word: str) -> Submission:
    """Make a candidate of an answer; the ledger gives it a free name."""
    return Submission(
        id=CandidateId(f"{answer.parent}-{word}"),
        content=answer.content,
        origin=origin,
        parent=CandidateId(answer.parent),
        explanation=answer.explanation,
    )
