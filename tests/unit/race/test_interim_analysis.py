"""The live race's looks are those that its rounds give when they are taken again, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from random import Random

from all_looks import judge
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel.race.interim_analysis import after_round
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, block_order
from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))
OUT = Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong", left_in=3)


def round_of(number, random, gains, *, void="", sd=0.01):
    """One round of arms with these true speedups."""
    blocks = []
    for arm in block_order(list(gains), random):
        ns = int(8e6 * exp(random.gauss(0, sd)) / gains.get(arm, 1.0))
        blocks.append(Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=ns, wall_ns=ns))
    return Round(number=number, layout=number // 6, core=0, blocks=tuple(blocks), void=void)


def live(gains, plan, *, seed=0, voids=(), out=None, sd=0.01):
    """Hold a race as `race` does: only who is still timed has blocks in a round."""
    random, state, rounds = Random(seed), InterimState(candidates=tuple(gains)), []
    known = {}
    while not state.decided and len(rounds) < plan.max_rounds:
        number = len(rounds) + 1
        timed = {arm: gains[arm] for arm in state.living if arm not in known}
        rounds.append(round_of(number - 1, random, timed, void="noise" if number in voids else "", sd=sd))
        known.update({arm: why for arm, why in (out or {}).items() if why.left_in == number})
        state = after_round(state, rounds, plan, known)
    return state, rounds


gains_of = st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.5, 0.97, 1.0, 1.03, 1.3]), min_size=1)


@settings(max_examples=drawn(25))
@given(
    gains_of, st.sets(st.integers(1, 12), max_size=4), st.integers(1, 9), st.booleans(), st.integers(0, 99)
)
def test_the_rounds_give_the_same_state_bit_by_bit(gains, voids, left_in, dear, seed):
    plan = replace(PLAN, dear=dear, max_rounds=20)
    out = {"a": replace(OUT, left_in=left_in)} if "a" in gains else {}
    state, rounds = live(gains, plan, seed=seed, voids=voids, out=out)

    assert judge(rounds, tuple(gains), plan, out) == state


def test_void_rounds_teach_nothing():
    gains = {"a": 1.3, "b": 1.0}
    state, rounds = live(gains, PLAN)
    spoilt = round_of(0, Random(9), {"a": 0.2, "b": 9.0}, void="another process ran")

    assert judge([spoilt, *rounds], tuple(gains), PLAN, {}) == state
    assert judge([spoilt] * 5, tuple(gains), PLAN, {}).living == ("a", "b")


def test_who_left_is_not_looked_at_from_that_round_on():
    gains = {"a": 1.15, "b": 1.2}
    state, rounds = live(gains, PLAN, out={"b": OUT})

    assert (state.standing("b"), state.dropped_after["b"]) == (ArmStanding.OUT, 3)
    assert state.standing("a") is ArmStanding.FASTER
    assert {b.arm for r in rounds[3:] for b in r.blocks} == {BASELINE, "a"}


def test_who_left_after_the_race_leaves_its_looks_as_they_were():
    gains = {"a": 1.3, "b": 1.5}
    state, rounds = live(gains, PLAN)
    later = Disqualification(
        status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong in a clean process"
    )

    assert judge(rounds, tuple(gains), PLAN, {"b": later}) == state


def test_a_race_without_candidates_left_is_decided():
    rounds = [round_of(0, Random(1), {"a": 1.0})]

    assert judge(rounds, ("a",), PLAN, {"a": replace(OUT, left_in=1)}).decided
    assert not judge([], ("a",), PLAN, {}).decided


def test_other_rules_give_other_states():
    gains = {"a": 1.04}
    _, rounds = live(gains, replace(PLAN, confidence=0.999))
    strict = replace(PLAN, min_speedup=0.2)

    assert judge(rounds, ("a",), PLAN, {}).standing("a") is ArmStanding.FASTER
    assert judge(rounds, ("a",), strict, {}).standing("a") is ArmStanding.FUTILE
