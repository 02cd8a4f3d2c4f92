"""The behavioral phase: candidates stream in, slots judge them, repairs come back through the same stream.

Nothing waits for a batch. The phase is over when its source is exhausted and nothing is in line, in a slot
or with a repairer.
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterable, Iterable
from time import monotonic_ns
from typing import Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream

from codeflash_parallel.behavior.check import CheckOutcome, CheckPlan, check
from codeflash_parallel.behavior.reproduction import reproduction
from codeflash_parallel.behavior.spread import LONG_SUITE_S, xdist_workers
from codeflash_parallel.engine.context import RunContext
from codeflash_parallel.engine.faults import disk_faults
from codeflash_parallel.engine.ledger import Entry, Ledger
from codeflash_parallel.engine.store import save_diff
from codeflash_parallel.model.candidate import Candidate, CandidateId, Submission, Unappliable
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.fingerprint import fingerprint
from codeflash_parallel.model.lifecycle import Stage, Step
from codeflash_parallel.model.outcome import Code, Status
from codeflash_parallel.model.settings import Compare
from codeflash_parallel.worktrees.materialise import materialise
from codeflash_parallel.worktrees.pool import Slot
from codeflash_parallel.worktrees.slot import SlotBroken, StageConflict

#: How often a candidate is tried when the machinery, not the candidate, fails.
MAX_ATTEMPTS = 3

#: Codes of the machinery: they say nothing about the candidate.
INFRA = frozenset({Code.INFRA_SLOT, Code.INFRA_DISK, Code.INFRA_KILLED})


Entries = AsyncIterable[Entry] | Iterable[Entry]


class Repairs(Protocol):
    """Asks for repairs of a rejected candidate, within the budget."""

    async def repair(self, entry: Entry, /) -> Iterable[Submission]:
        """Return the repaired candidates; none when there is no budget, no idea or no evidence."""
        ...


class BehaviorPhase:
    """Judges candidates in slots. One instance serves all rounds of a run, so that it knows what it saw."""

    def __init__(self, context: RunContext, ledger: Ledger, repairs: Repairs) -> None:
        self._context = context
        self._ledger = ledger
        self._repairs = repairs
        self._seen: dict[str, CandidateId] = {}
        self._open = 0
        self._admitted = 0

    async def run(self, source: Entries) -> None:
        """Judge everything that the source gives, and what comes of it. Cancelling kills what runs."""
        endless = float("inf")
        self._submitted, submitted = anyio.create_memory_object_stream[Entry](endless)
        self._prepared, prepared = anyio.create_memory_object_stream[Entry](endless)
        self._open = 1
        with self._submitted, self._prepared:
            async with anyio.create_task_group() as group:
                self._group: TaskGroup = group
                group.start_soon(self._prepare_in_turn, submitted)
                for _ in range(self._context.pool.size):
                    group.start_soon(self._work, prepared.clone())
                prepared.close()
                await self._feed(source)
                self._close_one()

    async def _feed(self, source: Entries) -> None:
        if isinstance(source, AsyncIterable):
            async for entry in source:
                await anyio.lowlevel.checkpoint_if_cancelled()
                self._admit(entry)
            return
        for entry in source:
            self._admit(entry)
            # A generator may take its time: let the workers at what is there.
            await anyio.lowlevel.checkpoint()

    def _admit(self, entry: Entry) -> None:
        self._admitted += 1
        limit = self._context.settings.max_candidates
        if limit and self._admitted > limit:
            self._ledger.finish(
                entry, Status.CANCELLED, Code.CANCELLED, f"The run judges {limit} candidates at most."
            )
            return
        self._open += 1
        self._submitted.send_nowait(entry)

    def _close_one(self) -> None:
        """One thing less to wait for; at none the streams end, and the tasks with them."""
        self._open -= 1
        if self._open == 0:
            self._submitted.close()
            self._prepared.close()

    async def _prepare_in_turn(self, line: MemoryObjectReceiveStream[Entry]) -> None:
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

    async def _work(self, line: MemoryObjectReceiveStream[Entry]) -> None:
        with line:
            async for entry in line:
                await self._check(entry)
                if self._wants_repair(entry):
                    self._group.start_soon(self._repair, entry)
                else:
                    self._close_one()

    def _wants_repair(self, entry: Entry) -> bool:
        return (
            entry.result is not None and entry.result.status is Status.REJECTED and entry.outcome is not None
        )

    async def _repair(self, entry: Entry) -> None:
        answers = await self._repairs.repair(entry)
        await anyio.lowlevel.checkpoint_if_cancelled()
        for submission in answers:
            self._admit(self._ledger.add(submission))
        self._close_one()

    async def _prepare(self, entry: Entry) -> None:
        self._ledger.move(entry, Step.PREPARE)
        context = self._context
        made = await materialise(
            context.mirror,
            context.snapshot,
            entry.submission,
            context.targets,
            interpreter=context.interpreter,
        )
        if isinstance(made, Unappliable):
            code = Code(made.code)
            status = Status.REJECTED if code is Code.PATH_NOT_ALLOWED else Status.UNAPPLIABLE
            self._ledger.finish(entry, status, code, made.reason)
            return
        entry.candidate = made
        entry.diff_path = str(save_diff(context.run_dir, made)) if made.edits else ""
        original = self._duplicate_of(made)
        if original:
            what = "the baseline" if original == "baseline" else original
            reason = f"It has the same code as {what}."
            self._ledger.finish(entry, Status.DUPLICATE, Code.SAME_CODE, reason, duplicate_of=original)
            return
        self._ledger.move(entry, Step.ENQUEUE)

    def _duplicate_of(self, candidate: Candidate) -> str:
        """Return what a candidate repeats; in-flight candidates count, so that none is run twice."""
        context = self._context
        old = {e.path: context.mirror.read(context.snapshot, e.path) for e in candidate.edits}
        new = {e.path: e.new for e in candidate.edits}
        print_ = fingerprint(new)
        if not new or fingerprint(old) == print_:
            return "baseline"
        first = self._seen.setdefault(print_, candidate.id)
        return "" if first == candidate.id else first

    async def _check(self, entry: Entry) -> None:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            entry.attempts = attempt
            outcome = await self._in_slot(entry)
            entry.outcome = outcome
            again = outcome.code in INFRA or (outcome.starved and attempt == 1)
            if not again or attempt == MAX_ATTEMPTS:
                break
            self._ledger.move(entry, Step.RETURN)
        self._conclude(entry, outcome)

    def _conclude(self, entry: Entry, outcome: CheckOutcome) -> None:
        if outcome.code is Code.OK:
            self._ledger.move(entry, Step.PASS)
        elif outcome.code in INFRA:
            self._ledger.finish(entry, Status.INFRA, outcome.code, outcome.reason)
        else:
            self._ledger.finish(entry, Status.REJECTED, outcome.code, outcome.reason)

    async def _in_slot(self, entry: Entry) -> CheckOutcome:
        """Judge in a slot; a candidate that starved among others is judged alone."""
        pool = self._context.pool
        alone = entry.outcome is not None and entry.outcome.starved
        if alone:
            async with pool.acquire_all() as slots:
                return await self._timed(entry, slots[0])
        async with pool.acquire() as slot:
            return await self._timed(entry, slot)

    async def _timed(self, entry: Entry, slot: Slot) -> CheckOutcome:
        """Judge, and add the time that the slot was held; the pool restores it after us."""
        started_ns = monotonic_ns()
        self._ledger.move(entry, Step.STAGE, slot.workspace.number)
        try:
            with disk_faults(slot.folder):
                outcome = await self._judged(entry, slot)
        except (StageConflict, SlotBroken) as error:
            outcome = CheckOutcome(code=Code.INFRA_SLOT, reason=str(error))
        except EnvironmentFault as error:
            if error.code != "DISK_FULL":
                raise
            outcome = CheckOutcome(code=Code.INFRA_DISK, reason=error.message)
        finally:
            entry.held_ns = monotonic_ns() - started_ns
        return outcome

    async def _judged(self, entry: Entry, slot: Slot) -> CheckOutcome:
        await slot.stage(entry.staged.edits)
        outcome = await check(self._plan(), slot.workspace, entry.staged)
        if outcome.code is not Code.OK and self._context.settings.keep_slots:
            await self._keep(entry, slot, outcome)
        else:
            await slot.discard()
        return outcome

    async def _keep(self, entry: Entry, slot: Slot, outcome: CheckOutcome) -> None:
        """Put the slot aside, with a spec that runs again what went wrong there."""
        context, workspace = self._context, slot.workspace
        command = reproduction(context.guest, context.baseline, workspace, outcome)
        await slot.keep()
        entry.kept_slot = str(workspace.root)
        entry.reproduce = f"cd {shlex.quote(str(workspace.project))} && {command}"

    def _plan(self) -> CheckPlan:
        context = self._context
        return CheckPlan(
            workers=self._workers(),
            guest=context.guest,
            baseline=context.baseline,
            limits=context.limits,
            compare_values=context.settings.compare is Compare.VALUES,
        )

    def _workers(self) -> int:
        """Spread a long suite over cores that no other candidate uses or waits for."""
        baseline = self._context.baseline
        stages = [entry.stage for entry in self._ledger]
        suite_s = sum(baseline.durations_ns.get(test, 0) for test in baseline.selected) / 1e9
        has_xdist = "xdist" in baseline.plugins
        waiting = sum(stage in {Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED} for stage in stages)
        workers = xdist_workers(
            suite_s=suite_s,
            cores=self._context.cores,
            in_use=stages.count(Stage.CHECKING),
            waiting=waiting,
            has_xdist=has_xdist,
        )
        if not has_xdist and suite_s >= LONG_SUITE_S and self._context.cores > 1:
            self._ledger.warn("The suite is long and pytest-xdist is not installed: idle cores stay idle.")
        return workers
