"""Checks of candidates in slots: staged, checked, restored; tried again where the machinery failed."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from time import monotonic_ns, time_ns

import anyio

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.call_replay import reproduction
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.integrity.process_faults import contested
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.check.shortage_attribution import (
    charged,
    killed_by_itself,
    read_supply,
    shared,
    short_of,
)
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.result.result_model import ValueCounts
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.ledger import CandidateEntry, CandidateTimes, RunContext
from codeflash_parallel.run.run_state import StepKind
from codeflash_parallel.run.setup.evaluator_setup import checks_at_once
from codeflash_parallel.workspace.cache_layout import disk_faults
from codeflash_parallel.workspace.slot.slot import SlotBroken, SlotResidue, StageConflict
from codeflash_parallel.workspace.slot_pool import Slot

#: Attempts at a candidate while the machinery, not the candidate, fails.
MAX_ATTEMPTS = 3
#: New files that change what later processes do without being asked for.
_ACTIVE_SUFFIXES = frozenset({".py", ".pyc", ".pyi", ".so", ".pyd", ".pth", ".egg-link"})
_ACTIVE_NAMES = frozenset(
    {"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "pytest.toml"}
)
#: How many paths one sentence names.
_NAMED = 3


class Examination:
    """A check of a candidate in a slot."""

    async def prepare(self, slot: Slot, /) -> None:
        """Make the slot ready for a candidate that is not staged yet."""

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        """Check what is staged."""
        raise NotImplementedError

    def workspace(self, slot: Slot, /) -> Workspace:
        """Return the slot as what is run there sees it."""
        return slot.workspace

    def ground(self, entry: CandidateEntry, outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        """Return what a rejected candidate was compared with."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Examined:
    """Entry of the step cache for a check.

    Attributes:
        notes, kept_slot, reproduce: of the candidate, after the check.
    """

    outcome: CheckOutcome
    times: CandidateTimes
    notes: tuple[str, ...]
    kept_slot: str
    reproduce: str


@dataclass(frozen=True, slots=True)
class _Attempt:
    """An attempt at a check.

    Attributes:
        left: attempts that may follow this one.
        alone: this one has the machine for itself.
        kills: attempts before it that were ended by SIGKILL of an unknown process.
    """

    entry: CandidateEntry
    examination: Examination
    times: CandidateTimes
    left: int = MAX_ATTEMPTS - 1
    alone: bool = False
    kills: int = 0


class CandidateExaminer:
    """Gives candidates slots, as many at once as cores and memory allow."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._limiter = anyio.CapacityLimiter(context.pool.size)
        self._limit()

    async def judge(self, entry: CandidateEntry, examination: Examination, look: StepKind) -> CheckOutcome:
        """Check one candidate, unless the step cache has the outcome.

        A candidate that is not `CONFIRMING` moves to `CHECKING`, and back to `QUEUED` between attempts.

        Args:
            look: kind of the check.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        cache, content = self._context.cache, entry.staged.content_key
        known = remembered(self._context, entry, look)
        if known is not None:
            self._move(entry, Step.STAGE)
            return known
        times: CandidateTimes = getattr(entry, _book_of(look))
        outcome = await self._tried(_Attempt(entry, examination, times))
        # A busy machine may have made a timeout.
        if outcome.code is not Code.TIMEOUT and Trait.INFRA not in outcome.code.traits:
            examined = _Examined(
                outcome=outcome,
                times=times,
                notes=tuple(entry.notes),
                kept_slot=entry.kept_slot,
                reproduce=entry.reproduce,
            )
            cache.put(_Examined, examined, look, content)
        return outcome

    def _move(self, entry: CandidateEntry, step: Step, slot: int = 0) -> None:
        if entry.stage is not Stage.CONFIRMING:
            self._context.ledger.move(entry, step, slot)

    async def _tried(self, attempt: _Attempt) -> CheckOutcome:
        """Try what the machinery breaks again, and what other candidates may have broken alone."""
        outcome = await self._attempt(attempt)
        while self._is_void(attempt, outcome):
            test = "" if attempt.alone else self._contested(outcome)
            if test:
                attempt.entry.notes.append(
                    f"{test} found something taken: the candidate was tried again alone."
                )
            attempt = replace(
                attempt,
                left=attempt.left - 1,
                alone=attempt.alone or self._is_crowded(outcome),
                kills=attempt.kills + outcome.killed,
            )
            self._move(attempt.entry, Step.RETURN)
            outcome = await self._attempt(attempt)
        return outcome

    def _is_void(self, attempt: _Attempt, outcome: CheckOutcome) -> bool:
        """Return whether an attempt does not count: the next one may be better."""
        crowded = not attempt.alone and self._is_crowded(outcome)
        return attempt.left > 0 and (Trait.INFRA in outcome.code.traits or crowded)

    def _is_crowded(self, outcome: CheckOutcome) -> bool:
        """Return whether other candidates may have made one fail: by time, memory, disk, ports, files."""
        beside = outcome.code is Code.ESCAPED and self._context.pool.size > 1
        short = Trait.CROWDED in outcome.code.traits
        return beside or outcome.starved or short or bool(self._contested(outcome))

    def _contested(self, outcome: CheckOutcome) -> str:
        return contested(outcome.failures) if self._context.pool.size > 1 else ""

    async def _attempt(self, attempt: _Attempt) -> CheckOutcome:
        times, fleet = attempt.times, self._context.fleet
        times.begin_wait(monotonic_ns())
        # Quiet before the slot: a race that waits for all slots must not be waited for by their holders.
        async with self._limiter, self._context.quiet.shared():
            async with self._slot(alone=attempt.alone) as slot:
                held_ns = monotonic_ns()
                times.end_wait(held_ns)
                self._move(attempt.entry, Step.STAGE, slot.workspace.number)
                outcome = await self._examined(attempt, slot)
                trace = slot.trace
                done_ns = monotonic_ns()
            # The pool has restored the slot, or put it aside.
            released_ns = monotonic_ns()
        outcome = with_trace(outcome, trace, self._context.baseline.leftovers)
        if slot.broken:
            await fleet.dismiss(slot.number)
            outcome = CheckOutcome(code=Code.INFRA_SLOT, reason=slot.broken, used=outcome.used)
        times.held_ns += released_ns - held_ns
        times.stage_ns += released_ns - done_ns
        times.add(outcome)
        self._limit()
        return outcome

    @asynccontextmanager
    async def _slot(self, *, alone: bool) -> AsyncIterator[Slot]:
        """Hold a slot; a candidate that starved among others holds all of them."""
        pool = self._context.pool
        if alone:
            async with pool.acquire_all() as slots:
                yield slots[0]
        else:
            async with pool.acquire() as slot:
                yield slot

    async def _examined(self, attempt: _Attempt, slot: Slot) -> CheckOutcome:
        try:
            with disk_faults(slot.folder):
                return await self._staged(attempt, slot)
        except (StageConflict, SlotBroken) as error:
            await self._context.fleet.dismiss(slot.number)
            return CheckOutcome(code=Code.INFRA_SLOT, reason=str(error))
        except EnvironmentFault as error:
            if error.code != "DISK_FULL":
                raise
            return CheckOutcome(code=Code.INFRA_DISK, reason=error.message)

    async def _staged(self, attempt: _Attempt, slot: Slot) -> CheckOutcome:
        entry, examination, begun_ns = attempt.entry, attempt.examination, monotonic_ns()
        await examination.prepare(slot)
        prepared_ns = monotonic_ns()
        await slot.stage(entry.staged.edits)
        attempt.times.stage_ns += monotonic_ns() - prepared_ns
        attempt.times.add_step("start", (prepared_ns - begun_ns) / 1e6)
        staged_ns = time_ns()
        outcome = await self._charged(attempt, slot, await examination.run(entry, slot), staged_ns)
        keeps = outcome.code is not Code.OK and self._context.settings.keep_slots
        if keeps and not self._is_void(attempt, outcome):
            await self._keep(attempt, slot, outcome)
        return outcome

    async def _charged(
        self, attempt: _Attempt, slot: Slot, outcome: CheckOutcome, staged_ns: int
    ) -> CheckOutcome:
        """Attribute a shortage of disk or memory, or a kill each time, to the candidate or the machine."""
        short = short_of(outcome)
        always_killed = outcome.killed and attempt.alone and attempt.kills + 1 == MAX_ATTEMPTS
        if short is None and not always_killed:
            return outcome
        if short is not None and not attempt.alone and self._context.pool.size > 1:
            return shared(outcome, short)
        needed_bytes = self._context.baseline.rss_bytes
        supply = await anyio.to_thread.run_sync(read_supply, slot.folder, staged_ns, needed_bytes)
        if short is None:
            return killed_by_itself(outcome, supply, MAX_ATTEMPTS)
        return charged(outcome, short, supply)

    async def _keep(self, attempt: _Attempt, slot: Slot, outcome: CheckOutcome) -> None:
        """Put the slot aside, with a spec that runs again what went wrong there."""
        entry, workspace = attempt.entry, attempt.examination.workspace(slot)
        runner, baseline = attempt.examination.ground(entry, outcome)
        command = reproduction(runner, baseline, workspace, outcome)
        await slot.keep()
        await self._context.fleet.dismiss(slot.number)
        entry.kept_slot = str(workspace.root)
        entry.reproduce = f"cd {shlex.quote(str(workspace.project))} && {command}"

    def _limit(self) -> None:
        """Set how many checks run at once; the size of the servers changes."""
        context = self._context
        self._limiter.total_tokens = checks_at_once(
            context.setup.shares, context.pool.size, context.baseline, context.fleet.bytes_of_a_slot
        )


def remembered(context: RunContext, entry: CandidateEntry, look: StepKind) -> CheckOutcome | None:
    """Return the outcome of a check that the step cache has; the entry gets what was found beside it."""
    known: _Examined | None = context.cache.get(_Examined, look, entry.staged.content_key)
    if known is None:
        return None
    setattr(entry, _book_of(look), known.times)
    entry.notes[:] = known.notes
    entry.kept_slot, entry.reproduce = known.kept_slot, known.reproduce
    return known.outcome


def _book_of(look: StepKind) -> str:
    return "time" if look is StepKind.SCREEN else "confirming"


def combined(before: CheckOutcome, got: CheckOutcome, values: ValueCounts) -> CheckOutcome:
    """Return the outcome of a check that a candidate passed with that of further calls, which decides.

    Args:
        values: of both.
    """
    return replace(
        before if got.code is Code.OK else replace(got, tests=before.tests, tests_ns=before.tests_ns),
        values=values,
        outside=before.outside or got.outside,
        hints=tuple(dict.fromkeys((*before.hints, *got.hints))),
        timings_ms=dict(Counter(before.timings_ms) + Counter(got.timings_ms)),
        gate_ns=before.gate_ns + got.gate_ns,
        isolation_ns=before.isolation_ns + got.isolation_ns,
    )


def escaped(trace: SlotResidue, leftovers: Collection[str]) -> str:
    """Return what was changed that must not be, one sentence; empty: nothing.

    Args:
        trace: of the slot in which the candidate was checked.
        leftovers: paths that the baseline's own tests change.
    """
    if trace.mirror:
        return f"While it was checked, the mirror's own files were changed: {_named(trace.mirror)}."
    known = set(leftovers)
    changed = [path for path in trace.changed if path not in known]
    if changed:
        return f"Files of the snapshot were changed that it does not edit: {_named(changed)}."
    kinds = {(PurePosixPath(path).parent, PurePosixPath(path).suffix) for path in known}
    added = [path for path in trace.added if path not in known and _is_active(path, kinds)]
    return f"Files were added that later processes would obey: {_named(added)}." if added else ""


def _is_active(path: str, kinds: Collection[tuple[PurePosixPath, str]]) -> bool:
    """Return whether a file is obeyed, and of a kind that the baseline's tests do not make there."""
    place = PurePosixPath(path)
    active = place.suffix in _ACTIVE_SUFFIXES or place.name in _ACTIVE_NAMES or ".git" in place.parts
    return active and (place.parent, place.suffix) not in kinds


def _named(paths: Collection[str]) -> str:
    shown = ", ".join(sorted(paths)[:_NAMED])
    return shown + (f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else "")


def with_trace(outcome: CheckOutcome, trace: SlotResidue, leftovers: Collection[str]) -> CheckOutcome:
    """Reject a candidate that has changed what it must not; one that is rejected has a note of it."""
    why = escaped(trace, leftovers)
    if not why:
        return outcome
    if outcome.code is Code.OK:
        return replace(outcome, code=Code.ESCAPED, reason=why)
    return replace(outcome, notes=(*outcome.notes, why))


def escapes(traces: Mapping[str, SlotResidue], leftovers: Collection[str]) -> dict[str, Disqualification]:
    """Return the candidates that leave a race for changes in their slots.

    Changes of the mirror are not attributed: candidates in other slots run at the same time.

    Args:
        traces: by candidate.
        leftovers: paths that the baseline's tests change, and its arm in that race.
    """
    own = {name: SlotResidue(changed=trace.changed, added=trace.added) for name, trace in traces.items()}
    found = {name: escaped(trace, leftovers) for name, trace in own.items()}
    return {
        name: Disqualification(status=CandidateStatus.REJECTED, code=Code.ESCAPED, reason=why)
        for name, why in found.items()
        if why
    }
