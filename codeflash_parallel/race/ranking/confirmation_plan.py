"""Whom to confirm, one attempt after the other, and by which rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import exp, log1p
from statistics import median

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import MAX_CONFIRMATIONS, RacePlan
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.ranking.arm_comparison import (
    ArmComparison,
    alike,
    beaten,
    confirmed,
    entries,
    is_void,
)
from codeflash_parallel.race.statistics.sequential_test import LAGGING, ArmStanding

#: What attempts, one after the other, may spend of the error budget; there are no more than these. Those
#: whose gain is doubted do not count towards `MAX_CONFIRMATIONS`: three caches must not hide who is faster.
#: Little is left for those that come late, so that the first ones need hardly more rounds for it.
SHARES = (1 / 4,) * MAX_CONFIRMATIONS + (1 / 12,) * 3

#: What the race may take of a budget; the rest is for its confirmations.
RACE_SHARE = 0.6

#: Who may be confirmed. What stayed open in the longer race would do so in the shorter confirmation.
_HOPEFUL = frozenset({ArmStanding.FASTER, ArmStanding.BEATEN, ArmStanding.BEHIND})

#: Who shows a gain.
_GAINED = frozenset({ArmStanding.FASTER, ArmStanding.BEATEN})


def race_of(plan: RacePlan, fields: int = 1) -> RacePlan:
    """Return the rules of a race: its budget is a share of the whole.

    Args:
        fields: that race one after the other.
    """
    return replace(plan, budget_ns=round(RACE_SHARE * plan.budget_ns / fields))


def left_of(plan: RacePlan, held: Iterable[RaceOutcome]) -> RacePlan:
    """Return the rules with what some races have left of the budget."""
    spent_ns = sum(outcome.wall_ns for outcome in held if isinstance(outcome, Raced))
    return replace(plan, budget_ns=max(0, plan.budget_ns - spent_ns))


def contenders(
    races: Sequence[RaceOutcome], confirmations: Sequence[RaceOutcome], plan: RacePlan, *, limit: int
) -> tuple[str, ...]:
    """Return whom to confirm next, the fastest first; empty when the verdict can be given.

    They are the fastest of those not yet tried, and whoever could not be told apart from it.

    Args:
        races: all that were held.
        confirmations: held so far.
        plan: the rules.
        limit: how many can be confirmed at once.
    """
    if _are_spent(confirmations) or confirmed(confirmations, plan) or is_void(confirmations):
        return ()
    tried = _tried(confirmations)
    hopeful = [e for e in entries(races).values() if e.id not in tried and is_hopeful(e, plan)]
    ranked = sorted(hopeful, key=lambda entry: -entry.bound.estimate)
    return tuple(entry.id for entry in ranked if _goes_with(ranked[0], entry, plan))[:limit]


def _tried(confirmations: Sequence[RaceOutcome]) -> frozenset[str]:
    """Return the arms that are not confirmed again; where a confirmation failed as a whole, its arms are."""
    held = [outcome for outcome in confirmations if isinstance(outcome, Raced)]
    return frozenset(arm for outcome in held for arm in outcome.candidates)


def is_hopeful(entry: ArmComparison, plan: RacePlan) -> bool:
    """Return whether an arm may be confirmed; one that was cut only if it seemed worth finding."""
    goal = plan.worth_finding if entry.standing is ArmStanding.BEHIND else plan.min_speedup
    return entry.standing in _HOPEFUL and entry.bound.estimate > log1p(goal)


def _are_spent(confirmations: Sequence[RaceOutcome]) -> bool:
    """Return whether no more attempts may be made, or no time is left for them."""
    if any(isinstance(outcome, Raced) and outcome.needed_ns for outcome in confirmations):
        return True
    counted = [outcome for outcome in confirmations if not _is_doubted(outcome)]
    return len(counted) >= MAX_CONFIRMATIONS or len(confirmations) >= len(SHARES)


def _is_doubted(outcome: RaceOutcome) -> bool:
    """Return whether a confirmation shows a gain that is not credited."""
    found = entries([outcome]).values()
    return any(entry.gains_only_seen or (entry.standing in _GAINED and entry.doubt) for entry in found)


def confirmation_of(
    races: Sequence[RaceOutcome], confirmations: Sequence[RaceOutcome], plan: RacePlan, ids: Sequence[str]
) -> RacePlan:
    """Return the rules by which those whom `contenders` names are confirmed.

    Args:
        races: all that were held.
        confirmations: held so far.
        plan: with what is left of the budget.
        ids: whom to confirm.
    """
    arms = [entry for name, entry in entries(races).items() if name in ids]
    gain = max(exp(entry.bound.estimate) for entry in arms)
    is_uneven = any(entry.raced.tracks[entry.id].is_uneven for entry in arms)
    together = all(_ran_together(entry) for entry in arms)
    starts_ns = [ns for entry in arms for round_ in entry.raced.rounds for ns in round_.start_ns.values()]
    again = plan.confirmation(
        plan.budget_ns,
        gain,
        is_uneven=is_uneven,
        candidates=len(arms),
        start_ns=int(median(starts_ns or [0])),
    )
    return replace(again, share=SHARES[len(confirmations)], together=together)


def _ran_together(entry: ArmComparison) -> bool:
    """Return whether the last round of an arm's race was one of all at once, and the arm only computes."""
    raced = entry.raced
    computes = raced.tracks[entry.id].clock is DecidingClock.CPU
    return computes and bool(raced.rounds) and raced.rounds[-1].together


def _goes_with(first: ArmComparison, other: ArmComparison, plan: RacePlan) -> bool:
    """Return whether an arm is confirmed together with the first; whoever was cut waits until that fails.

    Then those come back that were cut and not far behind. Where both are so fast that only errors of the
    clock tell them apart, who was cut goes along.
    """
    if other is first:
        return True
    is_near = first.standing is ArmStanding.BEHIND and first.bound.estimate - other.bound.estimate < LAGGING
    is_candidate = other.standing is not ArmStanding.BEHIND or is_near or alike(first, other)
    return is_candidate and not beaten(first, other, plan)
