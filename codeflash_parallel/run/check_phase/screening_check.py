"""Screening: the first check of a candidate, the quickest one.

The tests that failed for earlier candidates come first, the rest behind them, in forks of the slot's warm
servers; the first decisive failure ends it. More is found out about a rejection only where a repairer is
going to be asked.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.checker import check, evidence, trial
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.check.session.selected_tests import LONG_SUITE_S, xdist_workers
from codeflash_parallel.result.events import Stage
from codeflash_parallel.result.outcome_codes import Trait
from codeflash_parallel.run.check_phase.candidate_examiner import Examination
from codeflash_parallel.run.check_phase.fresh_inputs import CounterexampleShrinker
from codeflash_parallel.run.check_phase.watched_functions import WatchedFunctions
from codeflash_parallel.run.ledger import CandidateEntry, RunContext
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.workspace.slot_pool import Slot

#: Tests that are run in front of all others, at most: the first of them catch nearly everything.
MOST_KILLERS = 10
#: A suite that is over this soon needs no order: trying out a new killer costs a run, a fork or a process.
_SHORT_SUITE_S = 0.05
_SHORT_FRESH_SUITE_S = 1.0


class ScreeningCheck(Examination):
    """Screens candidates.

    Attributes:
        watched: compares calls of other functions than the targets.
    """

    def __init__(self, context: RunContext, providers: ProviderRequests) -> None:
        self._context, self._ledger, self._providers = context, context.ledger, providers
        # How many candidates each test was the first to fail for.
        self._kills: Counter[str] = Counter()
        self.watched = WatchedFunctions(context)
        self._shrinking = CounterexampleShrinker(context, context.baseline)
        self._selected = frozenset(context.baseline.selected)
        self._tried: set[str] = set()
        self._trusted: set[str] = set()

    async def prepare(self, slot: Slot, /) -> None:
        """Make the slot's servers ready and try out new killers on the unchanged snapshot."""
        servers = await self._context.fleet.prepare(slot)
        for warning in self._context.fleet.warnings():
            self._ledger.warn(warning)
        new = tuple(test for test in self._deadliest() if test not in self._tried)
        if new:
            self._tried.update(new)
            self._trusted |= await trial(self._context.plan, slot.workspace, new, servers)
            await slot.discard()

    def _deadliest(self) -> tuple[str, ...]:
        """Return the killers that are worth an order of their own."""
        baseline = self._context.baseline
        short_s = _SHORT_FRESH_SUITE_S if self._context.fleet.off else _SHORT_SUITE_S
        if baseline.suite_s < short_s:
            return ()
        killers = (test for test, _ in self._kills.most_common() if test in self._selected)
        return tuple(killers)[:MOST_KILLERS]

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        """Screen what is staged."""
        plan, servers = self._plan(entry), self._context.fleet.of(slot)
        outcome = await check(plan, slot.workspace, entry.staged, servers, slot)
        outcome = await self.watched.judged(outcome, entry.staged, slot)
        outcome = await self._shrinking.smaller(outcome, entry.staged, slot)
        if outcome.tests.failed_ids:
            self._kills[outcome.tests.failed_ids[0]] += 1
        if Trait.BY_TESTS in outcome.code.traits and self._providers.wants_evidence(entry, outcome):
            more = await evidence(plan, slot.workspace, entry.staged, servers)
            outcome = _with_evidence(outcome, more)
        return outcome

    def ground(self, entry: CandidateEntry, outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        """Return the run's own, or what knows the calls of watched functions if one of these differs."""
        return self.watched.ground(entry.staged, outcome)

    def _plan(self, entry: CandidateEntry) -> CheckPlan:
        killers = tuple(test for test in self._deadliest() if test in self._trusted)
        plan = self._context.plan
        by_edits = self._context.changes.known_serving(entry.staged)
        unkept, loosens = self._context.fleet.unkept, self._context.changes.loosens(entry.staged)
        rules = replace(plan.rules, unkept=unkept, loosens=loosens)
        return replace(plan, killers=killers, workers=self._workers(), by_edits=by_edits, rules=rules)

    def _workers(self) -> int:
        """Spread a long suite over cores that no other candidate uses or waits for."""
        baseline, cores = self._context.baseline, int(self._context.setup.shares.cores)
        if baseline.suite_s < LONG_SUITE_S or cores <= 1:
            return 0
        stages = [entry.stage for entry in self._ledger]
        has_xdist = "xdist" in baseline.plugins
        waiting = sum(stage in {Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED} for stage in stages)
        workers = xdist_workers(
            suite_s=baseline.suite_s,
            cores=cores,
            in_use=stages.count(Stage.CHECKING),
            waiting=waiting,
            has_xdist=has_xdist,
        )
        if not has_xdist:
            self._ledger.warn("The suite is long and pytest-xdist is not installed: idle cores stay idle.")
        return workers


def _with_evidence(outcome: CheckOutcome, more: CheckOutcome) -> CheckOutcome:
    """Show what a second run saw, where it saw a failure at all; the verdict stays."""
    spent = {**outcome.timings_ms, "evidence": more.timings_ms.get("evidence", 0.0)}
    if not more.failures:
        return replace(outcome, timings_ms=spent)
    return replace(outcome, timings_ms=spent, tests=more.tests, failures=more.failures)
