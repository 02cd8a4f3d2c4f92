"""The check phase: candidates stream in, slots check them, repairs come back through the same stream.

A screening is over when its source is exhausted and no candidate waits, is in a slot or with a repairer.
Screening runs the tests that can notice a change of the targets, in forks of warm servers. Candidates that
pass make calls with fresh inputs; one that changes more than the bodies of the targets has to pass all other
tests, too, before it is called equivalent or races. No candidate is announced that has not passed all tests
and captured calls in new processes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from time import monotonic_ns

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel.candidates.code_changes import Constant
from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.check.checker import confirm, rest
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.session.runner_session import RunnerConfig, hashed
from codeflash_parallel.config.environment import HASH_SEEDS
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    Edit,
    Unappliable,
    digest_of,
)
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.events import Stage, Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Trait
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer, Examination
from codeflash_parallel.run.check_phase.fresh_inputs import FreshInputs
from codeflash_parallel.run.check_phase.host_examiner import HostExaminer
from codeflash_parallel.run.check_phase.screening_check import ScreeningCheck
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import CandidateEntry, RunContext
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.remote_hosts import RemoteHosts
from codeflash_parallel.run.run_folder import save_diff
from codeflash_parallel.run.run_preparation import CandidatePreparer, Entries, known
from codeflash_parallel.run.run_state import StepKind
from codeflash_parallel.workspace.slot_pool import Slot

#: Stages of a candidate that was not checked yet.
_UNCHECKED = frozenset({Stage.SUBMITTED, Stage.PREPARING, Stage.QUEUED, Stage.CHECKING})

#: So many submissions are taken from a source ahead of those that are checked: it may be endless.
AHEAD = 100
#: Candidates whose constants are told to other hosts before the first of them is checked.
_TOLD = 500


class CheckCoordinator:
    """Checks candidates. One instance serves all rounds of a run, so that duplicates are found.

    Args:
        hosts: that check the candidates in the place of this one.
        constants: of which fresh inputs are made besides those of the candidates.

    Attributes:
        admission: checks with all tests in new processes, also of the leaders of a race.
    """

    def __init__(
        self,
        context: RunContext,
        preparer: CandidatePreparer,
        providers: ProviderRequests,
        hosts: RemoteHosts | None = None,
        constants: Sequence[Constant] = (),
    ) -> None:
        self._context, self._ledger, self._cache = context, context.ledger, context.cache
        self._preparer, self._providers = preparer, providers
        self._examiner = CandidateExaminer(context) if hosts is None else HostExaminer(context, hosts)
        self.admission = RaceAdmission(context, self._examiner)
        self._screening = ScreeningCheck(context, providers)
        self._fresh = FreshInputs(context=context, constants=constants)
        self._hosts = hosts
        self._compared: set[CandidateId] = set()
        self._preparing = anyio.Lock()
        self._ahead = anyio.Semaphore(AHEAD if hosts is None else max(AHEAD, hosts.ahead))
        self._enough = anyio.CancelScope()
        self._admitted = 0

    # --- ahead of the checks ---------------------------------------------------------------------------

    async def learn_fresh(self, source: Entries, learned: anyio.Event) -> None:
        """Make fresh inputs for candidates that are there; for others that is done once all have come."""
        there = known(source, self._context.settings.max_candidates)
        await self._fresh.learn(await self._preparer.prepare_all(there))
        learned.set()

    async def tell_constants(self, source: Entries) -> None:
        """Tell other hosts the constants of the first candidates: all of them make the same inputs.

        Those of later ones are told as they come: nobody waits until all are prepared.
        """
        there = known(source, min(self._context.settings.max_candidates or _TOLD, _TOLD))
        candidates = await self._preparer.prepare_all(there)
        if self._hosts is not None:
            self._hosts.use_constants(self._fresh.constants_of(candidates))

    def watch_callers(self, callers: WatchedBaseline | None) -> None:
        """Compare from now on the calls of functions that are timed in the place of the targets."""
        self._screening.watched.callers = callers

    async def learn_watched(self, source: Entries, learned: anyio.Event) -> None:
        """Learn what calls of watched functions give, after the fresh inputs, before a candidate needs it."""
        await learned.wait()
        async with self._context.quiet.shared():
            there = known(source, self._context.settings.max_candidates)
            for candidate in await self._preparer.prepare_all([e for e in there if e.result is None]):
                await self._screening.watched.learn(candidate)

    # --- screening -------------------------------------------------------------------------------------

    async def screen(self, source: Entries) -> None:
        """Screen everything that the source gives, and its repairs. Cancelling kills what runs."""
        with anyio.CancelScope() as self._enough:
            async with anyio.create_task_group() as group:
                if isinstance(source, Sequence):
                    for entry in source:
                        await self._admit(entry, group)
                else:
                    async with aclosing(source):
                        async for entry in source:
                            await self._admit(entry, group)
        if self._enough.cancel_called:
            wanted = self._context.settings.stop_after
            for entry in self._ledger:
                if entry.stage in _UNCHECKED:
                    self._cancel(entry, f"No more than {wanted} right candidates were wanted.")

    def _cancel(self, entry: CandidateEntry, reason: str) -> None:
        self._ledger.finish(entry, CandidateStatus.CANCELLED, Code.CANCELLED, reason)

    async def _admit(self, entry: CandidateEntry, group: TaskGroup) -> None:
        await self._ahead.acquire()
        await self._prepare(entry)
        group.start_soon(self._screened, entry)
        await anyio.lowlevel.checkpoint()  # in this order to the slots

    async def _screened(self, entry: CandidateEntry) -> None:
        try:
            await self._screen_family(entry)
        finally:
            self._ahead.release()

    async def _screen_family(self, entry: CandidateEntry) -> None:
        """Screen a candidate that was prepared, then its repairs."""
        if entry.stage is not Stage.QUEUED:
            return
        entry.outcome = outcome = await self._examiner.judge(entry, self._screening, StepKind.SCREEN)
        if outcome.code is Code.OK:
            entry.owes_tests = self.admission.owes_tests(entry.staged)
            self._ledger.move(entry, Step.PASS)
            await self._stop_if_enough(entry)
            return
        is_infra = Trait.INFRA in outcome.code.traits
        status = CandidateStatus.INFRA if is_infra else CandidateStatus.REJECTED
        self._ledger.finish(entry, status, outcome.code, outcome.reason)
        async with anyio.create_task_group() as group:
            for repaired in await self._repaired(entry):
                await self._prepare(repaired)
                group.start_soon(self._screen_family, repaired)

    async def _repaired(self, entry: CandidateEntry) -> list[CandidateEntry]:
        """Return what a repairer makes of a candidate that its check rejected."""
        if entry.result is None or entry.result.status is not CandidateStatus.REJECTED:
            return []
        return [self._ledger.add(submission) for submission in await self._providers.repair(entry)]

    async def _prepare(self, entry: CandidateEntry) -> None:
        """Make edits of a submission, one after the other: of two equal ones the later is the duplicate."""
        self._admitted += 1
        limit = self._context.settings.max_candidates
        if limit and self._admitted > limit:
            self._cancel(entry, f"The run judges {limit} candidates at most.")
            return
        async with self._preparing:
            self._ledger.move(entry, Step.PREPARE)
            made = await self._preparer.candidate(entry)
            if isinstance(made, Unappliable):
                code = Code(made.code)
                is_refused = code is Code.PATH_NOT_ALLOWED
                status = CandidateStatus.REJECTED if is_refused else CandidateStatus.UNAPPLIABLE
                self._ledger.finish(entry, status, code, made.reason)
                return
            entry.candidate = made
            entry.flags = self._context.changes.flags_of(made)
            entry.diff_path = str(save_diff(self._context.run_dir, made)) if made.edits else ""
            original = self._duplicate_of(made)
        if original:
            name = "the baseline" if original == "baseline" else original
            reason = f"It has the same code as {name}."
            self._ledger.finish(
                entry, CandidateStatus.DUPLICATE, Code.SAME_CODE, reason, duplicate_of=original
            )
            return
        if self._hosts is not None:
            self._hosts.use_constants(self._fresh.constants_in(made))
        self._ledger.move(entry, Step.ENQUEUE)
        entry.time.begin_wait(monotonic_ns())

    def _duplicate_of(self, candidate: Candidate) -> str:
        """Return what a candidate repeats; in-flight candidates count, so that none is run twice.

        The first one is in the step cache: answers of providers may come in another order when the run is
        resumed.
        """
        changes = self._context.changes
        if changes.is_none(candidate):
            return "baseline"
        code = changes.print_of(candidate)
        first: str | None = self._cache.get(str, StepKind.FIRST, code)
        if first is None:
            self._cache.put(str, candidate.id, StepKind.FIRST, code)
        return "" if first in {None, candidate.id} else str(first)

    async def _stop_if_enough(self, passed: CandidateEntry) -> None:
        """End the screening once as many are right as were wanted; refinements do not count.

        One that still owes tests may fail them when the others are gone: those tests are run first.
        """
        wanted = self._context.settings.stop_after
        if not wanted or passed.is_refinement:
            return
        await self.admission.admit(passed)
        right = [e for e in self._ledger if e.passed and not e.owes_tests and not e.is_refinement]
        if len(right) >= wanted:
            self._enough.cancel()

    # --- after screening -------------------------------------------------------------------------------

    async def complete(self, learned: anyio.Event | None) -> list[CandidateEntry]:
        """Have candidates that passed screening run the tests that they owe, and calls with fresh inputs.

        Args:
            learned: set when the fresh inputs are made; `None`: other hosts make them.

        Returns:
            The repairs of those that are rejected.
        """
        passed = [entry for entry in self._ledger.newly_passed() if entry.id not in self._compared]
        if not passed:
            return []
        self._compared.update(entry.id for entry in passed)
        if learned is not None:
            await learned.wait()
            await self._fresh.cover(passed)
        owing = any(entry.owes_tests for entry in passed)
        tests = "tests that the first check left out, " if owing else ""
        self._context.steps.begin(f"{tests}calls with fresh inputs")
        async with anyio.create_task_group() as group:
            # The longest first: the shortest fill what is left of the time.
            for entry in sorted(passed, key=lambda entry: -entry.time.tests_ns):
                group.start_soon(self._complete, entry)
        repaired: list[CandidateEntry] = []
        async with anyio.create_task_group() as group:
            for entry in passed:
                group.start_soon(self._repair_into, repaired, entry)
        return repaired

    async def _complete(self, entry: CandidateEntry) -> None:
        await self.admission.admit(entry)
        if (self._fresh.known or isinstance(self._examiner, HostExaminer)) and entry.passed:
            await self.admission.passes(entry, self._fresh, StepKind.FRESH)

    async def _repair_into(self, repaired: list[CandidateEntry], entry: CandidateEntry) -> None:
        repaired.extend(await self._repaired(entry))


#: How many test ids one message names.
_NAMED = 5
#: The hash seed under which the baseline has run all tests; screening has the other one.
_SEED = HASH_SEEDS[0]


_Check = Callable[..., Awaitable[CheckOutcome]]


class RaceAdmission:
    """Checks candidates that have passed screening once more.

    Candidates that owe tests run all of them at once where they are going to race, as leaders have to, and
    else only those that screening left out.
    """

    def __init__(self, context: RunContext, examiner: CandidateExaminer | HostExaminer) -> None:
        self._plan, self._context, self._ledger, self._examiner = (
            context.plan,
            context,
            context.ledger,
            examiner,
        )
        self._confirmed: set[str] = set()
        self._turn = anyio.Lock()
        self._has_rerun = False

    def owes_tests(self, candidate: Candidate) -> bool:
        """Return whether a candidate changes more than bodies of targets: any test may notice that."""
        return (
            bool(self._plan.rest)
            and self._context.changes.serving(candidate).point is not ForkPoint.COLLECTED
        )

    async def admit(self, entry: CandidateEntry) -> None:
        """Reject a candidate that owes tests and fails one.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        races = self._context.races
        look = StepKind.CLEAN if races else StepKind.REST
        if entry.owes_tests and await self.passes(entry, _AllTests(self, confirm if races else rest), look):
            entry.owes_tests = False
            if races:
                self._confirmed.add(entry.id)

    async def passes(self, entry: CandidateEntry, examination: Examination, look: StepKind) -> bool:
        """Check a candidate that has passed once more; return whether it still does.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        outcome = await self._examiner.judge(entry, examination, look)
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
        """Check leaders in new processes; return why some of them cannot be announced.

        Raises:
            EnvironmentFault: no slot is left. Cancelling kills what runs.
        """
        out: dict[str, Disqualification] = {}

        async def look(entry: CandidateEntry) -> None:
            why = await self._confirm(entry)
            if why is not None:
                out[entry.id] = why

        async with anyio.create_task_group() as group:
            for entry in entries:
                if entry.id not in self._confirmed:
                    group.start_soon(look, entry)
        return out

    async def _confirm(self, entry: CandidateEntry) -> Disqualification | None:
        self._ledger.move(entry, Step.CONFIRM)
        outcome = await self._examiner.judge(entry, _AllTests(self, confirm), StepKind.CLEAN)
        self._ledger.move(entry, Step.MEASURE)
        status, code, reason = CandidateStatus.REJECTED, outcome.code, outcome.reason
        if code is Code.OK:
            self._confirmed.add(entry.id)
            return None
        if Trait.INFRA in code.traits:
            status = CandidateStatus.INFRA
        else:
            entry.outcome = outcome
            if not self._blamed(outcome):
                code = Code.DIFFERS_IN_CLEAN_PROCESS
                reason = f"it was equivalent in its first check and is not in a clean process: {reason}"
        return Disqualification(status=status, code=code, reason=reason)

    def _blamed(self, outcome: CheckOutcome) -> set[str]:
        """Return the tests that screening leaves out and that failed or are missing."""
        return {*outcome.tests.failed_ids, *outcome.tests.missing_ids} & set(self._plan.rest)

    # --- tests that the preflight ran only once --------------------------------------------------------

    async def examine(self, entry: CandidateEntry, slot: Slot, check: _Check) -> CheckOutcome:
        """Check what is staged; tests that ran only once on the baseline run there again before they count.

        Raises:
            EnvironmentFault: the unchanged code fails the check of where code comes from, too.
        """
        plan, workspace = self._plan, hashed(slot.workspace, _SEED)
        outcome = await check(plan, workspace, entry.staged, slot)
        if self._blamed(outcome) or Trait.PROVENANCE in outcome.code.traits:
            async with self._turn:
                if not self._has_rerun:
                    await slot.discard()
                    self._leave_out(await confirm(self._plan, workspace, self._snapshot(), slot))
                    await slot.discard()
                    await slot.stage(entry.staged.edits)
                    self._has_rerun = True
        return outcome if self._plan is plan else await check(self._plan, workspace, entry.staged, slot)

    def _snapshot(self) -> Candidate:
        """Return the unchanged snapshot, as a candidate."""
        sources = self._plan.sources.items()
        edits = tuple(Edit(path=path, old_digest=digest_of(text), new=text) for path, text in sources)
        return Candidate(id=CandidateId("baseline"), origin=CandidateOrigin.PATCH, edits=edits)

    def _leave_out(self, seen: CheckOutcome) -> None:
        """Leave out the tests that fail on the baseline."""
        if Trait.PROVENANCE in seen.code.traits:
            why = f"The unchanged code fails the check of a new process as well: {seen.reason}"
            raise EnvironmentFault(seen.code.value, why)
        baseline, flaky = self._plan.baseline, self._blamed(seen)
        if not flaky:
            return
        names = ", ".join(sorted(flaky)[:_NAMED])
        self._ledger.warn(f"Tests that disagree with themselves on the baseline do not count: {names}.")
        asked = tuple(test for test in baseline.asked if test not in flaky)
        expected = {test: baseline.asked_expected[test] for test in asked}
        self._plan = replace(self._plan, baseline=replace(baseline, asked=asked, asked_expected=expected))

    def ground(self) -> tuple[RunnerConfig, Baseline]:
        """Return what candidates are compared with."""
        return self._plan.runner, self._plan.baseline


@dataclass(frozen=True, slots=True)
class _AllTests(Examination):
    """All tests that were asked for (`check.checker.confirm`), or those left out by screening (`rest`)."""

    admission: RaceAdmission
    check: _Check

    async def run(self, entry: CandidateEntry, slot: Slot, /) -> CheckOutcome:
        return await self.admission.examine(entry, slot, self.check)

    def workspace(self, slot: Slot, /) -> Workspace:
        return hashed(slot.workspace, _SEED)

    def ground(self, _entry: CandidateEntry, _outcome: CheckOutcome, /) -> tuple[RunnerConfig, Baseline]:
        return self.admission.ground()
