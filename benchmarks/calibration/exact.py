"""Rates with their exact binomial bounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, lgamma, log

#: Halvings of [0, 1]: more than a double can tell apart.
BISECTIONS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """How often something happened in some independent tries."""

    hits: int
    tries: int

    @classmethod
    def of(cls, outcomes: Iterable[bool]) -> Rate:
        """Count."""
        found = [*outcomes]
        return cls(hits=sum(found), tries=len(found))

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95 % bounds of Clopper and Pearson (1934); [0, 1] where nothing was tried."""
        if not self.tries:
            return 0.0, 1.0
        return lower_bound(self.hits, self.tries), 1 - lower_bound(self.tries - self.hits, self.tries)

    def __str__(self) -> str:
        if not self.tries:
            return "-"
        low, high = self.bounds
        share = 100 * self.hits / self.tries
        return f"{share:.3g} % ({100 * low:.2g} to {100 * high:.3g}; {self.hits} of {self.tries})"


def lower_bound(hits: int, tries: int, alpha: float = 0.05) -> float:
    """Return the chance at which `hits` or more of `tries` would come with a chance of `alpha / 2`."""
    if hits == 0:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        enough = sum(binomial(k, tries, middle) for k in range(hits, tries + 1)) < alpha / 2
        low, high = (middle, high) if enough else (low, middle)
    return low


def binomial(hits: int, tries: int, chance: float) -> float:
    """Return the chance of exactly `hits`, by logarithms: the coefficients of 2,000 tries are no floats."""
    ways = lgamma(tries + 1) - lgamma(hits + 1) - lgamma(tries - hits + 1)
    return exp(ways + hits * log(chance) + (tries - hits) * log(1 - chance)) if 0 < chance < 1 else 0.0


def agree(one: Rate, other: Rate) -> bool:
    """Return whether the bounds of two rates overlap, so that neither contradicts the other."""
    return one.bounds[0] <= other.bounds[1] and other.bounds[0] <= one.bounds[1]
