"""From what races measured to a verdict. Pure.

A race finds leaders; only a confirmation makes a claim. The caller asks `contenders` whom to confirm until
it names nobody, and then asks `rank` for the verdict::

    while ids := contenders(races, confirmations, plan, limit=slots):
        again = confirmation_of(races, confirmations, left_of(plan, [*races, *confirmations]), ids)
        confirmations.append(await race(bench, baseline, arms(ids), again, random=random))
    ranking = rank(races, confirmations, plan, merits)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import exp

from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.ranking.arm_comparison import (
    ArmComparison,
    beaten,
    confirmed,
    entries,
    fastest_of,
    is_void,
    level,
)
from codeflash_parallel.race.ranking.ranking_result import (
    Policy,
    RaceRanking,
    TieBreakFacts,
    TiedCandidate,
    fastest,
    ordered,
)
from codeflash_parallel.race.ranking.verdicts import VerdictRules, summary, verdict_of


def rank(
    races: Sequence[RaceOutcome],
    confirmations: Sequence[RaceOutcome],
    plan: RacePlan,
    merits: Mapping[str, TieBreakFacts],
    policy: Policy = fastest,
) -> RaceRanking:
    """Return the verdict.

    Args:
        races: every candidate is in one of them.
        confirmations: as `contenders` asked for them.
        plan: the rules.
        merits: what a policy may go by, by candidate.
        policy: names the winner of a tie.

    Raises:
        UsageError: the policy is wrong.
    """
    void = is_void(confirmations)
    sound = [outcome for outcome in confirmations if not is_void([outcome])]
    winners = _unbeaten(confirmed(sound, plan), entries(races), plan)
    order = _ordered(winners, plan, merits, policy)
    top = order[0] if order else None
    judge = VerdictRules(races, confirmations, plan, void=void, winners=tuple(order))
    # A leader races again when refinements of it do; the last race counts.
    ids = dict.fromkeys(arm for outcome in races for arm in outcome.candidates)
    ranked = tuple(judge.of(arm) for arm in ids)
    verdict = verdict_of(ranked, order)
    return RaceRanking(
        verdict=verdict,
        winner=top.id if top else "",
        tie_set=tuple(entry.id for entry in order) if len(order) > 1 else (),
        candidates=ranked,
        summary=summary(verdict, order, ranked, plan, merits),
        notes=tuple(
            dict.fromkeys(n for o in (*races, *confirmations) if isinstance(o, Raced) for n in o.notes)
        ),
    )


def _unbeaten(
    winners: Sequence[ArmComparison], raced: Mapping[str, ArmComparison], plan: RacePlan
) -> tuple[ArmComparison, ...]:
    """Return those whom no other one, confirmed apart from them, beat in the race that both were in."""

    def lost_to(entry: ArmComparison, other: ArmComparison) -> bool:
        mine, its = raced.get(entry.id), raced.get(other.id)
        return bool(mine and its and mine.raced is its.raced and beaten(its, mine, plan))

    return tuple(
        entry
        for entry in winners
        if not any(entry.raced is not other.raced and lost_to(entry, other) for other in winners)
    )


def _ordered(
    winners: Sequence[ArmComparison], plan: RacePlan, merits: Mapping[str, TieBreakFacts], policy: Policy
) -> list[ArmComparison]:
    """Return the equally fast in the order of a policy; one alone needs none."""
    if len(winners) < 2:  # noqa: PLR2004 - one
        return [*winners]
    leader = fastest_of(winners)
    by_id = {entry.id: entry for entry in winners}
    tied = [
        TiedCandidate(
            id=entry.id,
            speedup=exp(entry.bound.estimate),
            low=exp(entry.bound.low),
            high=exp(entry.bound.high),
            is_level=level(leader, entry, plan),
            **asdict(merits.get(entry.id, TieBreakFacts())),
        )
        for entry in winners
    ]
    return [by_id[name] for name in ordered(policy, tied)]
