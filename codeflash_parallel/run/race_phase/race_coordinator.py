"""Races of a run, in which all slots and the host lock are held alone, and the user's ranking policy."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random

import anyio

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.config.settings import RankingMode
from codeflash_parallel.process.host_lock import BUSY
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.race import Progress, race
from codeflash_parallel.race.race_result import (
    POLICIES,
    Disqualification,
    Policy,
    Raced,
    RaceOutcome,
    RaceRanking,
    TieBreakFacts,
    TiedCandidate,
    fastest,
    ordered,
)
from codeflash_parallel.race.ranking.arm_comparison import confirmation_of, contenders, left_of, race_of
from codeflash_parallel.race.ranking.arm_comparison import entries as entries_of
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.sequential_test import ArmStanding
from codeflash_parallel.repair.provider_protocol import loaded_module
from codeflash_parallel.result.candidate_model import CandidateId
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.result.events import Step
from codeflash_parallel.run.campaign import Comparison
from codeflash_parallel.run.check_phase.candidate_examiner import escapes
from codeflash_parallel.run.check_phase.check_coordinator import RaceAdmission
from codeflash_parallel.run.check_phase.watched_functions import WatchedBaseline
from codeflash_parallel.run.ledger import CandidateEntry, Ledger, RaceFinding, RunContext, RunFindings
from codeflash_parallel.run.provider_requests import ProviderRequests
from codeflash_parallel.run.race_phase.workload import Workload, arm, bench_of, race_plan
from codeflash_parallel.run.race_phase.workload_choice import choose_workload, with_twins, without_callers
from codeflash_parallel.run.run_state import StepKind
from codeflash_parallel.workspace.slot.slot import SlotResidue

#: Candidates that race at once. Each is a process with its inputs and has its turn in every round.
MOST_RACING = 16

#: Leaders that are confirmed at once: new processes for all of them in each of a dozen rounds.
MOST_CONFIRMED = 8


class RaceCoordinator:
    """Chooses what the races of a run time, and holds them.

    Args:
        admission: checks leaders in new processes.
        providers: profiles the first leader beside that.
        policy: names the winner of a tie.
    """

    def __init__(
        self,
        account: RunFindings,
        context: RunContext,
        admission: RaceAdmission,
        providers: ProviderRequests,
        policy: Policy,
    ) -> None:
        self._account, self._context, self._ledger = account, context, context.ledger
        self._admission, self._providers, self._policy = admission, providers, policy
        self._workload: Workload | None = None
        self._has_twins = False

    async def choose(self) -> WatchedBaseline | None:
        """Choose what is timed, once, before any candidate is judged: what cannot be timed is told at once.

        Returns:
            The functions whose calls are timed, where those are not the targets'.
        """
        if self._workload is None:
            self._workload = await self._tried(choose_workload)
        return self._workload.callers

    async def _tried(self, choose: Callable[[RunContext], Awaitable[Workload]]) -> Workload:
        self._context.steps.begin("the race's workload is tried on the baseline")
        async with self._context.quiet.shared():
            workload = await choose(self._context)
        self._account.timed = {"why": workload.why, "timed": workload.sentence}
        for note in workload.notes:
            self._ledger.warn(note)
        return workload

    async def make_twins(self) -> None:
        """Make twins of the calls that are timed, once."""
        context, before = self._context, self._workload
        if before is None or self._has_twins:
            return
        async with context.quiet.shared(), context.pool.baselines_turn:
            self._workload, self._has_twins = await with_twins(context, before), True
        for note in self._workload.notes[len(before.notes) :]:
            self._ledger.warn(note)

    async def race(self) -> bool:
        """Race the candidates that have passed since the last race, with the leaders so far.

        Leaders are checked in a clean process; without those that fail there the same races are ranked again,
        and candidates that they had beaten may be confirmed in their place. Where other races have the
        machine for too long, the finding stays as it was, and says so: checks are not lost for it.

        Returns:
            Whether a race was held. Cancelling kills every arm and gives the slots and the lock back.
        """
        context, account, before = self._context, self._account, self._account.finding
        raced = {name for held in before.races for name in held.candidates}
        newly = [entry for entry in self._ledger.newly_passed() if entry.id not in raced]
        if self._workload is None or not newly:
            return False
        callers = self._workload.callers
        if (
            before.ranking is None
            and callers
            and not all(context.changes.keeps(entry.staged, callers.functions) for entry in newly)
        ):
            self._workload, self._has_twins = await self._tried(without_callers), False
        await self.make_twins()
        context.steps.begin("slots are made ready for the race")
        async with context.quiet.shared():
            await context.fleet.close()
        context.steps.begin("")
        baseline = context.baseline
        # A process of a race starts as quickly as one of the tests, which imports and collects more.
        started_ns = max(0, baseline.cpu_ns - int(baseline.suite_s * 1e9))
        plan = race_plan(context.settings, self._workload, started_ns)
        if context.settings.campaign:
            plan = replace(plan, campaign_share=(await self._comparison(len(before.races))).share)
        with account.phase("race", f"{self._workload.summary}; budget {plan.budget_ns / 1e9:.0f} s"):
            races = _Races(context, self._workload, plan, self._policy, before)
            try:
                await self._decide(races, [*map(self._ledger.get, before.leaders), *newly])
            except EnvironmentFault as fault:
                if fault.code != BUSY:
                    raise
                goes_on = f"`codeflash-parallel resume {context.run_id}` continues the run."
                self._ledger.warn(f"The race was not held: {fault.message} {goes_on}")
                account.finding = replace(before, not_held=fault.message)
            else:
                account.finding = races.finding()
        return not account.finding.not_held

    async def _comparison(self, races: int) -> Comparison:
        """Return the comparison of a campaign that the next race is; a run that is resumed has it already.

        Args:
            races: that the run has held before.
        """
        context, kind = self._context, StepKind.COMPARISON
        found: Comparison | None = context.cache.get(Comparison, kind, races)
        if found is None:
            begin = partial(context.campaign.begin, context.snapshot.tree)
            found = await anyio.to_thread.run_sync(begin)
            await context.cache.keep(Comparison, found, kind, races)
        if found.not_applied:
            self._ledger.warn(
                f"The last winner of campaign {context.settings.campaign}, that of run {found.not_applied}, "
                f"is not in the tree: `codeflash-parallel apply {found.not_applied}` makes it the baseline."
            )
        self._account.comparison = found
        return found

    async def _decide(self, races: _Races, racing: Sequence[CandidateEntry]) -> None:
        """Race, confirm the leaders, and check them in a clean process, until the ranking stands.

        Raises:
            EnvironmentFault: `BENCHMARK_TOKEN_BUSY`: other races have had the machine for too long.
        """
        async with self._context.quiet.exclusive():
            await races.hold(racing)
            await races.confirm()
        while out := await self._excluded(races.leaders()):
            races.exclude(out)
            async with self._context.quiet.exclusive():
                await races.confirm()

    async def _excluded(self, leaders: Sequence[CandidateEntry]) -> Mapping[str, Disqualification]:
        """Check leaders in new processes; the first one is profiled meanwhile."""
        out: dict[str, Disqualification] = {}
        async with anyio.create_task_group() as tasks:
            if leaders:
                tasks.start_soon(self._providers.profile_ahead, leaders[0])
            out.update(await self._admission.confirm(leaders))
        return out


class _Races:
    """The races of one round."""

    def __init__(
        self, context: RunContext, workload: Workload, plan: RacePlan, policy: Policy, before: RaceFinding
    ) -> None:
        self._context, self._ledger = context, context.ledger
        self._workload, self._plan, self._policy = workload, plan, policy
        self._before = before
        self.races = list(before.races)
        self.confirmations: list[RaceOutcome] = []

    def finding(self) -> RaceFinding:
        """Return the finding with these races."""
        ranking = self._ranking()
        for note in ranking.notes:
            self._ledger.warn(note)
        confirmations = (*self._before.confirmations, *self.confirmations)
        return replace(self._before, races=tuple(self.races), confirmations=confirmations, ranking=ranking)

    async def hold(self, entries: Sequence[CandidateEntry]) -> None:
        """Race some candidates, all of them at once; leaders of fields meet in the confirmation."""
        self._move(entries, Step.RACE)
        starts = range(0, len(entries), MOST_RACING)
        plan = race_of(self._plan, max(1, len(starts)))
        for start in starts:
            self.races.append(await self._held(entries[start : start + MOST_RACING], plan))
        self._move(entries, Step.MEASURE)

    async def confirm(self) -> None:
        """Race the candidates that may win once more, until none is left."""
        while ids := contenders(self.races, self.confirmations, self._plan, limit=MOST_CONFIRMED):
            entries = [self._ledger.get(CandidateId(name)) for name in ids]
            self._move(entries, Step.RACE)
            held = [*self.races[len(self._before.races) :], *self.confirmations]
            again = confirmation_of(self.races, self.confirmations, left_of(self._plan, held), ids)
            self.confirmations.append(await self._held(entries, again))
            self._move(entries, Step.MEASURE)

    async def _held(self, entries: Sequence[CandidateEntry], plan: RacePlan) -> RaceOutcome:
        """Hold one race, unless the step cache has it; one that could not be held is not stored."""
        context = self._context
        number = len(self._before.confirmations) + len(self.races) + len(self.confirmations)
        arms = [(entry.id, entry.staged.content_key) for entry in entries]
        key = (context.seed, number, to_plain(plan), arms)
        known: Raced | None = context.cache.get(Raced, StepKind.RACE, *key)
        if known is not None:
            return known
        random, progress = draws(context.seed, number), self._ledger.announce
        outcome = await _race(context, self._workload, entries, plan, random, progress)
        if isinstance(outcome, Raced):
            await context.cache.keep(Raced, outcome, StepKind.RACE, *key)
        return outcome

    def _move(self, entries: Sequence[CandidateEntry], step: Step) -> None:
        for entry in entries:
            self._ledger.move(entry, step)

    def exclude(self, out: Mapping[str, Disqualification]) -> None:
        """Take candidates out of everything that was measured."""
        self.races = without(self.races, out)
        self.confirmations = without(self.confirmations, out)

    def leaders(self) -> list[CandidateEntry]:
        """Return the winner or the tie set of the current ranking."""
        return [self._ledger.get(name) for name in RaceFinding(ranking=self._ranking()).leaders]

    def _ranking(self) -> RaceRanking:
        """Rank by everything that was measured."""
        confirmations = [*self.confirmations, *kept(self._before, self.races, self.confirmations)]
        return rank(self.races, confirmations, self._plan, merits_of(self._ledger), self._policy)


def draws(seed: int, number: int) -> Random:
    """Return the source of orders, cores and hash seeds of a run's race, by its number."""
    return Random(f"{seed} {number}")  # noqa: S311 - no secret


def kept(
    before: RaceFinding, races: Sequence[RaceOutcome], confirmations: Sequence[RaceOutcome]
) -> list[RaceOutcome]:
    """Return the confirmations of earlier rounds that still count.

    They are those of leaders that race again, beside refinements of them, and are not found out or decided
    upon anew: a race that leaves them open takes nothing back.

    Args:
        before: what was found in earlier rounds.
        races: of all rounds.
        confirmations: of this round.
    """
    outcomes = [outcome for outcome in (*races, *confirmations) if isinstance(outcome, Raced)]
    out = {name: why for raced in outcomes for name, why in raced.out.items()}
    anew = {
        name for name, entry in entries_of(confirmations).items() if entry.standing is not ArmStanding.OPEN
    }
    claims = [_last_claim(before.confirmations, name) for name in before.leaders if name not in {*out, *anew}]
    return without({id(raced): raced for raced in claims}.values(), out)


def _last_claim(confirmations: Sequence[RaceOutcome], name: str) -> Raced:
    """Return the last confirmation in which a leader of that round was faster."""
    return next(
        raced
        for raced in reversed(confirmations)
        if isinstance(raced, Raced)
        and name in raced.candidates
        and raced.standing(name) in {ArmStanding.FASTER, ArmStanding.BEATEN}
    )


def without(outcomes: Iterable[RaceOutcome], out: Mapping[str, Disqualification]) -> list[RaceOutcome]:
    """Return races in which some candidates count as having left for a reason other than their speed.

    What was measured of the others stays as it is, the error that each may spend included.
    """

    def left(raced: Raced) -> Raced:
        mine = {name: why for name, why in out.items() if name in raced.candidates}
        return replace(raced, out={**raced.out, **mine})

    return [left(outcome) if isinstance(outcome, Raced) else outcome for outcome in outcomes]


async def _race(
    context: RunContext,
    workload: Workload,
    entries: Sequence[CandidateEntry],
    plan: RacePlan,
    random: Random,
    progress: Progress,
) -> RaceOutcome:
    """Hold *every* slot, and one for each candidate at least, with theirs staged, and race."""
    baseline = arm(context, workload, "", context.pool.baseline.workspace, None)
    async with context.pool.acquire_all(len(entries)) as slots:
        used = list(zip(slots, entries, strict=False))
        for slot, entry in used:
            await slot.stage(entry.staged.edits)
        traces: dict[str, SlotResidue] = {entry.id: slot.trace for slot, entry in used}
        outcome = await race(
            bench_of(context),
            baseline,
            [arm(context, workload, entry.id, slot.workspace, entry.staged) for slot, entry in used],
            plan,
            random=random,
            progress=progress,
            run_id=context.run_id,
        )
    leftovers = {*context.baseline.leftovers, *await context.pool.baseline.audit()}
    return without([outcome], escapes(traces, leftovers))[0]


def merits_of(ledger: Ledger) -> dict[str, TieBreakFacts]:
    """Return what orders a tie, by candidate."""
    return {e.id: _merit(e, e.outcome) for e in ledger if e.outcome is not None and e.candidate is not None}


def _merit(entry: CandidateEntry, outcome: CheckOutcome) -> TieBreakFacts:
    values, lines = outcome.values, entry.staged.diff.splitlines()
    compared = values.compared + values.derived + values.outside
    return TieBreakFacts(
        changed_lines=sum(line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"} for line in lines),
        inputs_equal=compared - values.differing - values.derived_differing - values.outside_differing,
        hints=outcome.hints,
    )


#: Begins the name of a module that is read from a file: it shadows none that has the same stem.
_PRIVATE = "_codeflash_parallel_policy_"

#: Two arms that do not differ: a policy is tried on them before hours are spent.
_SAMPLE = tuple(
    TiedCandidate(id=name, speedup=1.5, low=1.4, high=1.6, changed_lines=lines, is_level=True)
    for lines, name in enumerate(("one", "other"), start=1)
)


def _ignored(_failure: str) -> None:
    """Ignore a failure."""


def load_policy(text: str, warn: Callable[[str], object] = _ignored) -> Policy:
    """Return the policy that the setting `ranking` names.

    One of the user's that fails later, on a real tie, does not cost what was measured: that tie is ordered
    as `fastest` does it.

    Args:
        text: a name of ours, `module:name`, or `path.py:name`; both start from the current folder.
        warn: is told, in whole sentences, when the policy fails on a tie.

    Raises:
        UsageError: `BAD_RANKING`, there is no such callable, or it does not return an order.
    """
    if text in POLICIES:
        return POLICIES[text]
    policy = _loaded(text)
    ordered(policy, _SAMPLE)
    return partial(_ordered_somehow, policy, warn)


def _ordered_somehow(
    policy: Policy, warn: Callable[[str], object], tied: Sequence[TiedCandidate]
) -> Sequence[str]:
    try:
        return ordered(policy, tied)
    except UsageError as error:
        warn(f"{error.message} The tie is ordered as by {RankingMode.FASTEST}.")
        return fastest(tied)


def _loaded(text: str) -> Policy:
    place, _, name = text.rpartition(":")
    try:
        with _current_folder_first():
            module = loaded_module(place, _PRIVATE)
        found: Policy = getattr(module, name)
    except (Exception, SystemExit) as error:
        raise UsageError(
            "BAD_RANKING", f"The ranking policy {text} cannot be loaded: {type(error).__name__}: {error}."
        ) from error
    if not callable(found):
        raise UsageError("BAD_RANKING", f"The ranking policy {text} is no callable.")
    return found


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = os.getcwd()  # noqa: PTH109 - an entry of sys.path is text
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
