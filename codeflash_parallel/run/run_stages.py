"""Stages of a run after its preparation: checks, race, profile, refinements; `pipeline` has their order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio

from codeflash_parallel.check.kill_history import Kills
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.race.ranking.tie_break_policy import Policy
from codeflash_parallel.result.candidate.candidate_model import Candidate, CandidateId
from codeflash_parallel.run.check_phase.candidate_examiner import CandidateExaminer
from codeflash_parallel.run.check_phase.check_coordinator import CheckCoordinator
from codeflash_parallel.run.check_phase.fresh_inputs import FreshInputs
from codeflash_parallel.run.check_phase.race_admission import RaceAdmission
from codeflash_parallel.run.check_phase.target_callers import Callers
from codeflash_parallel.run.ledger import CandidateEntry
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.race_phase.race_coordinator import hold_race
from codeflash_parallel.run.race_phase.workload import Workload, race_terms
from codeflash_parallel.run.race_phase.workload_choice import choose_workload, with_twins, without_callers
from codeflash_parallel.run.run_context import RunContext, RunFindings
from codeflash_parallel.run.run_preparation import CandidatePreparer, Entries
from codeflash_parallel.run.setup.baseline_manager import BaselineManager


class RunStages:
    """Stages of one run that come again with every round of refinements.

    Args:
        account: takes what is found.
        learner: of the baseline.
        drafting: makes candidates of submissions.
        providing: repairs, profiles and refines.
        kills: knows which tests have failed candidates.
        policy: names the winner of a tie.
    """

    def __init__(
        self,
        context: RunContext,
        account: RunFindings,
        *,
        learner: BaselineManager,
        drafting: CandidatePreparer,
        providing: ProviderRequests,
        kills: Kills,
        policy: Policy,
    ) -> None:
        self._context, self._account, self._ledger = context, account, account.ledger
        self._changes = drafting.changes
        self._learner, self._providing, self._kills, self._policy = learner, providing, kills, policy
        judging = CandidateExaminer(context)
        self._admission = RaceAdmission(context.plan, self._ledger, judging, races=account.races)
        self._timed: Workload | None = None
        self._has_twins = False
        self._compared: set[CandidateId] = set()
        self._fresh = FreshInputs(context=context, changes=drafting.changes, races=account.races)
        self._drafting = drafting
        self._behavior = CheckCoordinator(
            context, self._ledger, drafting, judging, self._admission, providing, kills
        )

    async def check(self, source: Entries) -> None:
        """Judge the behavior of candidates, and of what repairers make of them."""
        repaired: Entries = source
        while repaired:
            repaired = await self._checked(repaired)

    async def race(self) -> bool:
        """Race the candidates that have passed; return whether a race was held."""
        if self._timed is None or not self._account.newly_passed():
            return False
        is_first = self._account.finding.ranking is None
        if is_first and not self._keep(self._timed.callers):
            self._timed, self._has_twins = await self._workload(without_callers), False
        await self._make_twins()
        await self._hold_race(self._timed)
        return not self._account.finding.not_held

    async def profile(self) -> None:
        """Profile the baseline and the leader."""
        with self._account.phase("profile"):
            self._account.finding = await self._providing.profile(self._account.finding)

    async def refine(self) -> list[CandidateEntry]:
        """Return the candidates that refiners make of the leaders."""
        with self._account.phase("refine"):
            refined = await self._providing.refine(self._account.finding)
        return [self._ledger.add(submission) for submission in refined]

    async def _checked(self, source: Entries) -> Sequence[CandidateEntry]:
        """Judge candidates; return repairs of those that fresh inputs reject.

        Fresh inputs are made beside the choice of what is timed and the checks; beside the checks twins, and
        what calls of watched functions give.
        """
        self._context.steps.begin("")
        learned = anyio.Event()
        with self._account.phase("behavior"):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._learn, source, learned)
                if self._account.races and self._timed is None:
                    self._timed = await self._workload(choose_workload)
                self._behavior.watch(self._timed.callers if self._timed else None)
                tasks.start_soon(self._make_twins)
                tasks.start_soon(self._learn_ahead, source, learned)
                await self._screen(source)
                screened = [one for one in self._account.newly_passed() if one.id not in self._compared]
                await self._compare(screened, learned)
                if not self._account.newly_passed():
                    tasks.cancel_scope.cancel()
            return await self._behavior.repaired(screened)

    async def _learn(self, source: Entries, learned: anyio.Event) -> None:
        """Make fresh inputs for candidates that are there; for others that is done once all have come."""
        made = [await self._drafting.candidate(entry) for entry in self._there(source)]
        await self._fresh.learn([one for one in made if isinstance(one, Candidate)])
        learned.set()

    async def _learn_ahead(self, source: Entries, learned: anyio.Event) -> None:
        """Learn what candidates need who change more than targets, then: they would wait for it."""
        await learned.wait()
        async with self._context.quiet.shared():
            await self._behavior.learn_ahead(self._there(source))

    def _there(self, source: Entries) -> Sequence[CandidateEntry]:
        """Return the candidates that are there already."""
        most = self._context.settings.max_candidates or None
        return source[:most] if isinstance(source, Sequence) else ()

    async def _compare(self, passed: Sequence[CandidateEntry], learned: anyio.Event) -> None:
        """Have candidates that passed run the tests that they owe, and compare them on fresh inputs."""
        if not passed:
            return
        await learned.wait()
        self._compared.update(entry.id for entry in passed)
        await self._fresh.cover(passed)
        owing = [entry for entry in passed if entry.owes_tests]
        tests = "tests that the first check left out, " if owing else ""
        self._context.steps.begin(f"{tests}calls with fresh inputs")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._compare_admitted, owing)
            tasks.start_soon(self._compare_admitted, [entry for entry in passed if not entry.owes_tests])

    async def _compare_admitted(self, entries: Sequence[CandidateEntry]) -> None:
        await self._admission.admit(entries)
        if self._fresh.known:
            await self._admission.compare([entry for entry in entries if entry.passed], self._fresh)

    async def _make_twins(self) -> None:
        """Make twins of the calls that are timed, once."""
        context, before = self._context, self._timed
        if before is None or self._has_twins:
            return
        async with context.quiet.shared(), context.pool.baselines_turn:
            self._timed, self._has_twins = await with_twins(context, before), True
        for note in self._timed.notes[len(before.notes) :]:
            self._ledger.warn(note)

    async def _screen(self, source: Entries) -> None:
        """Run tests and captured calls of candidates."""
        try:
            await self._behavior.run(source)
        finally:
            self._kills.save()

    def _keep(self, callers: Callers | None) -> bool:
        """Say whether all candidates that are to race have the functions whose calls are timed."""
        functions = callers.ground.functions if callers else ()
        racing = self._account.newly_passed()
        return all(self._changes.keeps(entry.staged, functions) for entry in racing)

    async def _workload(self, choose: Callable[[RunContext], Awaitable[Workload]]) -> Workload:
        """Choose what is timed, before anybody is judged: what cannot be timed is told at once."""
        self._context.steps.begin("the race's workload is tried on the baseline")
        async with self._context.quiet.shared():
            workload = await choose(self._context)
        self._account.timed = {"why": workload.why, "timed": workload.sentence}
        for note in workload.notes:
            self._ledger.warn(note)
        return workload

    async def _hold_race(self, workload: Workload) -> None:
        context, account = self._context, self._account
        context.steps.begin("slots are made ready for the race")
        async with context.quiet.shared():
            await context.fleet.close()
            await self._learner.share_bytecode(context.plan, context.pool)
        terms = race_terms(context, workload, self._policy)
        context.steps.begin("")
        with account.phase("race", terms.summary):
            before = account.finding
            account.finding = await hold_race(context, self._ledger, terms, before, self._confirm)

    async def _confirm(self, entries: Sequence[CandidateEntry]) -> Mapping[str, Disqualification]:
        """Look at leaders in new processes; the first one is profiled meanwhile."""
        out: dict[str, Disqualification] = {}
        async with anyio.create_task_group() as tasks:
            if entries:
                tasks.start_soon(self._providing.profile_ahead, entries[0])
            out.update(await self._admission.confirm(entries))
        return out
