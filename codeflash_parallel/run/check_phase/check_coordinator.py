"""The behavioral phase: candidates stream in, slots judge them, repairs come back through the same stream.

Nothing waits for a batch. The phase is over when its source is exhausted and nothing is in line, in a slot
or with a repairer.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from time import monotonic_ns
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    Submission,
    Unappliable,
)
from codeflash_parallel.result.candidate.lifecycle import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer
from codeflash_parallel.run.check_phase.race_admission import RaceAdmission
from codeflash_parallel.run.check_phase.screening_check import EvidenceWanted, ScreeningCheck
from codeflash_parallel.run.check_phase.target_callers import Callers
from codeflash_parallel.run.intake.candidate_preparation import CandidatePreparer
from codeflash_parallel.run.intake.candidate_sources import Entries
from codeflash_parallel.run.state.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.state.run_context import RunContext
from codeflash_parallel.run.store.run_folder import save_diff
from codeflash_parallel.run.store.step_cache import StepKind

#: Where a candidate is that was not judged yet.
_NOT_JUDGED = frozenset({Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED, Stage.CHECKING})

#: So many submissions are taken from a source ahead of those that are judged: it may be endless.
AHEAD = 100


class Repairs(EvidenceWanted, Protocol):
    """Asks for repairs of a rejected candidate, within the budget."""

    async def repair(self, entry: CandidateEntry, /) -> Iterable[Submission]:
        """Return the repaired candidates; none when there is no budget, no idea or no evidence."""
        ...


class CheckCoordinator:
    """Judges candidates in slots. One instance serves all rounds of a run, so that it knows what it saw."""

    def __init__(
        self,
        context: RunContext,
        ledger: Ledger,
        drafting: CandidatePreparer,
        judging: CandidateExaminer,
        admission: RaceAdmission,
        repairs: Repairs,
    ) -> None:
        self._context = context
        self._ledger = ledger
        self._drafting = drafting
        self._judging = judging
        self._admission = admission
        self._cache = context.cache
        self._repairs = repairs
        self._screening = ScreeningCheck(context, ledger, drafting.changes, repairs)
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
