"""Decisions of a gate: e-BH against its definition, verdicts, and how often identical code is red."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import Block, BlockKind, DecidingClock, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan
from codeflash_parallel.race.statistics.slowdown_test import (
    BenchmarkRounds,
    Change,
    GateRules,
    believed,
    decide,
    interval,
    means,
    overall,
)

RULES = GateRules()
evidences = st.lists(st.floats(0, 1e6), max_size=7)


def reference(evidence: list[float], alpha: float) -> int:
    """Return the size of the largest set of e-values of which each is as large as that set's size asks for."""
    count = len(evidence)
    fitting = (
        len(some)
        for size in range(count + 1)
        for some in combinations(evidence, size)
        if all(one * size * alpha >= count for one in some)
    )
    return max(fitting)


@given(evidences, st.sampled_from([0.005, 0.01, 0.3]))
def test_e_bh_believes_the_largest_set_that_its_definition_allows(
    evidence: list[float], alpha: float
) -> None:
    found = believed(evidence, alpha)
    assert len(found) == reference(evidence, alpha)
    left_out = [one for place, one in enumerate(evidence) if place not in found]
    assert min((evidence[place] for place in found), default=0) >= max(left_out, default=0) or not found


@given(evidences, st.integers(0, 6), st.floats(0, 1e6))
def test_more_evidence_for_one_takes_nothing_from_the_others(
    evidence: list[float], place: int, more: float
) -> None:
    if place < len(evidence):
        larger = [one + more * (number == place) for number, one in enumerate(evidence)]
        assert believed(evidence, 0.01) <= believed(larger, 0.01)


@given(st.lists(st.sampled_from(Change), max_size=5), st.sampled_from(Change))
def test_one_slowdown_is_enough_and_nothing_is_green_that_is_not_sure(
    changes: list[Change], total: Change
) -> None:
    found = overall(changes, total)
    if Change.SLOWER in {*changes, total}:
        assert found is Change.SLOWER
    elif Change.TOO_NOISY in changes or not changes:
        assert found is Change.TOO_NOISY
    else:
        assert found is (Change.FASTER if total is Change.FASTER else Change.NOT_SLOWER)


def lanes(random: Random, shifts: list[float], sd: float, layouts: int) -> list[dict[int, float]]:
    return [{n: random.gauss(shift, sd) for n in range(layouts)} for shift in shifts]


def steps(found: list[dict[int, float]]) -> list[list[dict[int, float]]]:
    """Return what is known after each set of processes."""
    return [[dict([*lane.items()][:n]) for lane in found] for n in range(1, len(found[0]) + 1)]


def gated(found: list[dict[int, float]]) -> Change:
    """Return the verdict of a gate that stops when all is decided."""
    for known in steps(found):
        decision = decide(known, RULES)
        if decision.is_final:
            break
    return decision.verdict


@pytest.mark.parametrize(
    ("loss", "verdict"), [(0.0, Change.NOT_SLOWER), (0.10, Change.SLOWER), (-0.08, Change.FASTER)]
)
@pytest.mark.parametrize("count", [1, 3, 58])
def test_plain_cases_are_decided(loss: float, verdict: Change, count: int) -> None:
    shifts = [-log(1 + loss)] * count
    assert gated(lanes(Random(count), shifts, 0.008, 30)) is verdict


def test_one_slow_benchmark_of_many_is_named() -> None:
    found = lanes(Random(1), [0.0] * 20 + [-log(1.1)], 0.01, 40)
    decision = decide(found, RULES)
    assert decision.verdict is Change.SLOWER
    assert [n for n, change in enumerate(decision.changes) if change is Change.SLOWER] == [20]


@given(st.integers(0, 10_000), st.floats(0, 0.2))
def test_a_slower_head_is_never_judged_more_kindly(seed: int, loss: float) -> None:
    order = [Change.SLOWER, Change.TOO_NOISY, Change.NOT_SLOWER, Change.FASTER]
    found = lanes(Random(seed), [0.0], 0.01, 14)
    slower = [{layout: value - loss for layout, value in lane.items()} for lane in found]
    before, after = (decide(some, RULES).changes[0] for some in (found, slower))
    assert order.index(after) <= order.index(before)


@pytest.mark.parametrize("count", [1, 10])
def test_identical_code_is_red_in_one_gate_of_a_hundred_at_most(count: int) -> None:
    """Noise so that much is left open; the worst is what seems slower by exactly what is allowed."""
    red = sum(
        gated(lanes(Random(f"{count} {seed}"), [-log(1.02)] * count, 0.02, 40)) is Change.SLOWER
        for seed in range(120)
    )
    assert red <= 5


def test_a_benchmark_of_two_speeds_is_not_red() -> None:
    random = Random(7)
    found = [[{n: random.choice((-0.26, 0.0, 0.0, 0.26)) for n in range(40)}] for _ in range(100)]
    verdicts = Counter(map(gated, found))
    assert verdicts[Change.SLOWER] == verdicts[Change.FASTER] == 0
    assert verdicts[Change.TOO_NOISY] > 80


def test_nothing_is_known_at_first() -> None:
    decision = decide([{}, {}], RULES)
    assert (decision.verdict, decision.is_final) == (Change.TOO_NOISY, False)
    assert interval([]).estimate == 0.0


def test_the_mean_is_over_sets_that_all_have() -> None:
    assert means([{0: 1.0, 1: 2.0}, {1: 4.0, 2: 9.0}]) == [3.0]
    assert means([]) == []


# --- rounds ----------------------------------------------------------------------------------------------

PLAN = RacePlan(groups=(CostGroup(name="a", ns=1), CostGroup(name="b", ns=1)), layout_rounds=2)


def timed(arm: str, group: int, ns: int, kind: BlockKind = BlockKind.TIMED) -> Block:
    return Block(arm=arm, kind=kind, group=group, calls=10, cpu_ns=ns, wall_ns=ns)


def round_of(number: int, layout: int, *, void: str = "", factor: float = 1.0) -> Round:
    blocks = [timed(BASELINE, 0, 0, BlockKind.EMPTY)]
    for group, ns in ((0, 1_000_000), (1, 2_000_000)):
        blocks += [
            timed(arm, group, int(ns * (factor if arm == "head" else 1))) for arm in (BASELINE, "head")
        ]
        blocks += [
            timed(arm, group, int(ns * (factor if arm == "head" else 1))) for arm in ("head", BASELINE)
        ]
    return Round(number=number, layout=layout, core=0, blocks=tuple(blocks), void=void)


def test_each_benchmark_has_a_value_for_each_set_of_processes_that_is_complete() -> None:
    taken = BenchmarkRounds(PLAN)
    rounds = [round_of(0, 0), round_of(1, 0, factor=1.21), round_of(2, 1)]
    taken.add(rounds[:1])
    assert taken.complete == frozenset()
    taken.add(rounds)
    assert taken.complete == {0}
    for lane in taken.lanes("head"):
        assert lane == pytest.approx({0: -log(1.21) / 2}, abs=1e-3)
    assert taken.clocks("head") == [DecidingClock.CPU] * 2


def test_rounds_that_are_void_do_not_count() -> None:
    taken = BenchmarkRounds(PLAN)
    taken.add(
        [round_of(0, 0, factor=3, void="disturbed"), round_of(1, 0), round_of(2, 2, void="x"), round_of(3, 3)]
    )
    assert taken.complete == {0, 2}
    assert taken.lanes("head")[0] == pytest.approx({0: 0.0}, abs=1e-3)
