"""Betting on the centre of noisy values: what holds always, and how often what is said is wrong."""

from __future__ import annotations

from math import comb, inf, tan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.statistics.confidence_sequence import (
    BETS,
    LEAST_SCALE,
    Interval,
    SequentialEvidence,
    bounds,
    scales,
)

finite = st.floats(-10, 10, allow_nan=False)
values_of = st.lists(finite, min_size=1, max_size=40)
alphas = st.floats(1e-6, 0.4)


def at_least(successes, trials, chance):
    """P(Binomial(trials, chance) >= successes)."""
    return 1 - sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(successes))


@given(values_of, finite, finite)
def test_evidence_falls_as_the_hypothesis_rises(values, one, other):
    evidence = SequentialEvidence(values)
    low, high = sorted((one, other))

    assert evidence.above(low) >= evidence.above(high)
    assert evidence.below(low) <= evidence.below(high)


@given(values_of, finite)
def test_never_is_there_evidence_for_both_sides(values, m):
    evidence = SequentialEvidence(values)

    assert min(evidence.above(m), evidence.below(m)) <= 1


@given(values_of, st.integers(0, 39))
def test_scales_follow_from_the_values_before_alone(values, cut):
    assert scales(values)[: cut + 1] == scales([*values[:cut], *(9.9 for _ in values[cut:])])[: cut + 1]
    assert min(scales(values)) >= LEAST_SCALE


@given(st.floats(-1, 1))
def test_a_fair_bet_gains_nothing_on_average(score):
    """Two rounds that are as likely to go up as down leave the mean of the four outcomes at one or below."""
    outcomes = [
        SequentialEvidence([a * LEAST_SCALE, b * LEAST_SCALE]).above(0.0)
        for a in (score, -score)
        for b in (1, -1)
    ]

    assert sum(outcomes) / len(outcomes) == pytest.approx(1)


@given(values_of, alphas)
def test_bounds_enclose_the_estimate_and_mirror(values, alpha):
    bound = bounds(values, alpha)
    mirrored = bounds([-v for v in values], alpha)

    assert bound.low <= bound.estimate <= bound.high
    assert mirrored == Interval(estimate=-bound.estimate, low=-bound.high, high=-bound.low)


@given(values_of, st.floats(0.001, 0.1))
def test_a_stricter_alpha_never_narrows(values, alpha):
    wide, narrow = bounds(values, alpha / 10), bounds(values, alpha)

    assert wide.low <= narrow.low
    assert wide.high >= narrow.high


@given(values_of, alphas, finite)
def test_bounds_and_evidence_say_the_same(values, alpha, m):
    bound, evidence = bounds(values, alpha), SequentialEvidence(values)

    if abs(m - bound.low) > 1e-6:
        assert (evidence.above(m) * alpha >= 1) == (m < bound.low)
    if abs(m - bound.high) > 1e-6:
        assert (evidence.below(m) * alpha >= 1) == (m > bound.high)


def test_too_few_values_bound_nothing():
    assert bounds([], 0.1) == Interval(estimate=0.0, low=-inf, high=inf)
    assert bounds([0.5] * 3, 0.01) == Interval(estimate=0.5, low=-inf, high=inf)
    assert bounds([0.5] * 8, 0.01).low > 0.49


def test_even_the_surest_bet_needs_about_twelve_rounds_among_eight():
    error = 0.01 / 8
    needed = next(n for n in range(1, 99) if SequentialEvidence([9.0] * n).above(0.0) * error >= 1)

    assert 10 <= needed <= 12
    assert max(BETS) <= 1


def test_two_halves_that_contradict_each_other_leave_the_middle_open():
    bound = bounds([-0.5, 0.5] * 8, 0.01)

    assert bound.low < -0.4
    assert bound.high > 0.4
    assert abs(bound.estimate) < 0.1


#: Many races with fixed seeds: they do the same under every Python, so that one of them runs them.
simulation = pytest.mark.slow


def gaussian(random):
    return random.gauss(0, 0.012)


def cauchy(random):
    return 0.01 * tan(3.14159 * (random.random() - 0.5))


def bursts(random):
    return random.gauss(0, 0.01) * (30 if random.random() < 0.05 else 1)


@simulation
@pytest.mark.parametrize("noise", [gaussian, cauchy, bursts])
def test_a_true_centre_is_rejected_at_any_look_as_rarely_as_said(noise):
    random, tries, alpha = Random(2), 400, 0.05
    misses = 0
    for _ in range(tries):
        values = [noise(random) for _ in range(30)]
        misses += any(SequentialEvidence(values[:n]).above(0.0) * alpha >= 1 for n in range(1, 31))

    assert at_least(misses, tries, alpha) > 0.001


@simulation
@pytest.mark.parametrize("noise", [gaussian, cauchy, bursts])
def test_the_interval_covers_as_often_as_it_says(noise):
    random, tries, alpha = Random(3), 300, 0.025
    misses = 0
    for _ in range(tries):
        bound = bounds([0.3 + noise(random) for _ in range(12)], alpha)
        misses += not bound.low <= 0.3 <= bound.high

    assert at_least(misses, tries, 2 * alpha) > 0.001


def test_the_interval_of_twelve_quiet_rounds_is_narrow():
    random = Random(4)
    widths = sorted(
        (b := bounds([gaussian(random) for _ in range(12)], 0.005)).high - b.low for _ in range(100)
    )

    assert widths[50] < 4 * 0.012
