"""The behavioral phase: candidates stream in, slots judge them, repairs come back through the same stream.

Nothing waits for a batch. The phase is over when its source is exhausted and nothing is in line, in a slot
or with a repairer.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from dataclasses import replace
from time import monotonic_ns

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.candidate_changes import Changes
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.checker import check, evidence
from codeflash_parallel.check.kill_history import Kills
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.check.session.xdist_workers import LONG_SUITE_S, xdist_workers
from codeflash_parallel.check.warm_start_trial import trial
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    Unappliable,
)
from codeflash_parallel.result.candidate.lifecycle import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer
from codeflash_parallel.run.check_phase.counterexample_shrinker import CounterexampleShrinker
from codeflash_parallel.run.check_phase.race_admission import RaceAdmission
from codeflash_parallel.run.check_phase.target_callers import Callers
from codeflash_parallel.run.check_phase.watched_functions import WatchedFunctions
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.run.run_folder import save_diff
from codeflash_parallel.run.run_preparation import CandidatePreparer, Entries
from codeflash_parallel.run.step_cache import StepKind
from codeflash_parallel.workspace.slot_pool import Slot

#: Where a candidate is that was not judged yet.
_NOT_JUDGED = frozenset({Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED, Stage.CHECKING})

#: So many submissions are taken from a source ahead of those that are judged: it may be endless.
AHEAD = 100


class CheckCoordinator:
    """Judges candidates in slots. One instance serves all rounds of a run, so that it knows what it saw."""

    def __init__(
        self,
        context: RunContext,
        ledger: Ledger,
        drafting: CandidatePreparer,
        judging: CandidateExaminer,
        admission: RaceAdmission,
        repairs: ProviderRequests,
        kills: Kills,
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._drafting = drafting
        self._judging = judging
        self._admission = admission
        self._cache = context.cache
        self._repairs = repairs
        self._screening = ScreeningCheck(context, ledger, kills, drafting.changes, repairs)
        self._enough = anyio.CancelScope()
        self._open = 0
        self._closed = anyio.Event()
        self._admitted = 0

    def watch(self, callers: Callers | None) -> None:
        """Compare from now on what the functions give whose calls are timed in the place of the targets'."""
        self._screening.watched.callers = callers.ground if callers else None

    async def learn_ahead(self, entries: Sequence[CandidateEntry]) -> None:
        """Learn what calls of watched functions give before candidates that change these need it."""
        for entry in entries:
            if entry.result is None and isinstance(made := await self._drafting.candidate(entry), Candidate):
                await self._screening.watched.learn(made)

    async def run(self, source: Entries) -> None:
        """Judge everything that the source gives, and what comes of it. Cancelling kills what runs."""
        endless = float("inf")
        self._submitted, submitted = anyio.create_memory_object_stream[CandidateEntry](endless)
        self._prepared, line = anyio.create_memory_object_stream[CandidateEntry](endless)
        self._open = 1
        with self._submitted, self._prepared, anyio.CancelScope() as self._enough:
            async with anyio.create_task_group() as group:
                self._group: TaskGroup = group
                group.start_soon(self._prepare_in_turn, submitted)
                for _ in range(self._context.pool.size):
                    group.start_soon(self._work, line.clone())
                line.close()
                await self._feed(source)
                self._close_one()
        if self._enough.cancel_called:
            self._cancel_the_rest()

    def _cancel_the_rest(self) -> None:
        wanted = self._context.settings.stop_after
        reason = f"No more than {wanted} right candidates were wanted."
        for entry in self._ledger:
            if entry.stage in _NOT_JUDGED:
                self._ledger.finish(entry, CandidateStatus.CANCELLED, Code.CANCELLED, reason)

    async def _feed(self, source: Entries) -> None:
        if isinstance(source, AsyncIterable):
            async for entry in source:
                await anyio.lowlevel.checkpoint_if_cancelled()
                self._admit(entry)
                await self._for_room()
            return
        for entry in source:
            self._admit(entry)
            # A generator may take its time: let the workers at what is there.
            await anyio.lowlevel.checkpoint()
            await self._for_room()

    async def _for_room(self) -> None:
        """Wait until few enough submissions wait to be judged."""
        while self._open > AHEAD:
            await self._closed.wait()

    def _admit(self, entry: CandidateEntry) -> None:
        self._admitted += 1
        limit = self._context.settings.max_candidates
        if limit and self._admitted > limit:
            self._ledger.finish(
                entry,
                CandidateStatus.CANCELLED,
                Code.CANCELLED,
                f"The run judges {limit} candidates at most.",
            )
            return
        self._open += 1
        self._submitted.send_nowait(entry)

    def _close_one(self) -> None:
        """One thing less to wait for; at none the streams end, and the tasks with them."""
        self._open -= 1
        self._closed.set()
        self._closed = anyio.Event()
        if self._open == 0:
            self._submitted.close()
            self._prepared.close()

    async def _prepare_in_turn(self, line: MemoryObjectReceiveStream[CandidateEntry]) -> None:
        """Prepare one after the other: of two equal candidates the later one is the duplicate, always."""
        with line:
            async for entry in line:
                await self._prepare(entry)
                # Work in threads outlasts a cancellation; the workers are gone then, and take nothing.
                await anyio.lowlevel.checkpoint_if_cancelled()
                if entry.stage is Stage.QUEUED:
                    self._prepared.send_nowait(entry)
                else:
                    self._close_one()

    async def _work(self, line: MemoryObjectReceiveStream[CandidateEntry]) -> None:
        with line:
            async for entry in line:
                await self._check(entry)
                if self._wants_repair(entry):
                    self._group.start_soon(self._repair, entry)
                else:
                    self._close_one()

    def _wants_repair(self, entry: CandidateEntry) -> bool:
        return (
            entry.result is not None
            and entry.result.status is CandidateStatus.REJECTED
            and entry.outcome is not None
        )

    async def repaired(self, entries: Sequence[CandidateEntry]) -> list[CandidateEntry]:
        """Return what repairers make of candidates that were rejected after their checks."""
        made: list[CandidateEntry] = []

        async def repair(entry: CandidateEntry) -> None:
            made.extend([self._ledger.add(submission) for submission in await self._repairs.repair(entry)])

        async with anyio.create_task_group() as group:
            for entry in filter(self._wants_repair, entries):
                group.start_soon(repair, entry)
        return made

    async def _repair(self, entry: CandidateEntry) -> None:
        answers = await self._repairs.repair(entry)
        await anyio.lowlevel.checkpoint_if_cancelled()
        for submission in answers:
            self._admit(self._ledger.add(submission))
        self._close_one()

    async def _prepare(self, entry: CandidateEntry) -> None:
        self._ledger.move(entry, Step.PREPARE)
        context = self._context
        made = await self._drafting.candidate(entry)
        if isinstance(made, Unappliable):
            code = Code(made.code)
            status = (
                CandidateStatus.REJECTED if code is Code.PATH_NOT_ALLOWED else CandidateStatus.UNAPPLIABLE
            )
            self._ledger.finish(entry, status, code, made.reason)
            return
        entry.candidate = made
        entry.flags = self._drafting.changes.flags_of(made)
        entry.diff_path = str(save_diff(context.run_dir, made)) if made.edits else ""
        original = self._duplicate_of(made)
        if original:
            what = "the baseline" if original == "baseline" else original
            reason = f"It has the same code as {what}."
            self._ledger.finish(
                entry, CandidateStatus.DUPLICATE, Code.SAME_CODE, reason, duplicate_of=original
            )
            return
        self._ledger.move(entry, Step.ENQUEUE)
        entry.time.waits(monotonic_ns())

    def _duplicate_of(self, candidate: Candidate) -> str:
        """Return what a candidate repeats; in-flight candidates count, so that none is run twice.

        The first one is in the step cache: answers of providers may come in another order when the run is
        resumed.
        """
        changes = self._drafting.changes
        if changes.is_none(candidate):
            return "baseline"
        code = changes.print_of(candidate)
        first: str | None = self._cache.get(str, StepKind.FIRST, code)
        if first is None:
            self._cache.put(str, candidate.id, StepKind.FIRST, code)
        return "" if first in {None, candidate.id} else str(first)

    async def _check(self, entry: CandidateEntry) -> None:
        entry.outcome = await self._judging.judge(
            entry,
            self._screening,
            entry.time,
            look=StepKind.SCREEN,
            taken=lambda number: self._ledger.move(entry, Step.STAGE, number),
            again=lambda: self._ledger.move(entry, Step.RETURN),
        )
        self._conclude(entry, entry.outcome)
        if entry.stage is Stage.PASSED:
            await self._stop_if_enough(entry)

    def _conclude(self, entry: CandidateEntry, outcome: CheckOutcome) -> None:
        if outcome.code is Code.OK:
            self._admission.screened(entry)
            self._ledger.move(entry, Step.PASS)
        elif Trait.INFRA in outcome.code.traits:
            self._ledger.finish(entry, CandidateStatus.INFRA, outcome.code, outcome.reason)
        else:
            self._ledger.finish(entry, CandidateStatus.REJECTED, outcome.code, outcome.reason)

    async def _stop_if_enough(self, passed: CandidateEntry) -> None:
        """End the phase once as many are right as were wanted; refinements do not count.

        Who still owes tests may fail them when the others are gone: those tests are run first.
        """
        wanted = self._context.settings.stop_after
        if not wanted or passed.is_refinement:
            return
        await self._admission.admit([passed])
        if sum(_counts(entry) for entry in self._ledger) >= wanted:
            self._enough.cancel()


def _counts(entry: CandidateEntry) -> bool:
    return entry.passed and not entry.owes_tests and not entry.is_refinement


#: Tests that are run in front of all others, at most: the first of them catch nearly everything.
MOST_KILLERS = 10
#: A suite that is over this soon needs no order: trying out a new killer costs a run, a fork or a process.
_SHORT_SUITE_S = 0.05
_SHORT_FRESH_SUITE_S = 1.0


class ScreeningCheck:
    """Screens candidates (`judging.Examination`).

    Attributes:
        watched: compares calls of other functions than the targets.
    """

    def __init__(
        self, context: RunContext, ledger: Ledger, kills: Kills, changes: Changes, wanted: ProviderRequests
    ) -> None:
        self._context, self._ledger, self._kills, self._wanted = context, ledger, kills, wanted
        self._changes = changes
        self.watched = WatchedFunctions(context, changes)
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
        if baseline.order_sensitive or baseline.suite_s < short_s:
            return ()
        return tuple(test for test in self._kills.order if test in self._selected)[:MOST_KILLERS]

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        """Screen what is staged."""
        plan, servers = self._plan(entry), self._context.fleet.of(slot)
        outcome = await check(plan, slot.workspace, entry.staged, servers, slot)
        outcome = await self.watched.judged(outcome, entry.staged, slot)
        outcome = await self._shrinking.smaller(outcome, entry.staged, slot)
        if outcome.tests.failed_ids:
            self._kills.add(outcome.tests.failed_ids[0])
        if Trait.BY_TESTS in outcome.code.traits and self._wanted.wants_evidence(entry, outcome):
            more = await evidence(plan, slot.workspace, entry.staged, servers)
            outcome = _with_evidence(outcome, more)
        return outcome

    def workspace(self, slot: Slot, /) -> Workspace:
        """Return the slot as it is."""
        return slot.workspace

    def ground(self, entry: CandidateEntry, outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        """Return the run's own, or what knows the calls of watched functions if one of these differs."""
        return self.watched.ground(entry.staged, outcome)

    def _plan(self, entry: CandidateEntry) -> CheckPlan:
        killers = tuple(test for test in self._deadliest() if test in self._trusted)
        plan = self._context.plan
        by_edits = self._changes.known_serving(entry.staged)
        unkept, loosens = self._context.fleet.unkept, self._changes.loosens(entry.staged)
        rules = replace(plan.rules, unkept=unkept, loosens=loosens)
        return replace(plan, killers=killers, workers=self._workers(), by_edits=by_edits, rules=rules)

    def _workers(self) -> int:
        """Spread a long suite over cores that no other candidate uses or waits for."""
        baseline, cores = self._context.baseline, int(self._context.cores)
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
