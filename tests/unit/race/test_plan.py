"""The terms of a race: the order of blocks, the weights of groups, and the rules of a confirmation."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.plan import (
    BASELINE,
    MAX_CONFIRMATIONS,
    MOST_CALLS,
    CostGroup,
    RacePlan,
    RaceStage,
    block_order,
    weights,
)

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))


def groups_of(*costs):
    return [CostGroup(name=str(number), ns=ns) for number, ns in enumerate(costs)]


@given(st.integers(1, 9), st.integers(0, 1000))
def test_blocks_are_a_palindrome_with_a_baseline_near_every_candidate(count, seed):
    candidates = [f"c{number}" for number in range(count)]
    order = block_order(candidates, Random(seed))

    assert order == order[::-1]
    assert all(order.count(candidate) == 2 for candidate in candidates)
    near = [order[max(0, at - 2) : at + 3] for at, arm in enumerate(order) if arm != BASELINE]
    assert all(BASELINE in blocks for blocks in near)


def test_one_of_three_groups_weighs_half_at_most():
    assert weights(groups_of(3, 1)) == (0.75, 0.25)
    assert weights(groups_of(80, 15, 5)) == pytest.approx((0.5, 0.375, 0.125))


def test_a_confirmation_spends_its_part_of_the_error_and_times_fast_candidates_with_more_calls():
    again = PLAN.confirmation(10**9, gain=2.5)

    assert (again.stage, again.budget_ns, again.dear) == (RaceStage.CONFIRMATION, 10**9, False)
    assert again.alpha == pytest.approx(PLAN.alpha / MAX_CONFIRMATIONS)
    assert again.more_calls == 2.0
    assert PLAN.confirmation(10**9, gain=100).more_calls == MOST_CALLS
