"""Number of candidates in a shard: large enough for its overhead, small enough for the hosts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

#: Overhead of a shard, as a share of the time that its checks take, that is aimed at.
OVERHEAD = 0.1
#: Seconds of checks in a shard at most, unless the overhead asks for more: so much is lost with a host.
_LONGEST_S = 300.0
#: While nothing has been measured.
_FIRST_OVERHEAD_S, _FIRST_CHECK_S = 5.0, 1.0
#: Weight of the last shard in the means.
_LEAST_SHARE = 0.2
#: What is left makes so many shards for each place, unless they were too small: the last ones are shorter, so
#: that all end at the same time. Not more: a shard's start and its first check cost more than it reports.
_ROUNDS = 1.5


@dataclass(slots=True)
class ShardCosts:
    """Costs of shards, measured on all hosts together.

    Attributes:
        overhead_s: of one shard, before its first check and after its last one.
        check_s: of one candidate.
    """

    overhead_s: float = _FIRST_OVERHEAD_S
    check_s: float = _FIRST_CHECK_S
    _shards: int = 0

    def add(self, overhead_s: float, checks_s: float, checks: int) -> None:
        """Add what one shard has measured; the first ones, for which hosts make baselines, are forgotten."""
        self._shards += 1
        share = max(1 / self._shards, _LEAST_SHARE)
        self.overhead_s += (overhead_s - self.overhead_s) * share
        if checks:
            self.check_s += (checks_s / checks - self.check_s) * share


def shard_size(left: int, places: int, costs: ShardCosts) -> int:
    """Return how many candidates the next shard gets.

    With candidates enough for every place it is at least as large as an overhead of a tenth asks for, and
    larger while many are left. With fewer they are spread evenly: sooner is then worth more than cheaper.

    Args:
        left: candidates that no host has yet, those to come included.
        places: shards at once.
    """
    check_s = max(costs.check_s, 1e-3)
    least = ceil(costs.overhead_s / (OVERHEAD * check_s))
    most = max(least, int(_LONGEST_S / check_s))
    even = ceil(left / max(1, places))
    return max(1, min(even, most, max(least, ceil(left / (_ROUNDS * max(1, places))))))
