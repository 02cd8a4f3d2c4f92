from __future__ import annotations

from fractions import Fraction
from math import comb, exp, inf, log, log1p, tan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.benchmark.decide import (
    Looks,
    Standing,
    biased,
    bound_rank,
    drop,
    hopeless,
    interval,
    leader_of,
    look,
    rounds_needed,
    speedup,
    too_noisy,
    unit_sd,
)
from codeflash_parallel.benchmark.plan import BASELINE, Group, RacePlan, RaceStage, block_order
from codeflash_parallel.benchmark.samples import Block, BlockKind, Clock, Round, Track, track

PLAN = RacePlan(groups=(Group(name="all", ns=1),))

finite = st.floats(-10, 10, allow_nan=False)
alphas = st.floats(1e-6, 0.4)


def single(values):
    return Track(total=tuple(values), groups=(tuple(values),), clock=Clock.CPU)


def run(tracks, plan=PLAN):
    """Take the looks as a race does, on tracks that have all rounds already."""
    state = Looks(candidates=tuple(tracks))
    for rounds in plan.looks:
        seen = {c: single(tracks[c].total[:rounds]) for c in state.living}
        state = look(state, seen, plan, plan.alpha_per_look)
        if state.decided:
            break
    return state, rounds


def tail(successes, trials, chance):
    """P(Binomial(trials, chance) >= successes)."""
    return 1 - sum(comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(successes))


@given(st.integers(0, 80), alphas)
def test_the_rank_is_the_largest_that_errs_at_most_alpha(count, alpha):
    rank = bound_rank(count, alpha)
    error = Fraction(sum(comb(count, k) for k in range(rank)), 2**count)

    assert error <= alpha or rank == 0
    assert rank <= count
    if rank < count:
        assert error + Fraction(comb(count, rank), 2**count) > alpha


@given(st.lists(finite, min_size=1, max_size=60), alphas)
def test_the_interval_holds_the_median_and_mirrors(values, alpha):
    bound = interval(values, alpha)
    mirrored = interval([-v for v in values], alpha)

    assert bound.low <= bound.median <= bound.high
    assert (mirrored.low, mirrored.high) == (-bound.high, -bound.low)


@given(st.lists(finite, min_size=1, max_size=60), st.floats(0.001, 0.1), finite)
def test_a_stricter_alpha_never_narrows_and_shifts_carry_over(values, alpha, shift):
    wide, narrow = interval(values, alpha / 10), interval(values, alpha)
    moved = interval([v + shift for v in values], alpha)

    assert wide.low <= narrow.low
    assert wide.high >= narrow.high
    assert moved.low == pytest.approx(narrow.low + shift)


def test_too_few_rounds_bound_nothing():
    assert interval([], 0.1) == interval((), 0.2)
    assert interval([0.5] * 5, 0.01).low == -inf
    assert speedup(interval([0.5] * 5, 0.01), Clock.CPU, RaceStage.RACE) is None
    assert interval([0.5] * 7, 0.01).low == 0.5


def test_the_interval_covers_the_median_as_often_as_it_says():
    random = Random(1)
    misses = sum(interval([random.gauss(0, 1) for _ in range(24)], 0.05).low > 0 for _ in range(2000))

    assert tail(misses, 2000, 0.05) > 0.001


def gaussian(random, sd=0.03):
    return random.gauss(0, sd)


def cauchy(random):
    return 0.01 * tan(3.14159 * (random.random() - 0.5))


@pytest.mark.parametrize("noise", [gaussian, cauchy])
def test_false_wins_among_eight_identical_are_within_the_stated_error(noise):
    random, campaigns, wins = Random(2), 150, 0
    for _ in range(campaigns):
        rounds = [[noise(random) for _ in range(9)] for _ in range(48)]
        tracks = {str(a): single([r[0] - r[a] for r in rounds]) for a in range(1, 9)}
        state, _ = run(tracks)
        wins += Standing.FASTER in state.standings.values()

    assert tail(wins, campaigns, 0.01) > 0.001


def drifting_round(number, random, arms, state):
    """Simulate blocks on a core whose speed wanders and jumps, at true ratios of `arms`."""
    blocks = []
    for arm in block_order(list(arms), random):
        state[0] += random.gauss(0, 0.01) + (random.random() < 0.02) * random.choice([-0.3, 0.3])
        ns = int(8e6 * exp(state[0] + random.gauss(0, 0.01)) / arms.get(arm, 1.0))
        blocks.append(Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=ns, wall_ns=ns))
    return Round(number=number, layout=0, core=0, blocks=tuple(blocks))


def drifting(random, arms):
    state = [0.0]
    rounds = [drifting_round(n, random, arms, state) for n in range(48)]
    return {arm: track(rounds, arm, PLAN) for arm in arms}


def test_drift_and_jumps_make_no_false_winner():
    random, campaigns = Random(3), 40
    wins = 0
    for _ in range(campaigns):
        state, _ = run(drifting(random, dict.fromkeys("abcd", 1.0)))
        wins += Standing.FASTER in state.standings.values()

    assert tail(wins, campaigns, 0.01) > 0.001


def test_a_true_winner_is_found_under_drift():
    random, found = Random(4), 0
    for _ in range(20):
        tracks = drifting(random, {"a": 1.0, "b": 1.3, "c": 1.0})
        state, _ = run(tracks)
        found += leader_of(state, tracks) == "b" and state.standings["a"] in {
            Standing.FUTILE,
            Standing.BEATEN,
        }

    assert found == 20


def test_power_at_a_quarter_with_three_per_cent_noise():
    random, campaigns, found, used = Random(5), 200, 0, 0
    for _ in range(campaigns):
        rounds = [[gaussian(random) for _ in range(4)] for _ in range(48)]
        gains = {"1": log(1.25), "2": 0.0, "3": 0.0}
        tracks = {a: single([r[0] - r[int(a)] + gains[a] for r in rounds]) for a in gains}
        state, rounds_used = run(tracks)
        found += state.standings["1"] is Standing.FASTER and leader_of(state, tracks) == "1"
        used += rounds_used

    assert found / campaigns >= 0.99
    assert used / campaigns < 20


def test_equal_winners_stay_together_and_a_clear_one_beats_them():
    random = Random(6)
    noise = [[random.gauss(0, 0.005) for _ in range(3)] for _ in range(48)]

    tied, _ = run({a: single([0.3 + row[a] for row in noise]) for a in (0, 1, 2)})
    clear, rounds = run({a: single([0.3 + 0.1 * a + row[a] for row in noise]) for a in (0, 1, 2)})

    assert set(tied.standings.values()) == {Standing.FASTER}
    assert [clear.standings[a] for a in (0, 1, 2)] == [Standing.BEATEN, Standing.BEATEN, Standing.FASTER]
    assert rounds == 12


def test_a_group_that_slows_down_is_vetoed():
    plan = RacePlan(groups=(Group(name="a", ns=9), Group(name="b", ns=1)))
    slow = Track(total=(0.4,) * 24, groups=((0.5,) * 24, (-0.1,) * 24), clock=Clock.CPU)

    state = look(Looks(candidates=("x",)), {"x": slow}, plan, plan.alpha_per_look)

    assert state.standings["x"] is Standing.REGRESSES
    assert state.decided


def test_a_slower_arm_is_hopeless_only_when_both_first_rounds_say_so():
    assert hopeless(single([-0.5, -0.6]))
    assert not hopeless(single([-0.5]))
    assert not hopeless(single([-0.5, 0.0]))

    state = drop(Looks(candidates=("x", "y")), "x", Standing.HOPELESS)
    assert (state.living, state.decided) == (("y",), False)
    assert drop(state, "y", Standing.HOPELESS).decided


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(finite, min_size=48, max_size=48), min_size=1))
def test_looks_are_monotone_and_name_at_most_one_leader(values):
    tracks = {name: single(v) for name, v in values.items()}
    state, living = Looks(candidates=tuple(tracks)), set(tracks)
    for rounds in PLAN.looks:
        state = look(state, {c: single(tracks[c].total[:rounds]) for c in state.living}, PLAN, 0.003)
        assert set(state.living) <= living
        living = set(state.living)
        leader = leader_of(state, tracks)
        assert leader == "" or state.standings[leader] is Standing.FASTER


def test_a_biased_null_is_seen_on_both_sides():
    assert biased(single([0.05] * 24), PLAN, 0.01)
    assert biased(single([-0.05] * 24), PLAN, 0.01)
    assert not biased(single([0.05, -0.05] * 12), PLAN, 0.01)


def test_noise_is_named_and_priced():
    random = Random(7)
    quiet = single([random.gauss(0, 0.01) for _ in range(48)])
    loud = single([random.gauss(0, 0.5) for _ in range(48)])

    assert not too_noisy(interval(quiet.total, 0.003), PLAN)
    assert too_noisy(interval(loud.total, 0.003), PLAN)
    assert 0.3 < unit_sd(loud) < 0.8
    assert rounds_needed(quiet, PLAN, 0.003) == 12
    assert rounds_needed(loud, PLAN, 0.003) > 100
    assert rounds_needed(single([0.5, -0.5]), PLAN, 0.003) > 100
    assert unit_sd(single([])) == 0


def test_a_speedup_is_the_exponential_of_its_interval():
    result = speedup(interval([log(2)] * 12, 0.01), Clock.WALL, RaceStage.CONFIRMATION)

    assert (result.estimate, result.clock, result.stage) == (pytest.approx(2), "wall", "confirmation")
    assert result.low == result.high == pytest.approx(2)
    assert log1p(PLAN.min_speedup) > 0
    assert BASELINE.startswith("=")
