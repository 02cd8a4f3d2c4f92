"""Calls made again on a candidate outside of its tests, and held against the baseline's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from codeflash_parallel.check.assessment import CandidateFinding, doubt, judged_replay, untold, with_words
from codeflash_parallel.check.baseline_model import ReplayGroup
from codeflash_parallel.check.check_plan import CheckPlan
from codeflash_parallel.check.comparison.call_comparison import CallMeasurement
from codeflash_parallel.check.comparison.value_comparison import (
    ValueComparison,
    measure,
    to_measure,
    together,
)
from codeflash_parallel.check.dispatch.fork_points import ForkChoice, choose
from codeflash_parallel.check.dispatch.run_dispatch import RunPlace, run_served
from codeflash_parallel.check.dispatch.step_times import StepTimes
from codeflash_parallel.check.session.replay_specs import replay_spec
from codeflash_parallel.check.session.runner_session import RunnerSession
from codeflash_parallel.result.candidate.candidate_model import Candidate
from codeflash_parallel.result.outcome_codes import Code
from codeflash_parallel.result.runtime_protocols import WorkspaceTree


@asynccontextmanager
async def without(tree: WorkspaceTree | None, paths: tuple[str, ...]) -> AsyncIterator[None]:
    """Have files not there while something runs, where there is a tree that can do so and any are named."""
    if tree is None or not paths:
        yield
        return
    async with tree.without(paths):
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class CallReplay:
    """Replays of one check.

    Attributes:
        place: where the candidate is staged.
        tree: lets tests lie elsewhere meanwhile; `None`: they stay.
        by_edits: where a run may begin, as far as the candidate is concerned.
        account: is told of every run.
    """

    plan: CheckPlan
    place: RunPlace
    tree: WorkspaceTree | None
    candidate: Candidate
    by_edits: ForkChoice
    account: StepTimes

    async def run(self, found: CandidateFinding) -> CandidateFinding:
        """Make the calls, and add what they say to what the tests said; the first difference decides."""
        before: ValueComparison | None = None
        for part in self.plan.baseline.parts:
            if found.code is not Code.OK:
                return found
            found = await self._part(found, part)
            if before is not None and found.values is not None:
                found = replace(found, values=together(before, found.values))
            before = found.values
        return found

    async def _part(self, found: CandidateFinding, part: ReplayGroup) -> CandidateFinding:
        plan = self.plan
        session = await self._replay(part, ())
        measured = await self._measured(part, session)
        found = judged_replay(found, session, self.candidate, plan.baseline, plan.rules, measured, part.known)
        shown = untold(found, session)
        if shown is None:
            return found
        return with_words(found, await self._replay(part, (shown,), shown), plan.baseline)

    async def _measured(self, part: ReplayGroup, session: RunnerSession) -> Mapping[int, CallMeasurement]:
        """Make the calls once more to get the floats of those that may differ in nothing else."""
        rules = self.plan.rules
        wanted = to_measure(part.known, session.report, rules)
        if not wanted:
            return {}
        again = await self._replay(part, wanted)
        found = measure(part.known, session.report, again.report.calls, rules)
        if not rules.judge or self.plan.judge is None:
            return found
        calls = [c for c in again.report.calls if c.index not in found or not found[c.index].is_accepted]
        judge, baseline = self.plan.judge, self.plan.baseline
        return {**found, **await judge.measured(baseline, part.known, session.report, calls)}

    async def _replay(
        self, part: ReplayGroup, texts: tuple[int, ...], last: int | None = None
    ) -> RunnerSession:
        """Make captured calls and those with derived inputs: all, or up to the last one that is wanted.

        The calls before that one may have left something behind.
        """
        plan, baseline = self.plan, self.plan.baseline
        calls, derived = tuple(part.known.calls), tuple(part.known.derived)
        if last in part.known.calls:
            calls, derived = calls[: calls.index(last) + 1], ()
        elif last is not None:
            derived = derived[: derived.index(last) + 1]
        made = (baseline.derived_inputs, derived)
        prove = tuple(edit.path for edit in self.candidate.edits)
        spec = replay_spec(plan.guest, baseline.inputs, prove, calls, texts, made)
        serving = choose(self.by_edits, new_process=plan.new_process)
        async with without(self.tree, part.aside):
            served = await run_served(self.place, spec, serving, partial(self._doubt, part))
        self.account.replay(served)
        return served.session

    def _doubt(self, part: ReplayGroup, session: RunnerSession) -> str:
        loaded = self.plan.baseline.loaded
        return doubt(session, self.candidate, self.plan.baseline, {}, part.known.paths & loaded.keys())
