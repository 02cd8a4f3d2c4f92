"""Admission to the race and to the verdict: all tests that were asked for, in a clean process.

Screening runs the tests that can notice a change of the targets, in forks of warm servers. A candidate that
changes more than the bodies of the targets has to pass all other tests, too, before it is called equivalent
or races. No candidate is announced that has not passed all tests and captured calls in new processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome, CheckPlan
from codeflash_parallel.check.checker import confirm, rest
from codeflash_parallel.check.dispatch.fork_points import ForkContext, ForkPoint, furthest
from codeflash_parallel.check.session.runner_session import RunnerConfig, hashed
from codeflash_parallel.process.environment import HASH_SEEDS
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.candidate.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    digest_of,
)
from codeflash_parallel.result.candidate.lifecycle import Step
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer, Examination
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.step_cache import StepKind
from codeflash_parallel.workspace.slot_pool import Slot

#: How many test ids one message names.
_NAMED = 5

#: The hash seed under which the baseline has run all tests; screening has the other one.
_SEED = HASH_SEEDS[0]

_Check = Callable[[CheckPlan, Slot, Candidate], Awaitable[CheckOutcome]]


async def _rest(plan: CheckPlan, slot: Slot, candidate: Candidate) -> CheckOutcome:
    return await rest(plan, _workspace(slot), candidate, slot)


async def _clean(plan: CheckPlan, slot: Slot, candidate: Candidate) -> CheckOutcome:
    return await confirm(plan, _workspace(slot), candidate, slot)


def _workspace(slot: Slot) -> Workspace:
    return hashed(slot.workspace, _SEED)


class RaceAdmission:
    """Looks at candidates before and after a race, several at once where there are slots.

    Args:
        races: whether equivalent candidates are raced: then those that owe tests run all tests in a new
            process at once, as leaders have to, and not only those that screening left out.
    """

    def __init__(self, plan: CheckPlan, ledger: Ledger, judging: CandidateExaminer, *, races: bool) -> None:
        self._plan, self._ledger, self._judging, self._races = plan, ledger, judging, races
        self._confirmed: set[str] = set()
        self._looking = anyio.Lock()
        self._looked = False

    def screened(self, entry: CandidateEntry) -> None:
        """Note whether a candidate that passed screening has to pass other tests, too."""
        entry.owes_tests = bool(self._plan.rest) and self._reaches_out(entry)

    async def admit(self, entries: Sequence[CandidateEntry]) -> None:
        """Reject those that fail a test which screening left out.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        await _each(self._admit, [entry for entry in entries if entry.owes_tests])

    async def compare(self, entries: Sequence[CandidateEntry], fresh: Examination) -> None:
        """Reject those that differ from the baseline on inputs that were made for the whole field.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        await _each(partial(self._look, examination=fresh, look=StepKind.FRESH), entries)

    def _reaches_out(self, entry: CandidateEntry) -> bool:
        """Say whether a candidate changes more than bodies of targets: any test may notice that."""
        ground = ForkContext(targets=self._plan.guest.targets, sources=self._plan.sources)
        return furthest(entry.staged.edits, ground).point is not ForkPoint.COLLECTED

    async def _admit(self, entry: CandidateEntry) -> None:
        look = StepKind.CLEAN if self._races else StepKind.REST
        if await self._look(entry, _All(self, _clean if self._races else _rest), look):
            entry.owes_tests = False
            if self._races:
                self._confirmed.add(entry.id)

    async def _look(self, entry: CandidateEntry, examination: Examination, look: StepKind) -> bool:
        """Look at a candidate that has passed once more; return whether it still does."""
        outcome = await self._judging.judge(
            entry,
            examination,
            entry.confirming,
            look=look,
            taken=lambda number: self._ledger.move(entry, Step.STAGE, number),
            again=lambda: self._ledger.move(entry, Step.RETURN),
        )
        if outcome.code is Code.OK:
            entry.outcome = outcome if look is StepKind.FRESH else entry.outcome
            self._ledger.move(entry, Step.PASS)
        elif Trait.INFRA in outcome.code.traits:
            self._ledger.finish(entry, CandidateStatus.INFRA, outcome.code, outcome.reason)
        else:
            entry.outcome = outcome
            self._ledger.finish(entry, CandidateStatus.REJECTED, outcome.code, outcome.reason)
        return outcome.code is Code.OK

    async def confirm(self, entries: Sequence[CandidateEntry]) -> Mapping[str, Disqualification]:
        """Look at candidates in new processes; return why some of them cannot be announced.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        out: dict[str, Disqualification] = {}

        async def look(entry: CandidateEntry) -> None:
            why = await self._confirm(entry)
            if why is not None:
                out[entry.id] = why

        await _each(look, [entry for entry in entries if entry.id not in self._confirmed])
        return out

    async def _confirm(self, entry: CandidateEntry) -> Disqualification | None:
        self._ledger.move(entry, Step.CONFIRM)
        outcome = await self._judging.judge(
            entry,
            _All(self, _clean),
            entry.confirming,
            look=StepKind.CLEAN,
            taken=lambda _number: None,
            again=lambda: None,
        )
        self._ledger.move(entry, Step.MEASURE)
        if outcome.code is Code.OK:
            self._confirmed.add(entry.id)
            return None
        if Trait.INFRA in outcome.code.traits:
            return Disqualification(status=CandidateStatus.INFRA, code=outcome.code, reason=outcome.reason)
        entry.outcome = outcome
        if {*outcome.tests.failed_ids, *outcome.tests.missing_ids} & set(self._plan.rest):
            return Disqualification(status=CandidateStatus.REJECTED, code=outcome.code, reason=outcome.reason)
        reason = f"it was equivalent in its first check and is not in a clean process: {outcome.reason}"
        return Disqualification(
            status=CandidateStatus.REJECTED, code=Code.DIFFERS_IN_CLEAN_PROCESS, reason=reason
        )

    def ground(self) -> tuple[RunnerConfig, Baseline]:
        """Return what candidates are held against."""
        return self._plan.guest, self._plan.baseline

    # --- tests that the preflight saw only once --------------------------------------------------------

    async def examine(self, entry: CandidateEntry, slot: Slot, check: _Check) -> CheckOutcome:
        """Check what is staged; what fails and was seen only once is first looked at on the baseline.

        Raises:
            EnvironmentFault: the unchanged code fails the check of where code comes from, too.
        """
        plan = self._plan
        outcome = await check(plan, slot, entry.staged)
        blamed = {*outcome.tests.failed_ids, *outcome.tests.missing_ids} & set(plan.rest)
        if blamed or Trait.PROVENANCE in outcome.code.traits:
            await self._look_again(slot, entry.staged)
        return outcome if self._plan is plan else await check(self._plan, slot, entry.staged)

    async def _look_again(self, slot: Slot, staged: Candidate) -> None:
        """Run all tests once more on the unchanged snapshot, unless that was done."""
        async with self._looking:
            if self._looked:
                return
            await slot.discard()
            self._leave_out(await _clean(self._plan, slot, self._snapshot()))
            await slot.discard()
            await slot.stage(staged.edits)
            self._looked = True

    def _snapshot(self) -> Candidate:
        """Return the unchanged snapshot, as a candidate."""
        sources = self._plan.sources.items()
        edits = tuple(Edit(path=path, old_digest=digest_of(text), new=text) for path, text in sources)
        return Candidate(id=CandidateId("baseline"), origin=CandidateOrigin.PATCH, edits=edits)

    def _leave_out(self, seen: CheckOutcome) -> None:
        if Trait.PROVENANCE in seen.code.traits:
            why = f"The unchanged code fails the check of a new process as well: {seen.reason}"
            raise EnvironmentFault(seen.code.value, why)
        baseline = self._plan.baseline
        shaky = {*seen.tests.failed_ids, *seen.tests.missing_ids} & set(self._plan.rest)
        if not shaky:
            return
        names = ", ".join(sorted(shaky)[:_NAMED])
        self._ledger.warn(f"Tests that disagree with themselves on the baseline do not count: {names}.")
        asked = tuple(test for test in baseline.asked if test not in shaky)
        expected = {test: baseline.asked_expected[test] for test in asked}
        self._plan = replace(self._plan, baseline=replace(baseline, asked=asked, asked_expected=expected))


@dataclass(frozen=True, slots=True)
class _All:
    """All tests that were asked for, or what is left of them (`judging.Examination`)."""

    admission: RaceAdmission
    check: _Check

    async def prepare(self, slot: Slot, /) -> None:
        """New processes need nothing."""

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        return await self.admission.examine(entry, slot, self.check)

    def workspace(self, slot: Slot, /) -> Workspace:
        return _workspace(slot)

    def ground(self, _entry: CandidateEntry, _outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        return self.admission.ground()


async def _each(
    work: Callable[[CandidateEntry], Coroutine[Any, Any, object]], entries: Sequence[CandidateEntry]
) -> None:
    """Work on all of them at once, the longest first: the shortest fill what is left of the time."""
    async with anyio.create_task_group() as group:
        for entry in sorted(entries, key=lambda entry: -entry.time.tests_ns):
            group.start_soon(work, entry)
