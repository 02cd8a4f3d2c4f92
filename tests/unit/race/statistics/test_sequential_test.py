"""The looks at a race: every reason to stop timing an arm."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from random import Random
from statistics import median

import pytest
from drawn_tracks import (
    CONFIRM,
    EIGHT,
    PLAN,
    gaussian,
    noisy,
    rounds_used,
    run,
    single,
)
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import CostGroup, RaceStage
from codeflash_parallel.race.statistics.confidence_sequence import Interval, bounds
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import (
    ArmStanding,
    InterimState,
    beats,
    biased,
    centre,
    drop,
    is_level,
    leader_of,
    look,
    places,
    rounds_needed,
    speedup,
    too_noisy,
    unit_sd,
    visible_gain,
)


def test_an_arm_that_another_beats_is_dropped():
    state, _ = run(noisy(Random(10), {"a": 1.35, "b": 1.4, "c": 1.5}, gaussian()), "abc")

    assert [state.standing(c) for c in "abc"] == [ArmStanding.BEATEN, ArmStanding.BEATEN, ArmStanding.FASTER]
    assert set(state.dropped_after) == {"a", "b"}
    assert state.living == ("c",)


def test_what_is_surely_level_is_not_beaten():
    fast, hardly = single([0.300] * 40), single([0.295] * 40)

    assert is_level(fast, hardly, PLAN)
    assert not beats(fast, hardly, PLAN, 0.001)
    assert beats(fast, single([0.25] * 40), PLAN, 0.001)
    assert not beats(fast, fast, PLAN, 0.001)


def test_a_group_that_slows_down_is_vetoed():
    plan = replace(PLAN, groups=(CostGroup(name="a", ns=9), CostGroup(name="b", ns=1)))
    slow = ArmLogRatios(total=(0.4,) * 12, groups=((0.5,) * 12, (-0.1,) * 12), clock=DecidingClock.CPU)

    state = look(InterimState(candidates=("x",)), {"x": slow}, plan)

    assert (state.standing("x"), state.dropped_after) == (ArmStanding.REGRESSES, {"x": 12})
    assert state.decided


def test_a_group_that_only_seems_slower_withholds_the_win():
    plan = replace(PLAN, groups=(CostGroup(name="a", ns=9), CostGroup(name="b", ns=1)))
    slow = ArmLogRatios(
        total=(0.4,) * 12, groups=((0.5,) * 12, (-0.1, -0.1, 0.1) * 4), clock=DecidingClock.CPU
    )

    assert look(InterimState(candidates=("x",)), {"x": slow}, plan).standing("x") is ArmStanding.OPEN


@pytest.mark.parametrize(
    ("values", "standing"),
    [((-0.5, -0.6), ArmStanding.HOPELESS), ((-0.5,), ArmStanding.OPEN), ((-0.5, 0.0), ArmStanding.OPEN)],
)
def test_an_arm_is_hopeless_only_when_both_first_rounds_say_so(values, standing):
    state = look(InterimState(candidates=("x", "y")), {"x": single(values), "y": single((0.0, 0.0))}, PLAN)

    assert state.standing("x") is standing


def _staying(gains, rounds):
    """Return who is still timed after some rounds in which every arm showed its gain, give or take."""
    wobble = [0.03, -0.03, 0.02, -0.02, 0.0, 0.0] * 3
    state = InterimState(candidates=tuple(gains))
    for number in range(1, rounds + 1):
        tracks = {arm: single([gain + noise for noise in wobble[:number]]) for arm, gain in gains.items()}
        state = look(state, {arm: tracks[arm] for arm in state.living}, PLAN)
    return state


def test_a_large_field_is_cut_twice():
    gains = {f"c{number}": 0.012 + number / 10_000 for number in range(8)}

    assert len(_staying(gains, 2).living) == 8
    assert _staying(gains, 3).living == ("c4", "c5", "c6", "c7")
    after = _staying(gains, 6)
    assert after.living == ("c6", "c7")
    assert {after.standing(f"c{number}") for number in range(6)} == {ArmStanding.BEHIND}


def test_a_sprint_leaves_who_is_far_behind_and_names_who_is_far_ahead():
    gains = {"slow": 0.85, "same": 1.0, "near": 1.4, "first": 1.5}
    two = {arm: single([log(gain)] * 2) for arm, gain in gains.items()}
    once = {arm: single([log(gain)]) for arm, gain in gains.items()}

    assert look(InterimState(candidates=tuple(gains)), once, PLAN).living == tuple(gains)
    state = look(InterimState(candidates=tuple(gains)), two, PLAN)

    assert [state.standing(arm) for arm in gains] == [
        ArmStanding.HOPELESS, ArmStanding.BEHIND, ArmStanding.FASTER, ArmStanding.FASTER,
    ]  # fmt: skip
    assert not state.decided, "the two are not told apart yet"
    alone = look(
        InterimState(candidates=("same", "first")), {arm: two[arm] for arm in ("same", "first")}, PLAN
    )
    assert (alone.living, alone.decided) == (("first",), True)
    claim = look(InterimState(candidates=("first",)), {"first": two["first"]}, CONFIRM)
    assert claim.standing("first") is ArmStanding.OPEN, "a confirmation claims nothing by size"


def test_who_seems_to_miss_the_target_is_given_up_after_five_rounds():
    values = [0.004, -0.004, 0.002, 0.0, -0.002]

    def standing(count, plan):
        return look(InterimState(candidates=("x",)), {"x": single(values[:count])}, plan).standing("x")

    assert [standing(count, PLAN) for count in (4, 5)] == [ArmStanding.OPEN, ArmStanding.FUTILE]
    assert standing(5, CONFIRM) is ArmStanding.OPEN


def test_a_small_field_is_not_halved():
    gains = {f"c{number}": 0.012 + number / 10_000 for number in range(4)}

    assert len(_staying(gains, 5).living) == 4
    assert _staying(gains, 6).living == ("c2", "c3")


def test_who_plainly_gains_is_not_cut():
    gains = {**{f"c{number}": 0.5 + number / 10_000 for number in range(7)}, "same": 0.012}

    state = _staying(gains, 6)

    assert state.living == tuple(f"c{number}" for number in range(7))
    assert state.standing("same") is ArmStanding.BEHIND


def test_a_confirmation_is_not_cut():
    assert {places(CONFIRM, 8, rounds) for rounds in range(48)} == {8}


def test_where_work_is_dear_the_field_is_halved_and_ends_in_a_duel():
    plan, gains = replace(PLAN, dear=True), {f"c{i}": 1.2 + 0.01 * i for i in range(8)}
    state, tracks = run(noisy(Random(11), gains, gaussian(0.02)), EIGHT, plan)
    behind = [c for c in EIGHT if state.standing(c) is ArmStanding.BEHIND]

    assert len(state.living) == 1
    assert sorted(state.dropped_after[c] for c in behind) == [3] * 4 + [6] * 3
    assert state.decided
    assert rounds_used(tracks) <= 14


def test_a_confirmation_has_twelve_rounds_and_is_extended_on_a_near_miss():
    clear, tracks = run(noisy(Random(13), {"a": 1.3}, gaussian()), "a", CONFIRM)
    assert (clear.decided, rounds_used(tracks)) == (True, 12)

    near = look(InterimState(candidates=("a",)), {"a": single([0.03, -0.01] * 6)}, CONFIRM)
    assert (near.standing("a"), near.decided) == (ArmStanding.OPEN, False)

    missed = look(InterimState(candidates=("a",)), {"a": single([0.03, -0.02] * 6)}, CONFIRM)
    assert (missed.standing("a"), missed.decided) == (ArmStanding.OPEN, True)


def test_a_tie_alone_does_not_extend_a_confirmation():
    gains = {"a": 1.3, "b": 1.3, "c": 1.3}
    state, tracks = run(noisy(Random(17), gains, gaussian(0.03)), "abc", CONFIRM)

    assert state.living == ("a", "b", "c")
    assert rounds_used(tracks) == 12


def test_every_arm_of_a_tie_may_extend_a_confirmation():
    sure, unsure = single([0.05] * 12), single([0.06, 0.01] * 6)
    state = look(InterimState(candidates=("a", "b")), {"a": sure, "b": unsure}, CONFIRM)

    assert [state.standing(c) for c in "ab"] == [ArmStanding.FASTER, ArmStanding.OPEN]
    assert not state.decided


def test_dropping_is_for_good_and_only_once():
    state = drop(InterimState(candidates=("x", "y")), ["x"], ArmStanding.OUT, {"x": 3})
    again = drop(state, ["x"], ArmStanding.FUTILE, {"x": 9})

    assert (state.living, state.decided, state.dropped_after) == (("y",), False, {"x": 3})
    assert again == state
    assert drop(state, ["y"], ArmStanding.OUT, {}).decided


finite = st.floats(-10, 10, allow_nan=False)


@pytest.mark.slow
@settings(max_examples=drawn(30))
@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(finite, min_size=24, max_size=24), min_size=1),
    st.booleans(),
)
def test_looks_are_monotone_and_name_at_most_one_leader(values, dear):
    plan = replace(PLAN, dear=dear)
    state = InterimState(candidates=tuple(values))
    for rounds in range(1, 25):
        living, dropped = set(state.living), dict(state.dropped_after)
        tracks = {c: single(values[c][:rounds]) for c in values}
        state = look(state, tracks, plan)
        assert set(state.living) <= living
        assert dropped.items() <= state.dropped_after.items()
        assert set(state.dropped_after) == set(values) - set(state.living)
        leader = leader_of(state, tracks)
        assert leader == "" or state.standing(leader) is ArmStanding.FASTER
        if state.decided:
            break


@given(st.lists(finite, min_size=1, max_size=24))
def test_a_look_twice_at_the_same_rounds_says_the_same(values):
    tracks = {"a": single(values), "b": single([v / 2 for v in values])}
    once = look(InterimState(candidates=("a", "b")), tracks, PLAN)

    assert once.decided or look(once, tracks, PLAN) == once


def test_a_biased_null_is_seen_on_both_sides():
    assert biased(single([0.05] * 12), CONFIRM)
    assert biased(single([-0.05] * 12), CONFIRM)
    assert not biased(single([0.05, -0.05] * 12), CONFIRM)
    assert not biased(single([]), CONFIRM)


def test_noise_is_named():
    random = Random(14)
    quiet = single([random.gauss(0, 0.01) for _ in range(48)])
    loud = single([random.gauss(0, 0.5) for _ in range(48)])

    assert not too_noisy(bounds(quiet.total, 0.003), PLAN)
    assert too_noisy(bounds(loud.total, 0.003), PLAN)
    assert 0.3 < unit_sd(loud) < 0.8
    assert unit_sd(single([])) == 0
    assert visible_gain(PLAN) == 0.05
    assert visible_gain(replace(PLAN, min_speedup=0.2)) == 0.4


@pytest.mark.slow
@pytest.mark.parametrize(("sd", "gain"), [(0.001, 0.05), (0.012, 0.03), (0.03, 0.05), (0.06, 0.05)])
def test_the_predicted_number_of_rounds_is_about_right(sd, gain):
    random, plan, used = Random(15), replace(PLAN, max_rounds=400), []
    for _ in range(20):
        _, tracks = run(noisy(random, {"a": 1 + gain}, gaussian(sd / 2**0.5)), "a", plan)
        used.append(rounds_used(tracks))
    predicted = rounds_needed(sd, gain, plan, 1)

    assert median(used) <= predicted * 1.34
    assert predicted <= median(used) * 2


def test_a_gain_below_the_smallest_claim_can_never_be_seen():
    with pytest.raises(ValueError, match="smallest claim"):
        rounds_needed(0.01, 0.01, PLAN, 1)


def test_a_speedup_is_the_exponential_of_its_interval():
    result = speedup(
        Interval(estimate=log(2), low=log(1.9), high=log(2.1)), DecidingClock.WALL, RaceStage.CONFIRMATION
    )

    assert (result.estimate, result.low, result.high) == pytest.approx((2, 1.9, 2.1))
    assert (result.clock, result.stage) == ("wall", "confirmation")
    assert speedup(Interval(estimate=0.1, low=-inf, high=1.0), DecidingClock.CPU, RaceStage.RACE) is None
    assert centre(single([])) == 0
