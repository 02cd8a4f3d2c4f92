"""The race: every slot, the host's benchmark token and its quiet are held: nothing else of ours runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.process.host_lock import BUSY
from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.race import Progress, race
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceOutcome
from codeflash_parallel.race.ranking.arm_comparison import entries as entries_of
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.ranking.confirmation_plan import confirmation_of, contenders, left_of, race_of
from codeflash_parallel.race.ranking.ranking_result import RaceRanking
from codeflash_parallel.race.ranking.tie_break_policy import TieBreakFacts
from codeflash_parallel.race.statistics.sequential_test import ArmStanding
from codeflash_parallel.result.candidate.candidate_model import CandidateId
from codeflash_parallel.result.candidate.lifecycle import Stage, Step
from codeflash_parallel.result.codec import to_plain
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.run.check_phase.candidate_examiner import escapes
from codeflash_parallel.run.ledger import CandidateEntry, Ledger
from codeflash_parallel.run.race_phase.workload import RaceTerms, Workload, arm, bench_of
from codeflash_parallel.run.run_context import RaceFinding, RunContext
from codeflash_parallel.run.step_cache import StepKind
from codeflash_parallel.workspace.slot.slot_residue import SlotResidue

#: Candidates that race at once. Each is a process with its inputs and has its turn in every round.
MOST_RACING = 16

#: Leaders that are confirmed at once: new processes for all of them in each of a dozen rounds.
MOST_CONFIRMED = 8


#: Looks at candidates in clean processes; returns why those that are not equivalent there leave the ranking.
Confirm = Callable[[Sequence[CandidateEntry]], Awaitable[Mapping[str, Disqualification]]]


async def hold_race(
    context: RunContext, ledger: Ledger, terms: RaceTerms, before: RaceFinding, confirm: Confirm
) -> RaceFinding:
    """Race every candidate that passed since the last race, and the leaders so far with them.

    Whoever leads is looked at in a clean process; without those that fail there the same races are ranked
    again, and whoever they had beaten may be confirmed in their place.

    Where other races have the machine for too long, the finding is the one before, and says so: checks are
    not lost for it.

    Cancelling kills every arm and gives the slots and the token back.
    """
    newly = [entry for entry in ledger if entry.stage is Stage.PASSED]
    races = _Races(context, ledger, terms, before)
    try:
        await races.decide([*(ledger.get(name) for name in before.leaders), *newly], confirm)
    except EnvironmentFault as fault:
        if fault.code != BUSY:
            raise
        goes_on = f"`codeflash-parallel resume {context.run_id}` goes on with the run."
        ledger.warn(f"The race was not held: {fault.message} {goes_on}")
        return replace(before, not_held=fault.message)
    ranking = races.ranking()
    for note in ranking.notes:
        ledger.warn(note)
    confirmations = (*before.confirmations, *races.confirmations)
    return replace(before, races=tuple(races.races), confirmations=confirmations, ranking=ranking)


class _Races:
    """The races of one round and what they said."""

    def __init__(self, context: RunContext, ledger: Ledger, terms: RaceTerms, before: RaceFinding) -> None:
        self._context, self._ledger, self._terms, self._plan = context, ledger, terms, terms.plan
        self._before = before
        self.races = list(before.races)
        self.confirmations: list[RaceOutcome] = []

    async def decide(self, racing: Sequence[CandidateEntry], confirm: Confirm) -> None:
        """Race, confirm who leads, and look at them in a clean process, until what is said stands.

        Raises:
            EnvironmentFault: `BENCHMARK_TOKEN_BUSY`: other races have had the machine for too long.
        """
        async with self._context.quiet.exclusive():
            await self.hold(racing)
            await self.confirm()
        while out := await confirm(self.leaders()):
            self.exclude(out)
            async with self._context.quiet.exclusive():
                await self.confirm()

    async def hold(self, entries: Sequence[CandidateEntry]) -> None:
        """Race some candidates, all of them at once; leaders of fields meet in the confirmation."""
        self._move(entries, Step.RACE)
        starts = range(0, len(entries), MOST_RACING)
        plan = race_of(self._plan, max(1, len(starts)))
        for start in starts:
            self.races.append(await self._held(entries[start : start + MOST_RACING], plan))
        self._move(entries, Step.MEASURE)

    async def confirm(self) -> None:
        """Race whoever may be the winner once more, until there is nobody left to be tried."""
        while entries := self._contenders():
            self._move(entries, Step.RACE)
            ids = [entry.id for entry in entries]
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
        random, progress = draws(context.seed, number), self._ledger.raced
        outcome = await _race(context, self._terms.workload, entries, plan, random, progress)
        if isinstance(outcome, Raced):
            await context.cache.keep(Raced, outcome, StepKind.RACE, *key)
        return outcome

    def _move(self, entries: Sequence[CandidateEntry], step: Step) -> None:
        for entry in entries:
            self._ledger.move(entry, step)

    def _contenders(self) -> list[CandidateEntry]:
        ids = contenders(self.races, self.confirmations, self._plan, limit=MOST_CONFIRMED)
        return [self._ledger.get(CandidateId(name)) for name in ids]

    def exclude(self, out: Mapping[str, Disqualification]) -> None:
        """Take candidates out of everything that was measured."""
        self.races = without(self.races, out)
        self.confirmations = without(self.confirmations, out)

    def leaders(self) -> list[CandidateEntry]:
        """Return who wins or ties as things stand."""
        names = RaceFinding(ranking=self.ranking()).leaders
        return [self._ledger.get(name) for name in names]

    def ranking(self) -> RaceRanking:
        """Rank by everything that was measured."""
        confirmations = [*self.confirmations, *self._kept()]
        return rank(self.races, confirmations, self._plan, merits_of(self._ledger), self._terms.policy)

    def _kept(self) -> list[RaceOutcome]:
        return kept(self._before, self.races, self.confirmations)


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
    return [_without(outcome, out) if isinstance(outcome, Raced) else outcome for outcome in outcomes]


def _without(raced: Raced, out: Mapping[str, Disqualification]) -> Raced:
    mine = {name: why for name, why in out.items() if name in raced.candidates}
    return replace(raced, out={**raced.out, **mine})


async def _race(
    context: RunContext,
    workload: Workload,
    entries: Sequence[CandidateEntry],
    plan: RacePlan,
    random: Random,
    progress: Progress,
) -> RaceOutcome:
    baseline = arm(context, workload, "", context.pool.baseline.workspace, None)
    traces: dict[str, SlotResidue] = {}
    async with _staged(context, entries, traces) as workspaces:
        arms = [
            arm(context, workload, entry.id, workspace, entry.staged)
            for entry, workspace in zip(entries, workspaces, strict=True)
        ]
        outcome = await race(
            bench_of(context), baseline, arms, plan, random=random, progress=progress, run_id=context.run_id
        )
    leftovers = {*context.baseline.leftovers, *await context.pool.baseline.audit()}
    return without([outcome], escapes(traces, leftovers))[0]


@asynccontextmanager
async def _staged(
    context: RunContext, entries: Sequence[CandidateEntry], traces: dict[str, SlotResidue]
) -> AsyncIterator[list[Workspace]]:
    """Hold *every* slot, and one for each candidate at least, with theirs staged; they leave their traces."""
    async with context.pool.acquire_all(len(entries)) as slots:
        used = slots[: len(entries)]
        for slot, entry in zip(used, entries, strict=True):
            await slot.stage(entry.staged.edits)
            traces[entry.id] = slot.trace
        yield [slot.workspace for slot in used]


def merits_of(ledger: Ledger) -> dict[str, TieBreakFacts]:
    """Return what orders a tie, by candidate."""
    return {e.id: _merit(e, e.outcome) for e in ledger if e.outcome is not None and e.candidate is not None}


def _merit(entry: CandidateEntry, outcome: CheckOutcome) -> TieBreakFacts:
    values = outcome.values
    compared = values.compared + values.derived + values.outside
    return TieBreakFacts(
        changed_lines=_changed_lines(entry.staged.diff),
        inputs_equal=compared - values.differing - values.derived_differing - values.outside_differing,
        hints=outcome.hints,
    )


def _changed_lines(diff: str) -> int:
    return sum(line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"} for line in diff.splitlines())
