"""How noisy rounds are, and how many of them a gain needs to be seen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, log, log1p
from statistics import median

from codeflash_parallel.race.plan import RacePlan
from codeflash_parallel.race.statistics.confidence_sequence import BETS, Interval
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios

#: A gain that a race must be able to see; where the interval is too wide for it, the machine is too noisy.
VISIBLE_GAIN = 0.05

#: Rounds per unit of needed log-evidence that noise as large as the gain costs; by simulation.
NOISE_COST = 2.4

#: Median absolute deviation to standard deviation, for Gaussian noise.
MAD_TO_SD = 1.4826


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
