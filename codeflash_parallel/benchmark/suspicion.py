"""Gains that a guard doubts. Pure: looks at what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from statistics import median

from codeflash_parallel.benchmark.evidence import Interval, bounds
from codeflash_parallel.benchmark.plan import BASELINE
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.samples import BlockKind, Clock, Round, channel_cost, net_ns, track

#: Hot gains up to this are not doubted: a cache that pays less is not worth the doubt.
HOT_GAIN = log(1.5)

#: Share of an arm's saving that may be missing the first time it sees an input.
MISSING_SHARE = 0.4

#: Error of that doubt. A wrong doubt withholds a win, a missing one credits a cache: neither is rare enough
#: for a stricter bound on twelve rounds.
CACHE_ALPHA = 0.1

#: Savings below this drown in what the first steps of a fork cost (copied pages).
LEAST_SAVING_NS = 10_000

#: Gains beyond this are doubted unless even the cold pass gains `ABSURD_COLD`.
ABSURD_GAIN = log(50)
ABSURD_COLD = 5.0

#: Error of a doubt.
DOUBT_ALPHA = 0.01


def suspicion(raced: Raced, arm: str, bound: Interval) -> str:
    """Return why an arm's gain is doubted, one clause; empty when it is not."""
    if bound.estimate > HOT_GAIN and _is_cached(raced, arm):
        return "cache: inputs seen before are faster, inputs seen for the first time are not"
    if bound.estimate > ABSURD_GAIN and not _cold_gain(raced, arm) > ABSURD_COLD:
        return "a gain beyond 50 that the first, cold pass over the inputs does not show"
    if raced.tracks[arm].clock is Clock.CPU and _wall_contradicts(raced, arm):
        return "faster on the CPU clock, slower on the wall clock"
    return ""


def _wall_contradicts(raced: Raced, arm: str) -> bool:
    wall = track(raced.rounds, arm, raced.plan, Clock.WALL)
    return bounds(wall.total, DOUBT_ALPHA).high < 0


def _is_cached(raced: Raced, arm: str) -> bool:
    """Return whether inputs seen for the first time miss much of what the arm saves on inputs seen before."""
    seen = [_Seen.of(raced, round_, arm) for round_ in raced.rounds]
    complete = [one for one in seen if one is not None]
    usual = median([one.saving for one in complete]) if complete else 0.0
    if usual < LEAST_SAVING_NS:
        return False
    return bounds([one.missing / usual for one in complete], CACHE_ALPHA).low > MISSING_SHARE


def _cold_gain(raced: Raced, arm: str) -> float:
    """Return the median gain on inputs seen for the first time; infinite where nothing was seen twice."""
    seen = [_Seen.of(raced, round_, arm) for round_ in raced.rounds]
    return median([one.cold_gain for one in seen if one is not None] or [inf])


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """Nanoseconds that one round's same inputs took for the first and for the second time, all groups."""

    base_cold: float
    base_again: float
    cold: float
    again: float

    @property
    def saving(self) -> float:
        """What the arm saves on inputs that it has seen."""
        return self.base_again - self.again

    @property
    def missing(self) -> float:
        """How much of that is missing the first time; what a fork costs anyway, the baseline pays as well."""
        return (self.cold - self.again) - (self.base_cold - self.base_again)

    @property
    def cold_gain(self) -> float:
        return self.base_cold / self.cold

    @classmethod
    def of(cls, raced: Raced, round_: Round, arm: str) -> _Seen | None:
        clock = raced.tracks[arm].clock
        sums: dict[tuple[str, BlockKind], float] = {}
        for block in round_.blocks:
            if block.arm in {arm, BASELINE} and block.kind in {BlockKind.COLD, BlockKind.AGAIN}:
                ns = net_ns(block, channel_cost(raced.rounds, block.arm), clock)
                sums[block.arm, block.kind] = sums.get((block.arm, block.kind), 0.0) + ns
        if (arm, BlockKind.AGAIN) not in sums:
            return None
        return cls(
            base_cold=sums[BASELINE, BlockKind.COLD],
            base_again=sums[BASELINE, BlockKind.AGAIN],
            cold=sums[arm, BlockKind.COLD],
            again=sums[arm, BlockKind.AGAIN],
        )
