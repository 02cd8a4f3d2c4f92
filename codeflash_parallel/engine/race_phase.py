"""The race: every slot and the host's benchmark token are held, so that nothing else of ours runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random

from codeflash_parallel.behavior.session import SelectedRun, selected_run_spec
from codeflash_parallel.benchmark.plan import (
    Arm,
    Group,
    RacePlan,
    Work,
    cost_groups,
    whole_test_groups,
)
from codeflash_parallel.benchmark.race import race
from codeflash_parallel.benchmark.raced import Out, Raced, RaceOutcome
from codeflash_parallel.benchmark.rank import Ranking, contenders, rank
from codeflash_parallel.benchmark.record import ExclusionRecord, RaceRecord, RankingRecord
from codeflash_parallel.benchmark.unit import Bench
from codeflash_parallel.engine.context import RunContext
from codeflash_parallel.engine.ledger import Entry, Ledger
from codeflash_parallel.model.candidate import Candidate, CandidateId
from codeflash_parallel.model.lifecycle import Stage, Step
from codeflash_parallel.model.result import LineProfile
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.model.workspace import Workspace
from codeflash_parallel.process.token import hold_benchmark_token

#: How long to wait for another run's race on this host.
_TOKEN_DEADLINE_S = 1800.0
#: A confirmation gets at least this share of the race's budget, whatever the race has used.
_CONFIRMATION_SHARE = 0.5

#: An automatic budget is never less than this, in nanoseconds.
_LEAST_BUDGET_NS = 20_000_000_000
#: And allows for so many passes over the workload on the baseline.
_BUDGET_PASSES = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceFinding:
    """What the races of a run have found so far.

    Attributes:
        races: of every batch of every round.
        confirmations: of their leaders.
        ranking: of all candidates that ever raced; `None` before the first race.
    """

    races: tuple[RaceOutcome, ...] = ()
    confirmations: tuple[RaceOutcome, ...] = ()
    ranking: Ranking | None = None
    winner_profile: LineProfile | None = None
    baseline_profile: LineProfile | None = None

    @property
    def outcomes(self) -> tuple[RaceOutcome, ...]:
        """Return all that was measured, what counts most last."""
        return (*self.races, *self.confirmations)

    @property
    def leaders(self) -> tuple[CandidateId, ...]:
        """Return the winner, or the tie set, the smallest diff first."""
        if self.ranking is None or not self.ranking.winner:
            return ()
        return tuple(map(CandidateId, self.ranking.tie_set or (self.ranking.winner,)))


#: Looks at candidates in clean processes; returns why those that are not equivalent there leave the ranking.
Confirm = Callable[[Sequence[Entry]], Awaitable[Mapping[str, Out]]]


async def hold_race(
    context: RunContext, ledger: Ledger, before: RaceFinding, random: Random, confirm: Confirm
) -> RaceFinding:
    """Race every candidate that passed since the last race, and the leaders so far with them.

    Whoever leads is looked at in a clean process; without those that fail there the same races are ranked
    again, and whoever they had beaten may be confirmed in their place.

    Cancelling kills every arm and gives the slots and the token back.
    """
    newly = [entry for entry in ledger if entry.stage is Stage.PASSED]
    racing = [*(ledger.get(name) for name in before.leaders), *newly]
    races = _Races(context, ledger, random, before.races)
    async with hold_benchmark_token(_TOKEN_DEADLINE_S):
        await races.hold(racing)
        await races.confirm()
    while out := await confirm(races.leaders()):
        await races.exclude(out)
        async with hold_benchmark_token(_TOKEN_DEADLINE_S):
            await races.confirm()
    ranking = await races.conclude()
    for note in ranking.notes:
        ledger.warn(note)
    confirmations = (*before.confirmations, *races.confirmations)
    return replace(before, races=tuple(races.races), confirmations=confirmations, ranking=ranking)


class _Races:
    """The races of one round and what they said."""

    def __init__(
        self, context: RunContext, ledger: Ledger, random: Random, before: Sequence[RaceOutcome]
    ) -> None:
        self._context, self._ledger, self._random = context, ledger, random
        self._plan = race_plan(context)
        self.races = list(before)
        self.confirmations: list[RaceOutcome] = []

    async def hold(self, entries: Sequence[Entry]) -> None:
        """Race some candidates, as many at once as there are slots."""
        self._move(entries, Step.RACE)
        for batch in _batches(entries, self._context.pool.size):
            self.races.append(await self._held(batch, self._plan))
        self._move(entries, Step.MEASURE)

    async def confirm(self) -> None:
        """Race whoever may be the winner once more, until there is nobody left to be tried."""
        again = self._plan.confirmation(int(self._plan.budget_ns * _CONFIRMATION_SHARE))
        while entries := self._contenders():
            self._move(entries, Step.RACE)
            self.confirmations.append(await self._held(entries, again))
            self._move(entries, Step.MEASURE)

    async def _held(self, entries: Sequence[Entry], plan: RacePlan) -> RaceOutcome:
        """Hold one race and record it."""
        outcome = await _race(self._context, entries, plan, self._random)
        await self._context.recorder.add(RaceRecord(stage=plan.stage, outcome=outcome))
        return outcome

    def _move(self, entries: Sequence[Entry], step: Step) -> None:
        for entry in entries:
            self._ledger.move(entry, step)

    def _contenders(self) -> list[Entry]:
        limit = self._context.pool.size
        ids = contenders(self.races, self.confirmations, self._plan, limit=limit)
        return [self._ledger.get(CandidateId(name)) for name in ids]

    async def exclude(self, out: Mapping[str, Out]) -> None:
        """Take candidates out of everything that was measured."""
        await self._context.recorder.add(ExclusionRecord(out=out))
        self.races = without(self.races, out)
        self.confirmations = without(self.confirmations, out)

    def leaders(self) -> list[Entry]:
        """Return who wins or ties as things stand."""
        names = RaceFinding(ranking=self.ranking()).leaders
        return [self._ledger.get(name) for name in names]

    async def conclude(self) -> Ranking:
        """Return the ranking and record it with what it was made from."""
        ranking, sizes = self.ranking(), _diff_sizes(self._ledger)
        await self._context.recorder.add(RankingRecord(plan=self._plan, diff_sizes=sizes, ranking=ranking))
        return ranking

    def ranking(self) -> Ranking:
        """Rank by everything that was measured."""
        return rank(self.races, self.confirmations, self._plan, _diff_sizes(self._ledger))


def without(outcomes: Iterable[RaceOutcome], out: Mapping[str, Out]) -> list[RaceOutcome]:
    """Return races in which some candidates count as having left for a reason other than their speed.

    What was measured of the others stays as it is, the error that each may spend included.
    """
    return [_without(outcome, out) if isinstance(outcome, Raced) else outcome for outcome in outcomes]


def _without(raced: Raced, out: Mapping[str, Out]) -> Raced:
    mine = {name: why for name, why in out.items() if name in raced.candidates}
    return replace(raced, out={**raced.out, **mine})


def _batches(entries: Sequence[Entry], size: int) -> list[Sequence[Entry]]:
    return [entries[start : start + size] for start in range(0, len(entries), size)]


def race_plan(context: RunContext) -> RacePlan:
    """Return the rules of this run's races: captured calls where there are any, else whole tests."""
    settings = context.settings
    groups, work = workload(context)
    return RacePlan(
        groups=groups,
        work=work,
        confidence=settings.confidence,
        min_speedup=settings.min_speedup,
        indifference=settings.indifference,
        max_regression=settings.max_regression,
        budget_ns=budget_ns(settings, groups),
        cores=tuple(sorted(os.sched_getaffinity(0))),
    )


def budget_ns(settings: Settings, groups: Sequence[Group]) -> int:
    """Return the wall time that one race may take: what the user says, or what the workload suggests."""
    if settings.time_budget:
        return int(settings.time_budget * 1e9)
    return max(_LEAST_BUDGET_NS, _BUDGET_PASSES * sum(group.ns for group in groups))


def workload(context: RunContext) -> tuple[tuple[Group, ...], Work]:
    """Return what is timed, in cost groups."""
    baseline = context.baseline
    if baseline.calls:
        callers = {index: call.test for index, call in baseline.calls.items()} | dict(baseline.repeats)
        calls = [(index, callers[index], ns) for index, ns in baseline.costs_ns.items()]
        return cost_groups(calls), Work.CALLS
    tests = baseline.executing or baseline.selected
    return whole_test_groups([(test, baseline.durations_ns.get(test, 1)) for test in tests]), Work.TESTS


async def _race(context: RunContext, entries: Sequence[Entry], plan: RacePlan, random: Random) -> RaceOutcome:
    bench = Bench(runner=context.runner, guest_dir=context.guest.directory, limits=context.limits)
    baseline = arm(context, "", context.pool.baseline.workspace, None)
    async with _staged(context, entries) as workspaces:
        arms = [
            arm(context, entry.id, workspace, entry.staged)
            for entry, workspace in zip(entries, workspaces, strict=True)
        ]
        return await race(bench, baseline, arms, plan, random=random)


@asynccontextmanager
async def _staged(context: RunContext, entries: Sequence[Entry]) -> AsyncIterator[list[Workspace]]:
    """Hold *every* slot, with some candidates staged in the first ones."""
    async with context.pool.acquire_all() as slots:
        used = slots[: len(entries)]
        for slot, entry in zip(used, entries, strict=True):
            await slot.stage(entry.staged.edits)
        yield [slot.workspace for slot in used]


def arm(context: RunContext, name: str, workspace: Workspace, candidate: Candidate | None) -> Arm:
    """Return one competitor."""
    prove = tuple(edit.path for edit in candidate.edits) if candidate else ()
    if context.baseline.calls:
        spec = context.guest.spec("arm", prove, inputs=context.baseline.inputs)
    else:
        run = SelectedRun(prove=prove)
        spec = selected_run_spec(context.guest, workspace, context.baseline, run)
    return Arm(id=name, workspace=workspace, spec=spec)


def _diff_sizes(ledger: Ledger) -> dict[str, int]:
    """Return how many lines each candidate changes."""
    return {entry.id: _changed_lines(entry.candidate.diff) for entry in ledger if entry.candidate}


def _changed_lines(diff: str) -> int:
    return sum(line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"} for line in diff.splitlines())
