"""Whom to confirm next: caches hide nobody, and all of it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ranking_cases import PLAN, held

from codeflash_parallel.race.measurement import DecidingClock, Round
from codeflash_parallel.race.ranking.arm_comparison import (
    SHARES,
    confirmation_of,
    contenders,
    left_of,
    race_of,
)
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import InterimState
from codeflash_parallel.result.outcome_codes import Code, Verdict


def doubted(arm, gain, plan):
    """A confirmation of an arm that leaves files which its next process could find."""
    rounds = tuple(Round(number=n, layout=n, core=0, blocks=(), unclean=(arm,)) for n in range(12))
    return held({arm: gain}, plan, rounds=rounds)


def test_three_caches_do_not_hide_who_is_faster():
    caches, confirmations = {"m40": 40.0, "m20": 20.0, "m10": 10.0}, []
    races = [held({**caches, "honest": 1.5})]

    while ids := contenders(races, confirmations, PLAN, limit=2):
        again = confirmation_of(races, confirmations, PLAN, ids)
        (arm,) = ids
        gain = caches.get(arm)
        confirmations.append(doubted(arm, gain, again) if gain else held({arm: 1.5}, again))
    ranking = rank(races, confirmations, PLAN, {})

    assert [c.candidates for c in confirmations] == [("m40",), ("m20",), ("m10",), ("honest",)]
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "honest")
    assert ranking.of("m40").code is Code.SUSPECT


def test_attempts_share_one_error_budget_and_end():
    caches, confirmations = {f"m{n}": 30.0 - 3 * n for n in range(9)}, []
    races = [held(caches)]

    while ids := contenders(races, confirmations, PLAN, limit=2):
        again = confirmation_of(races, confirmations, PLAN, ids)
        confirmations.append(doubted(ids[0], caches[ids[0]], again))

    assert len(confirmations) == len(SHARES)
    assert sum(c.plan.share for c in confirmations) <= 1 + 1e-9


def test_a_race_and_what_confirms_it_share_one_budget():
    plan = replace(PLAN, budget_ns=100)
    first = replace(held({"a": 1.5}, race_of(plan)), wall_ns=50)
    again = replace(held({"a": 1.5}), wall_ns=45)

    assert race_of(plan).budget_ns == 60
    assert [race_of(plan, 3).budget_ns] * 3 == [20, 20, 20]
    assert left_of(plan, [first]).budget_ns == 50
    assert confirmation_of([first], [], left_of(plan, [first]), ["a"]).budget_ns == 50
    assert left_of(plan, [first, again, again]).budget_ns == 0


def test_a_budget_that_is_too_small_is_no_noise_and_the_figure_that_would_do_is_said():
    second = 10**9
    plan = replace(PLAN, budget_ns=10 * second)
    race = race_of(plan)
    open_ = replace(
        held({"a": 1.5, "b": 1.4}, race),
        looks=InterimState(candidates=("a", "b")), needed_ns=12 * second, stopped="the budget was spent",
        tracks=dict.fromkeys("ab", ArmLogRatios(total=(), groups=((),), clock=DecidingClock.CPU)),
    )  # fmt: skip

    ranking = rank([open_], [], plan, {})

    assert (ranking.verdict, {c.code for c in ranking.candidates}) == (
        Verdict.BUDGET_TOO_SMALL, {Code.BUDGET_TOO_SMALL},
    )  # fmt: skip
    assert ranking.of("a").reason == (
        "the budget of 10 s is too small (the budget was spent): about 20 s would decide, --time-budget 20"
    )


def test_a_confirmation_that_the_budget_ends_is_the_last_one():
    second = 10**9
    plan = replace(PLAN, budget_ns=10 * second)
    raced = replace(held({"a": 1.5, "b": 1.2}, race_of(plan)), wall_ns=6 * second)
    again = confirmation_of([raced], [], left_of(plan, [raced]), ["a"])
    cut = replace(
        held({"a": 1.5}, again), looks=InterimState(candidates=("a",)), needed_ns=8 * second, stopped="spent",
        tracks={"a": ArmLogRatios(total=(), groups=((),), clock=DecidingClock.CPU)},
    )  # fmt: skip

    assert contenders([raced], [cut], plan, limit=2) == ()
    ranking = rank([raced], [cut], plan, {})
    assert ranking.verdict is Verdict.BUDGET_TOO_SMALL
    assert ranking.of("a").reason.endswith("--time-budget 14"), "what the race took, and what this needs"
    assert ranking.of("b").code is Code.BUDGET_TOO_SMALL, "nothing was left to try it"


@pytest.mark.parametrize(("start_s", "rounds"), [(0.3, 2), (3.0, 4)])
def test_where_processes_start_slowly_a_confirmation_has_fewer_sets(start_s: float, rounds: int) -> None:
    starts = {arm: int(start_s * 10**9) for arm in ("=baseline", "a", "b")}
    begun = tuple(Round(number=n, layout=0, core=0, blocks=(), start_ns=starts) for n in range(2))
    again = confirmation_of([held({"a": 1.2, "b": 1.1}, rounds=begun)], [], PLAN, ["a", "b"])
    assert (again.layout_rounds, again.least_rounds) == (rounds, 12)
