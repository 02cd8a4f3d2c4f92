"""The order of a round, and the cores that the parent leaves to it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.race.round import (
    BlockScale,
    for_sprint,
    predicted_ns,
    siblings,
    stand_aside,
    turns,
    with_more,
    with_palindromes,
)


def test_siblings_as_the_kernel_writes_them(tmp_path):
    for core, shown in ((0, "0,4\n"), (1, "0-2,5\n")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(shown)

    assert siblings(0, tmp_path) == {4}
    assert siblings(1, tmp_path) == {0, 2, 5}
    assert siblings(7, tmp_path) == frozenset()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one core only")
def test_standing_aside_leaves_the_siblings_of_a_core(tmp_path):
    allowed = os.sched_getaffinity(0)
    core, other, *_ = sorted(allowed)
    shown = tmp_path / f"cpu{core}" / "topology" / "thread_siblings_list"
    shown.parent.mkdir(parents=True)

    def while_aside(siblings_list, of=core):
        shown.write_text(siblings_list)
        with stand_aside(of, tmp_path):
            return os.sched_getaffinity(0)

    assert while_aside(f"{core},{other}") == allowed - {other}
    assert while_aside(f"{core}") == allowed
    assert while_aside(f"{core},{other}", of=-1) == allowed
    assert os.sched_getaffinity(0) == allowed


MS = 1_000_000


def scale(block_ns, cycle=10):
    return BlockScale(cycle=cycle, calls=cycle, block_ns=block_ns)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 1000))
def test_groups_take_turns_palindrome_by_palindrome(counts, seed):
    scales = [replace(scale(MS), palindromes=count) for count in counts]
    order = [*turns(scales, Random(seed))]

    assert Counter(order) == Counter(dict(enumerate(counts)))
    # Nobody has a second turn before all others that have one left have had theirs.
    for at in range(1, len(order) + 1):
        had = Counter(order[:at])
        assert all(had[group] >= min(count, max(had.values()) - 1) for group, count in enumerate(counts))


PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),), budget_ns=30_000 * MS)


def palindromes(*block_ns, arms=1, plan=PLAN):
    return [s.palindromes for s in with_palindromes(tuple(map(scale, block_ns)), arms, plan)]


def test_short_blocks_are_run_until_the_time_of_a_round_is_filled():
    (count,) = palindromes(1_500_000)

    assert count * 2 * 1_500_000 == PLAN.timed_ns


def test_groups_share_the_time_of_a_round():
    assert palindromes(1_500_000, 1_500_000) == [4, 4]


@pytest.mark.parametrize(("block_ms", "more"), [(0.75, 19), (6, 2), (20, 1), (60, 1)])
def test_a_fast_candidate_has_more_calls_in_a_block_as_long_as_that_is_short(block_ms, more):
    again = PLAN.confirmation(PLAN.budget_ns, gain=24)

    assert again.block_ns == PLAN.block_ns // 2
    assert with_more(scale(int(block_ms * MS)), again).more == more


def test_one_large_gain_is_confirmed_with_fewer_blocks_than_several():
    counts = {}
    for candidates in (1, 2):
        again = PLAN.confirmation(PLAN.budget_ns, gain=2, candidates=candidates)
        (sized,) = with_palindromes((scale(again.block_ns),), candidates, again)
        counts[candidates] = sized.palindromes
    small = PLAN.confirmation(PLAN.budget_ns, gain=1.2, candidates=1)

    assert counts == {1: 4, 2: 8}
    assert (small.timed_ns, small.least_palindromes) == (PLAN.timed_ns, PLAN.least_palindromes)
    assert again.least_rounds == small.least_rounds == 12


def test_first_rounds_have_half_the_blocks_and_one_palindrome_at_least():
    scales = (replace(scale(MS), palindromes=8), replace(scale(MS), palindromes=1))

    assert [sized.palindromes for sized in for_sprint(scales)] == [4, 1]


def test_longer_blocks_are_run_a_dozen_times_at_least():
    assert palindromes(8 * MS) == [PLAN.least_palindromes]


def test_what_is_too_long_to_be_repeated_is_not():
    assert palindromes(60 * MS) == [1]


@pytest.mark.parametrize("arms", [1, 8, 40])
def test_rounds_fit_into_the_budget(arms):
    short = replace(PLAN, budget_ns=2_000 * MS)
    scales = with_palindromes((scale(8 * MS), scale(8 * MS)), arms, short)
    once = with_palindromes((scale(8 * MS), scale(8 * MS)), arms, replace(short, budget_ns=1))

    assert [s.palindromes for s in once] == [1, 1]
    assert predicted_ns(scales, arms) <= max(short.budget_ns / 8, predicted_ns(once, arms))


def test_a_field_that_has_lost_all_candidates_divides_by_nothing():
    assert palindromes(8 * MS, arms=0) == [PLAN.least_palindromes]


def test_where_copies_of_inputs_are_dear_a_round_has_fewer_blocks_and_fits_all_the_same():
    cheap, dear = scale(1_500_000), replace(scale(1_500_000), making_ns=300 * MS)
    sized = {s: with_palindromes((s,), 8, PLAN)[0] for s in (cheap, dear)}

    assert sized[dear].palindromes == 1 < sized[cheap].palindromes
    assert predicted_ns((sized[dear],), 8) > 8 * 2 * dear.making_ns
    assert with_more(dear, PLAN.confirmation(PLAN.budget_ns, gain=24)).more == 1
