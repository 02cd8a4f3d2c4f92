"""The look after a round: which arms it sees, and what it makes of them."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from random import Random

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, block_order
from codeflash_parallel.race.race import after_round
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))


def round_of(number, random, gains, *, void="", sd=0.01):
    """One round of arms with these true speedups."""
    blocks = []
    for arm in block_order(list(gains), random):
        ns = int(8e6 * exp(random.gauss(0, sd)) / gains.get(arm, 1.0))
        blocks.append(Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=ns, wall_ns=ns))
    return Round(number=number, layout=number // 6, core=0, blocks=tuple(blocks), void=void)


def held(gains, plan=PLAN, *, before=(), leaves=None):
    """Hold a race as `race` does: only arms that are still timed have blocks in a round.

    Args:
        before: rounds that were held earlier.
        leaves: the number of the round in which an arm leaves, by arm.
    """
    random, state, rounds, out = Random(0), InterimState(candidates=tuple(gains)), [], set()
    while not state.decided and len(rounds) < plan.max_rounds:
        timed = {arm: gains[arm] for arm in state.living if arm not in out}
        number = len(rounds)
        rounds.append(before[number] if number < len(before) else round_of(number, random, timed))
        out |= {arm for arm, left_in in (leaves or {}).items() if left_in == len(rounds)}
        state = after_round(state, rounds, plan, out)
    return state, rounds


def test_void_rounds_teach_nothing():
    gains = {"a": 1.3, "b": 1.0}
    state, _ = held(gains)
    spoilt = round_of(0, Random(9), {"a": 0.2, "b": 9.0}, void="another process ran")

    assert held(gains, before=[spoilt])[0] == state
    assert after_round(InterimState(candidates=("a", "b")), [spoilt] * 5, PLAN, ()).living == ("a", "b")


def test_who_left_is_not_looked_at_from_that_round_on():
    state, rounds = held({"a": 1.15, "b": 1.2}, leaves={"b": 3})

    assert (state.standing("b"), state.dropped_after["b"]) == (ArmStanding.OUT, 3)
    assert state.standing("a") is ArmStanding.FASTER
    assert {b.arm for r in rounds[3:] for b in r.blocks} == {BASELINE, "a"}


def test_a_race_without_candidates_left_is_decided():
    rounds = [round_of(0, Random(1), {"a": 1.0})]

    assert after_round(InterimState(candidates=("a",)), rounds, PLAN, {"a"}).decided


def test_other_rules_give_other_states():
    gains = {"a": 1.04}
    state, rounds = held(gains, replace(PLAN, confidence=0.999))
    assert state.standing("a") is ArmStanding.FASTER

    strict, _ = held(gains, replace(PLAN, min_speedup=0.2), before=rounds)
    assert strict.standing("a") is ArmStanding.FUTILE
