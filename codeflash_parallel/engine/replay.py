"""A run's verdict once more, from the rounds that it recorded. Pure.

Nothing is timed: every race is judged by the module that judged it live (`referee`), round by round, and
the results are ranked by the module that ranked them (`rank`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from codeflash_parallel.benchmark.decide import Looks
from codeflash_parallel.benchmark.plan import RacePlan, RaceStage
from codeflash_parallel.benchmark.policy import Policy
from codeflash_parallel.benchmark.raced import Raced, RaceOutcome
from codeflash_parallel.benchmark.rank import rank
from codeflash_parallel.benchmark.ranking import Ranking
from codeflash_parallel.benchmark.record import ExclusionRecord, RaceRecord, RankingRecord, Record, RunRecord
from codeflash_parallel.benchmark.referee import judge
from codeflash_parallel.engine.race_phase import without

#: Returns the ranking policy that a setting names.
NamedPolicy = Callable[[str], Policy]

#: Changes the rules of a race for a what-if.
Change = Callable[[RacePlan], RacePlan]


def unchanged(plan: RacePlan) -> RacePlan:
    """Return the rules as they were."""
    return plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What was concluded, then and now.

    Attributes:
        races: how many were recorded.
        confirmations: likewise.
        rounds: of all of them.
        recorded: the last ranking of the run.
        recomputed: the same from the rounds.
        differences: what is not the same, one clause each, of all races and rankings.
    """

    run: RunRecord
    races: int
    confirmations: int
    rounds: int
    recorded: Ranking
    recomputed: Ranking
    differences: tuple[str, ...]


class Incomplete(Exception):  # noqa: N818 - a state of the records, not an error of ours
    """Records that do not lead to a verdict; the reason is one clause about it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def replay(records: Sequence[Record], named: NamedPolicy, change: Change = unchanged) -> Replay:
    """Judge and rank everything that was recorded once more.

    Args:
        records: of one run, in order.
        named: returns the policy of a name.
        change: of the rules, for a what-if.

    Raises:
        Incomplete: they do not begin as they should, or there is no ranking among them.
    """
    if not records or not isinstance(records[0], RunRecord):
        raise Incomplete("the first record does not say which run it is")
    again = _Again(named(records[0].policy), change)
    for record in records[1:]:
        again.take(record)
    if again.recorded is None or again.recomputed is None:
        raise Incomplete("the run ended before its race was decided")
    return Replay(
        run=records[0],
        races=again.count(RaceStage.RACE),
        confirmations=again.count(RaceStage.CONFIRMATION),
        rounds=again.rounds,
        recorded=again.recorded,
        recomputed=again.recomputed,
        differences=tuple(again.differences),
    )


def held_against(found: Replay, document: Mapping[str, Any]) -> Replay:
    """Return a replay that also says where the run's document names other winners than the rounds do.

    A document without a verdict (the run was interrupted later) names none.
    """
    winners = {"winner": found.recomputed.winner or None, "tie_set": list(found.recomputed.tie_set)}
    if document["verdict"] is None:
        return found
    wrong = tuple(f"document: {name}" for name, ids in winners.items() if document[name] != ids)
    return replace(found, differences=(*found.differences, *wrong))


class _Again:
    """The engine's steps, taken again from their records."""

    def __init__(self, policy: Policy, change: Change) -> None:
        self.recorded: Ranking | None = None
        self.recomputed: Ranking | None = None
        self.differences: list[str] = []
        self.rounds = 0
        self._policy, self._change = policy, change
        self._held = dict.fromkeys(RaceStage, 0)
        self._races: list[RaceOutcome] = []
        self._confirmations: list[RaceOutcome] = []

    def count(self, stage: RaceStage) -> int:
        return self._held[stage]

    def take(self, record: Record) -> None:
        match record:
            case RaceRecord():
                self._take_race(record)
            case ExclusionRecord():
                self._races = without(self._races, record.out)
                self._confirmations = without(self._confirmations, record.out)
            case RankingRecord():
                self._take_ranking(record)
            case RunRecord():
                raise Incomplete("it holds the records of two runs")

    def _take_race(self, record: RaceRecord) -> None:
        outcome = record.outcome
        self._held[record.stage] += 1
        if isinstance(outcome, Raced):
            self.rounds += len(outcome.rounds)
            again = rejudged(outcome, self._change(outcome.plan))
            self._compare(f"{record.stage.value} {self._held[record.stage]}", outcome.looks, again.looks)
            outcome = again
        confirms = record.stage is RaceStage.CONFIRMATION
        (self._confirmations if confirms else self._races).append(outcome)

    def _take_ranking(self, record: RankingRecord) -> None:
        plan = self._change(record.plan)
        self.recorded = record.ranking
        self.recomputed = rank(self._races, self._confirmations, plan, record.merits, self._policy)
        self._compare("ranking", self.recorded, self.recomputed)
        self._confirmations = []

    def _compare(self, what: str, recorded: Looks | Ranking, again: Looks | Ranking) -> None:
        names = [f.name for f in fields(recorded)]
        differing = [n for n in names if getattr(recorded, n) != getattr(again, n)]
        self.differences += [f"{what}: {name}" for name in differing]


def rejudged(raced: Raced, plan: RacePlan) -> Raced:
    """Return a race as its rounds alone make it, with other rules if wanted."""
    looks = judge(raced.rounds, raced.candidates, plan, raced.out)
    return replace(raced, plan=plan, looks=looks)
