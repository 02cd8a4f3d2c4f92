"""Who is faster, and how sure that is. Pure statistics: values in, values out.

What is guaranteed, in plain words: if no candidate of a race is faster than the baseline by `min_speedup`,
then the chance that the race (all its looks and all its arms together) calls one of them faster is at most
`1 - confidence`; the interval around a speedup holds the true median with at least that confidence.

Under which condition: that the rounds are independent of each other, and that in one round a candidate
which is no faster comes out ahead by more than `min_speedup` with a chance of at most one half. No shape of
the noise is assumed: heavy tails, bursts and drifts across rounds do no harm, because each round counts
only as ahead or behind (the sign test), and the arms of one round share a core and a few hundredths of a
second. The condition holds in the confirmation, where every round has processes of its own. It does not
quite hold in the race, where six rounds share a process and with it an accident of addresses that may
favour one arm by some per cent; therefore the race only finds the leaders, and the confirmation's figures
alone are the claim.

Method: the distribution-free interval for a median from order statistics (W. R. Thompson, 1936; e.g.
Conover, Practical Nonparametric Statistics, section 3.2), with exact binomial tails. The error budget is
divided evenly over the looks and over the candidates (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, comb, exp, inf, log, log1p
from statistics import NormalDist, median

from codeflash_parallel.benchmark.plan import RacePlan, RaceStage
from codeflash_parallel.benchmark.samples import Clock, Track
from codeflash_parallel.model.result import Speedup

#: A gain that a race must be able to see; where the interval is too wide for it, the machine is too noisy.
VISIBLE_GAIN = 0.10

#: Both of an arm's first rounds slower than this: dropped at once. That costs power only.
HOPELESS = -log(1.25)

#: Error of decisions that only cost power, whatever their number: that an arm is not faster, slows a
#: group down, or is level with the leader. A false one loses a gain near `min_speedup`; it never makes a
#: false winner.
GIVING_UP = 0.02

#: Rounds after which an arm may be found hopeless.
HOPELESS_AFTER = 2

#: Median absolute deviation to standard deviation, for Gaussian noise.
MAD_TO_SD = 1.4826


class Standing(StrEnum):
    """How a candidate stands at a look."""

    #: Not decided.
    OPEN = "open"
    #: Faster than the baseline by at least `min_speedup`.
    FASTER = "faster"
    #: Not faster by `min_speedup`.
    FUTILE = "futile"
    #: So much slower in its first rounds that it was not timed any longer.
    HOPELESS = "hopeless"
    #: A group of tests became slower than allowed.
    REGRESSES = "regresses"
    #: Another candidate is faster beyond indifference.
    BEATEN = "beaten"


#: Standings of which a candidate is not timed any longer.
DROPPED = frozenset({Standing.FUTILE, Standing.HOPELESS, Standing.REGRESSES, Standing.BEATEN})


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A median of log-ratios and its bounds, each of which errs with a chance of at most some alpha."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Looks:
    """The state of the looks at one race.

    Attributes:
        candidates: all that started; the error budget is divided by their number.
        standings: of every candidate.
        decided: nothing more can be learned that would change the outcome.
    """

    candidates: tuple[str, ...]
    standings: Mapping[str, Standing] = field(default_factory=dict)
    decided: bool = False

    @property
    def living(self) -> tuple[str, ...]:
        """Return the candidates that are still timed."""
        return tuple(c for c in self.candidates if self.standings.get(c, Standing.OPEN) not in DROPPED)


def bound_rank(count: int, alpha: float) -> int:
    """Return the largest k such that the k-th smallest of `count` values is a lower bound of the median.

    The chance that it is not one is P(Binomial(count, 1/2) < k), computed exactly; 0 when even the
    smallest value errs too often.
    """
    limit = alpha * 2**count
    below, rank = 0, 0
    while rank <= count:
        below += comb(count, rank)
        if below > limit:
            break
        rank += 1
    return rank


def interval(values: Sequence[float], alpha: float) -> Interval:
    """Return the median with bounds that each err with a chance of at most `alpha`, for any distribution."""
    if not values:
        return Interval(median=0.0, low=-inf, high=inf)
    ranked = sorted(values)
    rank = bound_rank(len(ranked), alpha)
    low, high = (ranked[rank - 1], ranked[-rank]) if rank else (-inf, inf)
    return Interval(median=median(ranked), low=low, high=high)


def hopeless(track: Track) -> bool:
    """Return whether both first rounds of an arm were so slow that timing it on is waste."""
    return len(track.total) >= HOPELESS_AFTER and max(track.total[:HOPELESS_AFTER]) < HOPELESS


def drop(state: Looks, candidate: str, standing: Standing) -> Looks:
    """Return the state with one candidate's standing set; nobody left alive decides the race."""
    after = replace(state, standings={**state.standings, candidate: standing})
    return replace(after, decided=not after.living)


def look(state: Looks, tracks: Mapping[str, Track], plan: RacePlan, alpha: float) -> Looks:
    """Look at the data and return the new state.

    Args:
        state: after the previous look.
        tracks: of all living candidates.
        plan: the rules.
        alpha: error that this look may spend on all candidates together.
    """
    share = alpha / len(state.candidates)
    standings = {**state.standings, **{c: standing_of(tracks[c], plan, share) for c in state.living}}
    after = replace(state, standings=standings)
    leader = leader_of(after, tracks)
    if leader:
        beaten = {c: Standing.BEATEN for c in after.living if beats(tracks[leader], tracks[c], plan, share)}
        after = replace(after, standings={**standings, **beaten})
    level = all(_settled(c, leader, tracks, plan) for c in after.living)
    return replace(after, decided=level)


def standing_of(track: Track, plan: RacePlan, alpha: float) -> Standing:
    """Return how an arm stands against the baseline alone; not faster while a group seems too slow."""
    goal = log1p(plan.min_speedup)
    if interval(track.total, GIVING_UP).high < goal:
        return Standing.FUTILE
    slow = slower_groups(track, plan)
    if any(is_slower(track.groups[group], plan, GIVING_UP / len(track.groups)) for group in slow):
        return Standing.REGRESSES
    return Standing.FASTER if not slow and interval(track.total, alpha).low > goal else Standing.OPEN


def slower_groups(track: Track, plan: RacePlan) -> tuple[int, ...]:
    """Return the groups that are slower than allowed by their median, proven or not."""
    floor = -log1p(plan.max_regression)
    return tuple(g for g, values in enumerate(track.groups) if values and median(values) < floor)


def is_slower(values: Sequence[float], plan: RacePlan, alpha: float) -> bool:
    """Return whether a group is slower than allowed, surely."""
    return interval(values, alpha).high < -log1p(plan.max_regression)


def leader_of(state: Looks, tracks: Mapping[str, Track]) -> str:
    """Return the fastest candidate among those known to be faster; empty when none is."""
    faster = [c for c in state.living if state.standings[c] is Standing.FASTER]
    return max(faster, key=lambda c: median(tracks[c].total), default="")


def difference(one: Track, other: Track, alpha: float) -> Interval:
    """Return the interval of how much faster one arm is than another, from the rounds that they share."""
    return interval([a - b for a, b in zip(one.total, other.total, strict=False)], alpha)


def beats(leader: Track, other: Track, plan: RacePlan, alpha: float) -> bool:
    """Return whether the leader is faster than another arm by more than indifference, surely."""
    if leader is other:
        return False
    return difference(leader, other, alpha).low > log1p(plan.indifference)


def _settled(candidate: str, leader: str, tracks: Mapping[str, Track], plan: RacePlan) -> bool:
    """Return whether more rounds could not change what is said of a living candidate."""
    if candidate == leader:
        return True
    if not leader:
        return False
    gap = difference(tracks[leader], tracks[candidate], GIVING_UP)
    return max(abs(gap.low), abs(gap.high)) < log1p(plan.indifference)


def biased(null: Track, plan: RacePlan, alpha: float) -> bool:
    """Return whether a second baseline differs from the first: then the race measured something else."""
    bound = interval(null.total, alpha / 2)
    return bound.low > log1p(plan.min_speedup) or bound.high < -log1p(plan.min_speedup)


def speedup(bound: Interval, clock: Clock, stage: RaceStage) -> Speedup | None:
    """Return an interval as a speedup, `None` when there are too few rounds for bounds."""
    if bound.low == -inf or bound.high == inf:
        return None
    return Speedup(
        estimate=exp(bound.median),
        low=exp(bound.low),
        high=exp(bound.high),
        clock=clock.value,
        stage=stage.value,
    )


def too_noisy(bound: Interval, plan: RacePlan) -> bool:
    """Return whether a gain of ten per cent is neither excluded nor would have been seen."""
    return bound.high >= log1p(VISIBLE_GAIN) and bound.median - bound.low > _reach(plan)


def _reach(plan: RacePlan) -> float:
    """Return how far below its median the lower bound of a visible gain may lie."""
    return log1p(VISIBLE_GAIN) - log1p(plan.min_speedup)


def unit_sd(track: Track) -> float:
    """Return the spread of one round's log-ratio, by its median absolute deviation."""
    if not track.total:
        return 0.0
    centre = median(track.total)
    return MAD_TO_SD * median(abs(value - centre) for value in track.total)


def rounds_needed(track: Track, plan: RacePlan, alpha: float) -> int:
    """Return about how many rounds a gain of ten per cent needs to be seen through this noise.

    The larger of two estimates: bounds narrow with the root of the number of rounds; and for Gaussian
    noise, the median's own standard error is 1.2533 (the square root of pi / 2) times sd over that root.
    """
    bound, count = interval(track.total, alpha), len(track.total)
    seen = count * ((bound.median - bound.low) / _reach(plan)) ** 2 if bound.low > -inf else 0
    z = NormalDist().inv_cdf(1 - alpha)
    gaussian = (1.2533 * z * unit_sd(track) / _reach(plan)) ** 2
    return max(plan.looks[0], ceil(seen), ceil(gaussian))
