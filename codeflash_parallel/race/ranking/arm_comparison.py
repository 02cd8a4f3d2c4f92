"""The arms of races as the ranking sees them, and whom to confirm next, by which rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, log1p
from statistics import median

from codeflash_parallel.race.guards import Doubt, Gain, doubt_of
from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import MAX_CONFIRMATIONS, NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.statistics.confidence_sequence import Interval, bounds
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, claimed, gains_only_seen
from codeflash_parallel.race.statistics.sequential_test import (
    LAGGING,
    SPRINT_ROUNDS,
    ArmStanding,
    beats,
    biased,
    is_level,
    rounds_needed,
    slower_groups,
    speedup,
    unit_sd,
    visible_gain,
)
from codeflash_parallel.result.result_model import Speedup

#: Nanoseconds in a second.
SECOND = 1e9

#: A gain beyond which a candidate that was only raced counts as faster than the baseline, as a fraction. In a
#: race many rounds share one process: two swapped lines of a real project came out at 0.93x in one run and at
#: more than 1.05x in another, by their place in memory.
_RACED_GAIN = 0.10

#: Of gains beyond this a clock sees hardly more than its own error.
ABSURD_GAIN = log(10)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmComparison(Gain):
    """One arm in one race, as that race's last look saw it.

    Attributes:
        track: what its claim is made from.
        bound: of that claim, at the error that the race may spend on it; where a race needed so few rounds
            that they give none, what they showed least and most.
    """

    track: ArmLogRatios

    @classmethod
    def of(cls, raced: Raced, arm: str) -> ArmComparison:
        """Return an arm's entry."""
        track = claimed(raced.tracks, arm, raced.plan)
        return cls(id=arm, raced=raced, track=track, bound=_bound(raced, arm, track.total, raced.error))

    @property
    def standing(self) -> ArmStanding:
        """Its standing at the last look that saw it."""
        return self.raced.standing(self.id)

    @property
    def speedup(self) -> Speedup | None:
        """Its estimate and bounds; `None` with too few rounds."""
        return self._speedup(self.track.total)

    def _speedup(self, values: Sequence[float]) -> Speedup | None:
        """Return a speedup; what is not claimed is bounded at the error at which arms are given up."""
        is_claim = self.standing is ArmStanding.FASTER
        error = self.raced.error if is_claim else self.raced.plan.giving_up
        found = _bound(self.raced, self.id, values, error)
        return speedup(found, self.track.clock, self.raced.plan.stage)

    @property
    def doubt(self) -> Doubt | None:
        """Why its gain is doubted; `None` when it is not."""
        return doubt_of(self)

    @property
    def least_gain(self) -> float:
        """The logarithm of a gain beyond which it counts as faster than the baseline."""
        plan = self.raced.plan
        is_race = plan.stage is RaceStage.RACE
        return log1p(max(_RACED_GAIN, 2 * plan.min_speedup) if is_race else plan.min_speedup)

    @property
    def gains_only_seen(self) -> bool:
        """Whether it gains on inputs that the tests know, and not on others."""
        goal = self.least_gain
        is_less = gains_only_seen(self.raced.tracks, self.id, self.raced.plan)
        # Too few rounds have no bound: a race that was cut off says nothing of a gain that seems to hold.
        least = self.bound.low if self.bound.low > -inf else self.bound.estimate
        return is_less and self._seen > goal >= least

    @property
    def _seen(self) -> float:
        return bounds(self.raced.tracks[self.id].total, self.raced.error).estimate

    @property
    def times(self) -> str:
        """Its estimate for a sentence."""
        return f"{exp(self.bound.estimate):.2f}x"

    @property
    def label(self) -> str:
        """Its figures on the tests' inputs and on unseen ones, to be appended to a sentence; or empty."""
        unseen = self.raced.tracks[self.id].unseen
        if not unseen:
            return ""
        figure = bounds(unseen, self.raced.error).estimate
        return f"; {exp(self._seen):.2f}x on the tests' calls, {exp(figure):.2f}x on unseen ones"

    @property
    def slowed(self) -> str:
        """The groups of tests that it makes slower than allowed, with figures; going by medians."""
        return self._named(slower_groups(self.raced.tracks[self.id], self.raced.plan))

    @property
    def note(self) -> str:
        """The groups that a winner makes slower all the same, to be appended to a sentence; or empty."""
        groups, floor = self.raced.tracks[self.id].groups, -log1p(self.raced.plan.max_regression)
        named = self._named([g for g, values in enumerate(groups) if values and median(values) < floor])
        return f"; slower in {named}" if named else ""

    def _named(self, groups: Sequence[int]) -> str:
        values = self.raced.tracks[self.id].groups
        return ", ".join(f"{self.raced.plan.groups[g].name} ({exp(median(values[g])):.2f}x)" for g in groups)

    @property
    def noise(self) -> str:
        """Its noise, and what its gain, or the least visible one, would have needed; one clause."""
        raced = self.raced
        track = raced.tracks[self.id]
        if not track.total:
            return raced.stopped
        sd, gain = unit_sd(track), max(visible_gain(raced.plan), exp(self.bound.estimate) - 1)
        needed_ns = rounds_needed(sd, gain, raced.plan, len(raced.candidates)) * raced.round_ns
        return (
            f"too noisy: {self.times}, rounds scatter by {100 * sd:.0f} %, a gain of {100 * gain:.0f} % "
            f"would have needed about {needed_ns / SECOND:.0f} s ({raced.stopped})"
        )

    @property
    def groups(self) -> tuple[tuple[str, Speedup], ...]:
        """The same by group of tests."""
        found = [self._speedup(values) for values in self.track.groups]
        return tuple((g.name, s) for g, s in zip(self.raced.plan.groups, found, strict=True) if s is not None)


def _bound(raced: Raced, arm: str, values: Sequence[float], error: float) -> Interval:
    found = bounds(values, error)
    is_over = raced.plan.stage is RaceStage.RACE and raced.standing(arm) is not ArmStanding.OPEN
    if not is_over or len(values) < SPRINT_ROUNDS:
        return found
    low = min(values) if found.low == -inf else found.low
    high = max(values) if found.high == inf else found.high
    return replace(found, low=low, high=high)


def entries(outcomes: Sequence[RaceOutcome]) -> dict[str, ArmComparison]:
    """Return the arms that were timed, by id, as the last race that had them saw them."""
    found = {}
    for raced in outcomes:
        if isinstance(raced, Raced):
            for arm in raced.candidates:
                if arm not in raced.out:
                    found[arm] = ArmComparison.of(raced, arm)
    return found


def alike(one: ArmComparison, other: ArmComparison) -> bool:
    """Return whether the gains of two arms are so large that nothing is left to tell them apart by.

    Of a call that takes a thousandth of the baseline's time a clock sees hardly more than its own error.
    """
    return all(
        a.bound.estimate > ABSURD_GAIN and a.bound.low <= b.bound.estimate <= a.bound.high
        for a, b in ((one, other), (other, one))
    )


def beaten(leader: ArmComparison, other: ArmComparison, plan: RacePlan) -> bool:
    """Return whether the leader is surely faster; across races only the intervals can say so."""
    if alike(leader, other):
        return False
    if leader.raced is other.raced:
        return beats(leader.track, other.track, plan, leader.raced.error)
    return leader.bound.low > other.bound.high


def level(leader: ArmComparison, other: ArmComparison, plan: RacePlan) -> bool:
    """Return whether another arm is surely no slower than the leader by more than indifference."""
    if leader.raced is other.raced:
        return is_level(leader.track, other.track, plan)
    return leader.bound.high - other.bound.low < log1p(plan.indifference)


def fastest_of(found: Sequence[ArmComparison]) -> ArmComparison:
    """Return the fastest by its estimate."""
    return max(found, key=lambda entry: entry.bound.estimate)


def is_void(confirmations: Sequence[RaceOutcome]) -> bool:
    """Return whether a second baseline came out different from the first."""
    return any(
        NULL in raced.tracks and biased(raced.tracks[NULL], raced.plan)
        for raced in confirmations
        if isinstance(raced, Raced)
    )


def confirmed(confirmations: Sequence[RaceOutcome], plan: RacePlan) -> tuple[ArmComparison, ...]:
    """Return the arms confirmed as faster, not doubted, and not to be told apart from the fastest of them."""
    goal = log1p(plan.min_speedup)
    sure = [
        entry
        for entry in entries(confirmations).values()
        if entry.standing in {ArmStanding.FASTER, ArmStanding.BEATEN}
        and entry.bound.low > goal
        and not entry.doubt
    ]
    if not sure:
        return ()
    leader = fastest_of(sure)
    return tuple(entry for entry in sure if not beaten(leader, entry, plan))


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
