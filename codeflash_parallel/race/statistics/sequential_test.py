"""Sequential test: the arms that are faster, with error rates. Pure statistics: values in, values out.

What is guaranteed, in plain words: if no candidate of a race is faster than the baseline by `min_speedup`,
then the chance that its confirmations (all their looks and all their candidates together) call one of them
faster is at most `1 - confidence`. One may look after every round and stop whenever one likes. An interval
holds the true speedup at all looks together with at least the confidence that it is quoted with.

Under which condition: that chance favours both sides alike, given the rounds before. The logarithm of
baseline time over candidate time scatters around the truth as often and as far up as down. Nothing else is
assumed: heavy tails, bursts and drifts across rounds do no harm. Rounds are made such that this holds: the
arms of a round share a core and a few hundredths of a second, their order is drawn and then mirrored. Rounds
of one set of processes share its accidents, which are small (arms are forked off one interpreter); the race
only finds the leaders, and a confirmation with new sets of processes makes the claim.

Decisions that only cost power (an arm is not worth timing on, the field is cut, an arm may be confirmed) go
by the size of an effect where it is plain, and else have an error of their own, `giving_up`: they may lose a
gain near the target, or cost a confirmation that fails, and never make a false winner.

Method: betting (see `confidence_sequence`); the error budget is divided evenly over the candidates
(Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, exp, inf, log, log1p, sqrt
from statistics import median

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import RacePlan, RaceStage, weights
from codeflash_parallel.race.statistics.confidence_sequence import (
    BETS,
    LEAST_SCALE,
    Interval,
    SequentialEvidence,
)
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.result.result_model import Speedup

#: A gain that a race must be able to see; where the interval is too wide for it, the machine is too noisy.
VISIBLE_GAIN = 0.05

#: Rounds per unit of needed log-evidence that noise as large as the gain costs; by simulation.
NOISE_COST = 2.4

#: Median absolute deviation to standard deviation, for Gaussian noise.
MAD_TO_SD = 1.4826

#: Rounds after which the faster half of a large field stays, and a quarter: time is better spent on few. So
#: many stay at least; where work is dear one does.
HALVED_AFTER, QUARTERED_AFTER = 3, 6
LEAST_HALF, LEAST_QUARTER = 4, 2

#: By so many standard errors an arm seems to be faster that is not cut, since it will be decided soon.
PLAINLY_FASTER = 3.0

#: The sprint: an arm that is so much slower than the baseline, or than the leader, in each of its first
#: rounds is dropped, and one that is so much faster than the baseline in all rounds may be confirmed. Between
#: two arms without a difference rounds differ by 1 to 3 %. It costs power only.
SPRINT_ROUNDS = 2
HOPELESS = -log(1.10)
LAGGING = log(1.18)

#: Blocks of a gain beyond this are so short that nobody is taken to lag behind in them.
TOO_SHORT = log(30)

#: Rounds of a race from which on an arm is given up that seems to miss the target by so many standard errors.
FUTILE_AFTER = 5
FUTILE_ERRORS = 1.3

#: After so many rounds one is given up, too, of which twice as many would not show the smallest claim; but
#: not before a gain that a race must be able to see would have been shown.
LONG_RACE = 18

#: Rounds after which it may be foreseen that a race cannot tell two arms apart soon ...
FORESEEN_AFTER = 6

#: ... within so many: more are not spent on two that are both faster, they go on together.
LONGEST_DUEL = 8


#: A group with at least this share of the time vetoes whatever slows it more than allowed ...
HEAVY_SHARE = 0.1

#: ... where the whole gains less than this.
MUCH_GAINED = log(1.5)

#: Every group vetoes what makes it slower by this fraction, and by so many nanoseconds a call.
GROSS_LOSS = 0.5
GROSS_LOSS_NS = 2_000


def visible_gain(plan: RacePlan) -> float:
    """Return the gain that a race must be able to see, as a fraction."""
    return max(VISIBLE_GAIN, 2 * plan.min_speedup)


def too_noisy(bound: Interval, plan: RacePlan) -> bool:
    """Return whether a gain that should be visible is neither excluded nor would have been seen."""
    gain = log1p(visible_gain(plan))
    return bound.high >= gain and bound.estimate - bound.low > gain - log1p(plan.min_speedup)


def unit_sd(track: ArmLogRatios) -> float:
    """Return the spread of one round's log-ratio, by its median absolute deviation."""
    return spread(track.total)


def spread(values: Sequence[float]) -> float:
    """Return the spread of values by their median absolute deviation; 0 without any."""
    if not values:
        return 0.0
    middle = median(values)
    return MAD_TO_SD * median(abs(value - middle) for value in values)


def rounds_needed(sd: float, gain: float, plan: RacePlan, candidates: int) -> int:
    """Return about how many rounds a gain needs to be seen through noise, right within about a third.

    Args:
        sd: of one round's log-ratio.
        gain: as a fraction.
        plan: the rules.
        candidates: of the race.

    Raises:
        ValueError: the gain is not above the smallest claim.
    """
    beyond = log1p(gain) - log1p(plan.min_speedup)
    if beyond <= 0:
        raise ValueError(f"a gain of {gain} is not above the smallest claim")
    return ceil(rounds_to_show(beyond, sd, plan.alpha / candidates))


def rounds_to_show(beyond: float, sd: float, alpha: float) -> float:
    """Return about how many rounds show a centre that lies beyond a bound by so much.

    A bounded bet wins at most `log(2)` a round; where noise is far above what is to be shown, it wins in
    proportion to the square of that over the standard deviation (Waudby-Smith and Ramdas, section 4).
    """
    if beyond <= 0:
        return inf
    return log(len(BETS) / alpha) * (1 / log(2) + NOISE_COST * (sd / beyond) ** 2)


def behind(
    living: Sequence[str], tracks: Mapping[str, ArmLogRatios], plan: RacePlan, candidates: int
) -> list[str]:
    """Return who leaves when the field is cut; those who plainly are faster only where work is dear.

    Args:
        living: who is still timed.
        tracks: of all of them.
        plan: the rules.
        candidates: how many started.
    """
    rounds = max((len(tracks[c].total) for c in living), default=0)
    stay = places(plan, candidates, rounds)
    last = sorted(living, key=lambda c: -centre(tracks[c]))[stay:]
    return [c for c in last if plan.dear or not _is_plainly_faster(tracks[c], plan)]


def _is_plainly_faster(track: ArmLogRatios, plan: RacePlan) -> bool:
    if not track.total:  # it came to wait when only rounds of all at once had been held
        return False
    error = unit_sd(track) / sqrt(len(track.total))
    return centre(track) - PLAINLY_FASTER * error > log1p(plan.min_speedup)


def places(plan: RacePlan, candidates: int, rounds: int) -> int:
    """Return how many candidates may stay after some rounds of a race; in a confirmation all.

    Source: successive halving (Karnin, Koren and Somekh 2013), with fixed moments. It costs power only.
    """
    if plan.stage is RaceStage.CONFIRMATION:
        return candidates
    if rounds < HALVED_AFTER:
        return candidates
    if rounds < QUARTERED_AFTER:
        return max(1 if plan.dear else LEAST_HALF, ceil(candidates / 2))
    return 1 if plan.dear else max(LEAST_QUARTER, ceil(candidates / 4))


class ArmStanding(StrEnum):
    """Standing of a candidate at a look."""

    #: Not decided.
    OPEN = "open"
    #: Faster than the baseline by at least `min_speedup`.
    FASTER = "faster"
    #: Not faster by the target.
    FUTILE = "futile"
    #: Slower in each of its first rounds, and not timed any longer.
    HOPELESS = "hopeless"
    #: A group of tests became slower than allowed.
    REGRESSES = "regresses"
    #: Another candidate is faster.
    BEATEN = "beaten"
    #: Others were ahead when the field was cut to save time; nothing is proven.
    BEHIND = "behind"
    #: It left for a reason other than its speed.
    OUT = "out"


#: Standings of which a candidate is still timed.
TIMED = frozenset({ArmStanding.OPEN, ArmStanding.FASTER})
#: Why one of another standing is not timed any longer; `OUT` has a reason of its own.
WHY_OUT = {
    ArmStanding.FUTILE: "no gain is in sight",
    ArmStanding.HOPELESS: "slower in each of its first rounds",
    ArmStanding.REGRESSES: "slower in a group of tests",
    ArmStanding.BEATEN: "another one is faster",
    ArmStanding.BEHIND: "others are ahead",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class InterimState:
    """The state of the looks at one race.

    Attributes:
        candidates: all that started; the error budget is divided by their number.
        standings: of every candidate that was looked at.
        dropped_after: by candidate that is not timed any longer, the rounds of it that counted.
        decided: nothing more can be learned that would change the outcome.
    """

    candidates: tuple[str, ...]
    standings: Mapping[str, ArmStanding] = field(default_factory=dict)
    dropped_after: Mapping[str, int] = field(default_factory=dict)
    decided: bool = False

    @property
    def living(self) -> tuple[str, ...]:
        """Return the candidates that are still timed."""
        return tuple(c for c in self.candidates if self.standing(c) in TIMED)

    def standing(self, candidate: str) -> ArmStanding:
        """Return how a candidate stands."""
        return self.standings.get(candidate, ArmStanding.OPEN)


def drop(
    state: InterimState, candidates: Iterable[str], standing: ArmStanding, after: Mapping[str, int]
) -> InterimState:
    """Return the state with candidates taken out; nobody left alive decides the race.

    Args:
        state: before.
        candidates: whom to drop.
        standing: why.
        after: rounds that counted, by candidate.
    """
    names = [c for c in candidates if c in state.living]
    dropped = replace(
        state,
        standings={**state.standings, **dict.fromkeys(names, standing)},
        dropped_after={**state.dropped_after, **{c: after.get(c, 0) for c in names}},
    )
    return replace(dropped, decided=state.decided or not dropped.living)


def look(state: InterimState, tracks: Mapping[str, ArmLogRatios], plan: RacePlan) -> InterimState:
    """Look at the data after a round and return the new state.

    Args:
        state: after the previous look.
        tracks: of all living candidates, with all their rounds that count so far.
        plan: the rules.
    """
    error = error_of(plan, len(state.candidates))
    counts = {c: len(tracks[c].total) for c in state.living}
    alone = {c: standing_of(tracks[c], plan, error) for c in state.living}
    for standing in (ArmStanding.HOPELESS, ArmStanding.FUTILE, ArmStanding.REGRESSES):
        state = drop(state, [c for c, found in alone.items() if found is standing], standing, counts)
    state = replace(state, standings={**state.standings, **{c: alone[c] for c in state.living}})
    leader = leader_of(state, tracks)
    if leader:
        slower = [c for c in state.living if beats(tracks[leader], tracks[c], plan, error)]
        state = drop(state, slower, ArmStanding.BEATEN, counts)
    cut = behind(state.living, tracks, plan, len(state.candidates))
    state = drop(state, [*cut, *_lagging(state, tracks, plan)], ArmStanding.BEHIND, counts)
    return replace(state, decided=_is_decided(state, tracks, plan, leader))


def error_of(plan: RacePlan, candidates: int) -> float:
    """Return the error at which one of so many is found to be faster, than the baseline or than another.

    A race claims nothing: with the error of a claim it would take half as long again to name its leader.
    """
    return plan.alpha / candidates if plan.stage is RaceStage.CONFIRMATION else plan.giving_up


def standing_of(track: ArmLogRatios, plan: RacePlan, alpha: float) -> ArmStanding:
    """Return how an arm stands against the baseline alone; not faster while a group seems too slow."""
    if _is_hopeless(track):
        return ArmStanding.HOPELESS
    total = SequentialEvidence(track.total)
    if total.below(log1p(plan.worth_finding)) * plan.giving_up >= 1 or _seems_futile(track, plan):
        return ArmStanding.FUTILE
    slow = slower_groups(track, plan)
    error = plan.giving_up / len(track.groups)
    if any(SequentialEvidence(track.groups[g]).below(_floor(track, plan, g)) * error >= 1 for g in slow):
        return ArmStanding.REGRESSES
    faster = _is_plain(track, plan) or total.above(log1p(plan.min_speedup)) * alpha >= 1
    return ArmStanding.FASTER if faster and not slow else ArmStanding.OPEN


def _is_hopeless(track: ArmLogRatios) -> bool:
    """Return whether the first rounds of an arm were so slow that timing it on is waste."""
    return len(track.total) >= SPRINT_ROUNDS and max(track.total[:SPRINT_ROUNDS]) < HOPELESS


def _is_plain(track: ArmLogRatios, plan: RacePlan) -> bool:
    """Return whether a race has found a gain that every round shows, and that is far beyond their noise."""
    least = max(LAGGING, log1p(plan.worth_finding))
    return plan.stage is RaceStage.RACE and len(track.total) >= SPRINT_ROUNDS and min(track.total) > least


def _seems_futile(track: ArmLogRatios, plan: RacePlan) -> bool:
    """Return whether an arm of a race seems to miss the target."""
    rounds = len(track.total)
    if plan.stage is not RaceStage.RACE or rounds < FUTILE_AFTER:
        return False
    sd, found = max(unit_sd(track), LEAST_SCALE), centre(track)
    if found + FUTILE_ERRORS * sd / sqrt(rounds) < log1p(plan.worth_finding):
        return True
    goals = found, log1p(visible_gain(plan))
    needed, enough = (rounds_to_show(g - log1p(plan.min_speedup), sd, plan.giving_up) for g in goals)
    return rounds >= max(LONG_RACE, enough) and needed > 2 * LONG_RACE


def _lagging(state: InterimState, tracks: Mapping[str, ArmLogRatios], plan: RacePlan) -> list[str]:
    """Return who was far behind the fastest arm of a race in each of the first rounds."""
    if plan.stage is not RaceStage.RACE or not state.living:
        return []
    first = tracks[max(state.living, key=lambda c: centre(tracks[c]))]
    gaps = {c: _gaps(first, tracks[c])[:SPRINT_ROUNDS] for c in state.living if centre(tracks[c]) < TOO_SHORT}
    return [c for c, found in gaps.items() if len(found) == SPRINT_ROUNDS and min(found) > LAGGING]


def slower_groups(track: ArmLogRatios, plan: RacePlan) -> tuple[int, ...]:
    """Return the groups that are slower than allowed by their median, proven or not."""
    return tuple(
        g for g, values in enumerate(track.groups) if values and median(values) < _floor(track, plan, g)
    )


def _floor(track: ArmLogRatios, plan: RacePlan, group: int) -> float:
    """Return the log-ratio below which a group vetoes a gain.

    A group that matters may lose no more than `max_regression`, unless the whole gains much. Any other may be
    slower by some nanoseconds a call, which tests of tiny inputs show as many per cent, and not by a half.
    """
    if weights(plan.groups)[group] >= HEAVY_SHARE and centre(track) < MUCH_GAINED:
        return -log1p(plan.max_regression)
    call_ns = track.calls_ns[group] if track.calls_ns else inf
    return -log1p(max(plan.max_regression, GROSS_LOSS, GROSS_LOSS_NS / call_ns))


def leader_of(state: InterimState, tracks: Mapping[str, ArmLogRatios]) -> str:
    """Return the fastest candidate among those known to be faster; empty when none is."""
    faster = [c for c in state.living if state.standing(c) is ArmStanding.FASTER]
    return max(faster, key=lambda c: centre(tracks[c]), default="")


def centre(track: ArmLogRatios) -> float:
    """Return the estimate of an arm's log-ratio."""
    return SequentialEvidence(track.total).centre()


def _gaps(one: ArmLogRatios, other: ArmLogRatios) -> list[float]:
    """Return how much faster one arm is than another, in the rounds that they share."""
    return [a - b for a, b in zip(one.total, other.total, strict=False)]


def _lead(one: ArmLogRatios, other: ArmLogRatios) -> SequentialEvidence:
    return SequentialEvidence(_gaps(one, other))


def beats(leader: ArmLogRatios, other: ArmLogRatios, plan: RacePlan, alpha: float) -> bool:
    """Return whether the leader is faster than another arm, surely, and the two are not level."""
    if leader is other or is_level(leader, other, plan):
        return False
    return _lead(leader, other).above(0.0) * alpha >= 1


def is_level(leader: ArmLogRatios, other: ArmLogRatios, plan: RacePlan) -> bool:
    """Return whether another arm is no slower than the leader by more than indifference.

    That is said with the error at which arms are given up: whoever is taken for level is faster all the same.
    """
    return leader is other or _lead(leader, other).below(log1p(plan.indifference)) * plan.giving_up >= 1


def _is_safe(leader: ArmLogRatios, other: ArmLogRatios, plan: RacePlan, alpha: float) -> bool:
    """Return whether the leader is surely no slower than another arm by more than indifference."""
    return _lead(leader, other).above(-log1p(plan.indifference)) * alpha >= 1


def _is_decided(state: InterimState, tracks: Mapping[str, ArmLogRatios], plan: RacePlan, leader: str) -> bool:
    """Return whether more rounds would not change what is said of the living."""
    living = state.living
    if not living:
        return True
    if max(len(tracks[c].total) for c in living) < plan.least_rounds:
        return False
    if plan.stage is RaceStage.CONFIRMATION:
        return not any(_is_near_miss(state, tracks, plan, c) for c in living)
    if not leader:
        return False
    error = error_of(plan, len(state.candidates))
    return all(_is_settled(tracks[leader], tracks[c], plan, error) for c in living)


def _is_settled(leader: ArmLogRatios, other: ArmLogRatios, plan: RacePlan, alpha: float) -> bool:
    """Return whether the leader surely is no slower than another arm, or that is beyond this race."""
    if leader is other or _is_safe(leader, other, plan, alpha):
        return True
    gaps = _gaps(leader, other)
    beyond = SequentialEvidence(gaps).centre() + log1p(plan.indifference)
    return len(gaps) >= FORESEEN_AFTER and rounds_to_show(beyond, spread(gaps), alpha) > LONGEST_DUEL


def _is_near_miss(
    state: InterimState, tracks: Mapping[str, ArmLogRatios], plan: RacePlan, candidate: str
) -> bool:
    """Return whether an arm seems to be faster, and the rounds so far do not prove it."""
    is_open = state.standing(candidate) is ArmStanding.OPEN
    return is_open and centre(tracks[candidate]) > log1p(plan.min_speedup)


def biased(null: ArmLogRatios, plan: RacePlan) -> bool:
    """Return whether a second baseline differs from the first: then the race measured something else."""
    found, goal = SequentialEvidence(null.total), log1p(plan.min_speedup)
    return max(found.above(goal), found.below(-goal)) * plan.void_alpha / 2 >= 1


def speedup(bound: Interval, clock: DecidingClock, stage: RaceStage) -> Speedup | None:
    """Return an interval as a speedup, `None` when there are too few rounds for bounds."""
    if bound.low == -inf or bound.high == inf:
        return None
    return Speedup(
        estimate=exp(bound.estimate),
        low=exp(bound.low),
        high=exp(bound.high),
        clock=clock.value,
        stage=stage.value,
    )
