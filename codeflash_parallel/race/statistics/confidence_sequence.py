"""Betting against a hypothesis about the centre of noisy values: e-processes and confidence sequences. Pure.

The hypothesis "the centre is at most m" is bet against, round by round. The score of a round is

    s_t = clip((x_t - m) / w_t, -1, 1)

where the scale `w_t` follows from the rounds *before* t only. A bet b in (0, 1] multiplies its stake by
`1 + b * s_t`. If the hypothesis is true and noise is as likely to favour one side as the other by any amount
(x_t symmetric around a centre of at most m, given the past), no bet gains on average, so the mean over a
fixed set of bets is a nonnegative supermartingale that starts at one: the chance that it *ever* reaches
1 / alpha is at most alpha (Ville's inequality). So one may look after every round and stop at any time. Tails
do not matter, because scores are bounded.

All m that have not been rejected form a confidence sequence. Evidence falls as m rises, so that its ends are
found by bisection.

Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (2024); Howard,
Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences" (2021). The
centre is Huber's M-estimate of location (1964), with the same scores.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, prod

#: Shares of the stake that are bet. All of it decides clear cases in the fewest rounds; a bad round loses it.
#: Close cases, where rounds scatter by what is gained, need a tenth fewer with 0.75 than with 0.5.
BETS = (0.75, 1.0)

#: The smallest scale, and that of the first two rounds: noise below half a per cent needs no telling apart.
LEAST_SCALE = 0.005

#: Scale per median step from one value to the next; with Gaussian noise the step is 0.95 standard deviations.
STEPS_TO_SCALE = 1.0

#: Halvings of a bracket until its ends are as good as equal.
HALVINGS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Interval of the centre of values; each bound errs with a chance of at most the alpha it was made with.

    Attributes:
        estimate: of the centre; always between the bounds.
        low: minus infinity where there is not enough evidence for a bound.
        high: infinity likewise.
    """

    estimate: float
    low: float
    high: float


class SequentialEvidence:
    """Evidence of some values about their centre.

    Args:
        values: one for each round, in the order of the rounds.
    """

    def __init__(self, values: Sequence[float]) -> None:
        self._values = tuple(values)
        self._scales = scales(values)

    def above(self, m: float) -> float:
        """Return the evidence that the centre is above m: reject "at most m" where it reaches 1 / alpha."""
        return _wealth(self._scores(m))

    def below(self, m: float) -> float:
        """Return the evidence that the centre is below m."""
        return _wealth([-score for score in self._scores(m)])

    def bounds(self, alpha: float) -> Interval:
        """Return the centre with all that is not rejected at an error of `alpha` on either side."""
        if not self._values:
            return Interval(estimate=0.0, low=-inf, high=inf)
        reach = max(self._scales)
        lowest, highest = min(self._values) - reach, max(self._values) + reach
        return Interval(
            estimate=self.centre(),
            low=_last(lambda m: self.above(m) * alpha >= 1, lowest, highest),
            high=-_last(lambda m: self.below(-m) * alpha >= 1, -highest, -lowest),
        )

    def centre(self) -> float:
        """Return the m at which the scores add up to nothing; zero without values."""
        if not self._values:
            return 0.0
        low, high = min(self._values), max(self._values)
        last = _last(lambda m: sum(self._scores(m)) >= 0, low, high)
        first = -_last(lambda m: sum(self._scores(-m)) <= 0, -high, -low)
        return (first + last) / 2

    def _scores(self, m: float) -> list[float]:
        # Evaluated a hundred times for each bound of each look: comparisons cost a third of what calls do.
        return [
            1.0 if (score := (value - m) / scale) >= 1.0 else score if score > -1.0 else -1.0  # noqa: FURB136
            for value, scale in zip(self._values, self._scales, strict=True)
        ]


def _wealth(scores: Sequence[float]) -> float:
    """Return what the bets have made of one."""
    return sum(prod([1 + bet * score for score in scores]) for bet in BETS) / len(BETS)


def scales(values: Sequence[float]) -> tuple[float, ...]:
    """Return the scale of every value's score: from the median step between the values before it."""
    found: list[float] = []
    steps: list[float] = []
    for position in range(len(values)):
        if position > 1:
            insort(steps, abs(values[position - 1] - values[position - 2]))
        middle = steps[len(steps) // 2] if steps else 0.0
        found.append(max(LEAST_SCALE, STEPS_TO_SCALE * middle))
    return tuple(found)


def bounds(values: Sequence[float], alpha: float) -> Interval:
    """Return the confidence sequence of the centre at the last value.

    Args:
        values: one for each round, in the order of the rounds.
        alpha: chance that the lower bound errs at any look, and likewise the upper one.
    """
    return SequentialEvidence(values).bounds(alpha)


def _last(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return about the largest number in [low, high] for which a condition holds.

    A condition that holds somewhere holds for all lower numbers. Minus infinity where it holds nowhere.
    """
    if not holds(low):
        return -inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
