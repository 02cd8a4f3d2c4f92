"""How large a shard is, and what its costs are on average."""

from __future__ import annotations

from math import ceil
from statistics import mean

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codeflash_parallel.hosts.cluster.shard_size import OVERHEAD, ShardCosts, shard_size

LONGEST_S = 300.0
SECONDS = st.floats(0.0, 1e4)
COSTS = st.builds(ShardCosts, overhead_s=SECONDS, check_s=SECONDS)
LEFT, PLACES = st.integers(0, 10**7), st.integers(0, 5000)


@given(left=LEFT, places=PLACES, costs=COSTS)
@example(left=0, places=0, costs=ShardCosts(overhead_s=0.0, check_s=0.0))
@example(left=1, places=0, costs=ShardCosts())
def test_a_shard_is_never_empty_and_leaves_every_place_its_share(
    left: int, places: int, costs: ShardCosts
) -> None:
    size = shard_size(left, places, costs)
    assert isinstance(size, int)
    assert 1 <= size <= max(1, ceil(left / max(1, places)))


@given(places=PLACES, costs=COSTS)
def test_with_enough_candidates_the_overhead_is_a_tenth_at_most(places: int, costs: ShardCosts) -> None:
    size = shard_size(1 << 60, places, costs)
    assert costs.overhead_s <= OVERHEAD * size * max(costs.check_s, 1e-3) * (1 + 1e-9)


@given(left=LEFT, places=PLACES, costs=COSTS)
@example(left=10**7, places=1, costs=ShardCosts(overhead_s=0.0, check_s=1.0))
def test_no_shard_is_longer_than_what_may_be_lost_unless_the_overhead_asks_for_it(
    left: int, places: int, costs: ShardCosts
) -> None:
    check_s = max(costs.check_s, 1e-3)
    for_overhead = ceil(costs.overhead_s / (OVERHEAD * check_s))
    size = shard_size(left, places, costs)
    assert size <= max(1, for_overhead) or size * check_s <= LONGEST_S * (1 + 1e-9)


@given(places=st.integers(1, 500), costs=COSTS, left=LEFT)
def test_the_last_shards_are_shorter(places: int, costs: ShardCosts, left: int) -> None:
    assert shard_size(left, places, costs) <= shard_size(left + places, places, costs)


@pytest.mark.parametrize(
    ("left", "places", "size"),
    [
        (10_000, 4, 300),  # what may be lost
        (100, 2, 50),  # the overhead
        (100, 1, 67),  # two thirds of what each place has before it
        (1200, 4, 200),
        (8, 4, 2),  # spread evenly
        (3, 4, 1),
    ],
)
def test_sizes_before_anything_is_measured(left: int, places: int, size: int) -> None:
    assert shard_size(left, places, ShardCosts()) == size


FIRST = ShardCosts()
MEASURED = st.tuples(st.integers(0, 1000), st.integers(0, 10**6), st.integers(0, 500))


def costs_of(*shards: tuple[float, float, int]) -> ShardCosts:
    costs = ShardCosts()
    for overhead_s, checks_s, checks in shards:
        costs.add(overhead_s, checks_s, checks)
    return costs


@given(st.lists(MEASURED, min_size=1, max_size=30))
def test_costs_are_between_those_that_were_measured(shards: list[tuple[int, int, int]]) -> None:
    costs = costs_of(*shards)
    overheads_s = [overhead_s for overhead_s, _, _ in shards]
    assert min(overheads_s) - 1e-9 <= costs.overhead_s <= max(overheads_s) + 1e-9
    checks_s = [checks_s / checks for _, checks_s, checks in shards if checks]
    if shards[0][2]:
        assert min(checks_s) * (1 - 1e-9) <= costs.check_s <= max(checks_s) * (1 + 1e-9)
    elif not checks_s:
        assert costs.check_s == FIRST.check_s


@given(st.lists(MEASURED, min_size=1, max_size=5))
def test_costs_of_few_shards_are_their_mean(shards: list[tuple[int, int, int]]) -> None:
    assert costs_of(*shards).overhead_s == pytest.approx(mean(overhead_s for overhead_s, _, _ in shards))


@given(st.lists(MEASURED, max_size=30))
def test_first_shards_are_forgotten(shards: list[tuple[int, int, int]]) -> None:
    """Hosts make their baselines for them: what those cost is not what later shards cost."""
    costs = costs_of(*shards, *[(2, 30, 10)] * 100)
    largest = max([2, 30, *(max(overhead_s, checks_s) for overhead_s, checks_s, _ in shards)])
    left = 0.8**100 * largest + 1e-9
    assert abs(costs.overhead_s - 2) <= left
    assert abs(costs.check_s - 3) <= left


@given(shards=st.lists(MEASURED, max_size=30), last=MEASURED)
def test_the_last_shard_counts_for_a_fifth_at_least(
    shards: list[tuple[int, int, int]], last: tuple[int, int, int]
) -> None:
    before, after = costs_of(*shards), costs_of(*shards, last)
    share = max(0.2, 1 / (len(shards) + 1))
    expected_s = before.overhead_s + (last[0] - before.overhead_s) * share
    assert after.overhead_s == pytest.approx(expected_s)
