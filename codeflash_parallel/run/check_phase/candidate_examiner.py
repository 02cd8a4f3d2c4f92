"""Judge candidates in slots: staged, checked, restored; tried again where the machinery failed."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from time import monotonic_ns, time_ns
from typing import Any, Protocol

import anyio

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.dispatch.step_times import ProcessUsage
from codeflash_parallel.check.integrity.process_faults import contested
from codeflash_parallel.check.reproduction_command import reproduction
from codeflash_parallel.check.resources.resource_reader import read_supply
from codeflash_parallel.check.resources.shortage_attribution import (
    charged,
    killed_by_itself,
    shared,
    short_of,
)
from codeflash_parallel.check.session.runner_session import RunnerConfig
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.fault_conversion import disk_faults
from codeflash_parallel.run.ledger import CandidateEntry, CandidateTimes
from codeflash_parallel.run.run_context import RunContext
from codeflash_parallel.run.setup.machine_shares import RECENT, CheckCapacity, at_once, cores_of_a_check
from codeflash_parallel.run.step_cache import StepKind
from codeflash_parallel.workspace.slot.slot import SlotBroken, StageConflict
from codeflash_parallel.workspace.slot.slot_residue import SlotResidue
from codeflash_parallel.workspace.slot_pool import Slot

#: How often a candidate is tried when the machinery, not the candidate, fails.
MAX_ATTEMPTS = 3

#: Stands for the slot of a check that was not made again.
_NO_SLOT = 0


class Examination(Protocol):
    """What is done with a candidate in a slot."""

    async def prepare(self, slot: Slot, /) -> None:
        """Make the slot ready for a candidate that is not staged yet."""
        ...

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        """Judge what is staged."""
        ...

    def workspace(self, slot: Slot, /) -> Workspace:
        """Return the slot as what is run there sees it."""
        ...

    def ground(self, entry: CandidateEntry, outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        """Return what a rejected candidate was held against."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class _Examined:
    """What the step cache holds of a check.

    Attributes:
        time: of the candidate's book, see `CandidateTimes.recorded`.
        notes, kept_slot, reproduce: of the entry, after the check.
    """

    outcome: CheckOutcome
    time: Mapping[str, Any]
    notes: tuple[str, ...]
    kept_slot: str
    reproduce: str


@dataclass(frozen=True, slots=True)
class _Case:
    """A candidate, what is to be done with it, and the book in which its time is written down.

    Attributes:
        left: attempts that may follow this one.
        alone: this one has the machine for itself.
        kills: how many attempts before it were ended by SIGKILL from nobody known.
    """

    entry: CandidateEntry
    examination: Examination
    time: CandidateTimes
    taken: Callable[[int], None]
    again: Callable[[], None]
    left: int = MAX_ATTEMPTS - 1
    alone: bool = False
    kills: int = 0


class CandidateExaminer:
    """Gives candidates slots, as many at once as the machine bears."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._limiter = anyio.CapacityLimiter(context.pool.size)
        self._recent: deque[ProcessUsage] = deque(maxlen=RECENT)
        self._adjust()

    async def judge(
        self,
        entry: CandidateEntry,
        examination: Examination,
        time: CandidateTimes,
        *,
        look: StepKind,
        taken: Callable[[int], None],
        again: Callable[[], None],
    ) -> CheckOutcome:
        """Judge one candidate, unless the step cache has its outcome.

        Args:
            entry: the candidate.
            examination: what is done with it.
            time: the candidate's book in which this is written down.
            look: which check it is.
            taken: called with the number of the slot that was taken; 0 when none was needed.
            again: called when the candidate has to go back in line.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        cache, content = self._context.cache, entry.staged.content_key
        known: _Examined | None = cache.get(_Examined, look, content)
        if known is not None:
            taken(_NO_SLOT)
            time.restore(known.time)
            entry.notes[:] = known.notes
            entry.kept_slot, entry.reproduce = known.kept_slot, known.reproduce
            return known.outcome
        outcome = await self._judged(_Case(entry, examination, time, taken, again))
        # A busy machine may have made a timeout.
        if outcome.code is not Code.TIMEOUT and Trait.INFRA not in outcome.code.traits:
            examined = _Examined(
                outcome=outcome,
                time=time.recorded(),
                notes=tuple(entry.notes),
                kept_slot=entry.kept_slot,
                reproduce=entry.reproduce,
            )
            cache.put(_Examined, examined, look, content)
        return outcome

    async def _judged(self, case: _Case) -> CheckOutcome:
        """Try what the machinery breaks again, and what other candidates may have broken alone."""
        outcome = await self._attempt(case)
        while self._goes_on(case, outcome):
            test = "" if case.alone else self._contested(outcome)
            if test:
                case.entry.notes.append(f"{test} found something taken: the candidate was tried again alone.")
            case = replace(
                case,
                left=case.left - 1,
                alone=case.alone or self._crowded(outcome),
                kills=case.kills + outcome.killed,
            )
            case.again()
            outcome = await self._attempt(case)
        return outcome

    def _goes_on(self, case: _Case, outcome: CheckOutcome) -> bool:
        """Say whether an attempt does not count: the next one may be better."""
        crowded = not case.alone and self._crowded(outcome)
        return case.left > 0 and (Trait.INFRA in outcome.code.traits or crowded)

    def _crowded(self, outcome: CheckOutcome) -> bool:
        """Say whether those beside a candidate may have made it fail: by time, memory, disk, ports, files."""
        beside = outcome.code is Code.ESCAPED and self._context.pool.size > 1
        short = Trait.CROWDED in outcome.code.traits
        return beside or outcome.starved or short or bool(self._contested(outcome))

    def _contested(self, outcome: CheckOutcome) -> str:
        return contested(outcome.failures) if self._context.pool.size > 1 else ""

    async def _attempt(self, case: _Case) -> CheckOutcome:
        time = case.time
        case.entry.attempts += 1
        time.waits(monotonic_ns())
        # Quiet before the slot: who waits for all slots must not be waited for by those who have them.
        async with self._limiter, self._context.quiet.shared():
            async with self._slot(alone=case.alone) as slot:
                held_ns = monotonic_ns()
                time.served(held_ns)
                case.taken(slot.workspace.number)
                outcome = await self._examined(case, slot)
                trace = slot.trace
                done_ns = monotonic_ns()
            # The pool has restored the slot, or put it aside.
            released_ns = monotonic_ns()
        outcome = with_trace(outcome, trace, self._context.baseline.leftovers)
        if slot.broken:
            await self._context.fleet.dismiss(slot.number)
            outcome = CheckOutcome(code=Code.INFRA_SLOT, reason=slot.broken, used=outcome.used)
        time.held_ns += released_ns - held_ns
        time.stage_ns += released_ns - done_ns
        time.add(outcome)
        self._learn(outcome)
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

    async def _examined(self, case: _Case, slot: Slot) -> CheckOutcome:
        try:
            with disk_faults(slot.folder):
                return await self._staged(case, slot)
        except (StageConflict, SlotBroken) as error:
            await self._context.fleet.dismiss(slot.number)
            return CheckOutcome(code=Code.INFRA_SLOT, reason=str(error))
        except EnvironmentFault as error:
            if error.code != "DISK_FULL":
                raise
            return CheckOutcome(code=Code.INFRA_DISK, reason=error.message)

    async def _staged(self, case: _Case, slot: Slot) -> CheckOutcome:
        entry, begun_ns = case.entry, monotonic_ns()
        await case.examination.prepare(slot)
        prepared_ns = monotonic_ns()
        await slot.stage(entry.staged.edits)
        case.time.stage_ns += monotonic_ns() - prepared_ns
        case.time.steps_ms["start"] += (prepared_ns - begun_ns) / 1e6
        staged_ns = time_ns()
        outcome = await self._charged(case, slot, await case.examination.run(entry, slot), staged_ns)
        keeps = outcome.code is not Code.OK and self._context.settings.keep_slots
        if keeps and not self._goes_on(case, outcome):
            await self._keep(case, slot, outcome)
        return outcome

    async def _charged(self, case: _Case, slot: Slot, outcome: CheckOutcome, staged_ns: int) -> CheckOutcome:
        """Say who is to blame where a check got no more disk or memory, or was killed each time."""
        short = short_of(outcome)
        always_killed = outcome.killed and case.alone and case.kills + 1 == MAX_ATTEMPTS
        if short is None and not always_killed:
            return outcome
        if short is not None and not case.alone and self._context.pool.size > 1:
            return shared(outcome, short)
        needed_bytes = self._context.baseline.rss_bytes
        supply = await anyio.to_thread.run_sync(read_supply, slot.folder, staged_ns, needed_bytes)
        if short is None:
            return killed_by_itself(outcome, supply, MAX_ATTEMPTS)
        return charged(outcome, short, supply)

    async def _keep(self, case: _Case, slot: Slot, outcome: CheckOutcome) -> None:
        """Put the slot aside, with a spec that runs again what went wrong there."""
        context, workspace = self._context, case.examination.workspace(slot)
        guest, baseline = case.examination.ground(case.entry, outcome)
        command = reproduction(guest, baseline, workspace, outcome)
        await slot.keep()
        await context.fleet.dismiss(slot.number)
        case.entry.kept_slot = str(workspace.root)
        case.entry.reproduce = f"cd {shlex.quote(str(workspace.project))} && {command}"

    # --- how many at once ------------------------------------------------------------------------------

    def _learn(self, outcome: CheckOutcome) -> None:
        self._recent.append(outcome.used)
        self._adjust()

    def _adjust(self) -> None:
        context, baseline = self._context, self._context.baseline
        alone = ProcessUsage(cpu_ns=baseline.cpu_ns, wall_ns=baseline.wall_ns, rss_bytes=baseline.rss_bytes)
        room = CheckCapacity(slots=context.pool.size, cores=context.cores, memory_bytes=context.free_bytes)
        rss_bytes = max(used.rss_bytes for used in (alone, *self._recent))
        each = rss_bytes + context.fleet.bytes_of_a_slot
        cores_each = cores_of_a_check(alone, self._recent)
        self._limiter.total_tokens = at_once(room, cores_each=cores_each, bytes_each=each)


#: New files that change what later processes do without being asked for.
_ACTIVE_SUFFIXES = frozenset({".py", ".pyc", ".pyi", ".so", ".pyd", ".pth", ".egg-link"})
_ACTIVE_NAMES = frozenset(
    {"pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "pytest.toml"}
)
#: How many paths one sentence names.
_NAMED = 3


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
    """Say whether a file is obeyed, and of a kind that the baseline's tests do not make there."""
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
    """Return who leaves a race for what was found in its slot.

    Whose the mirror's changes are is not known there: those who race in other slots run at the same time.

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
