"""What `benchmarks/race_calibration.py` computes: rates, drawn campaigns, what the usual ways say."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from calibration.campaigns import (
    SCENARIOS,
    Campaign,
    Claim,
    Pool,
    Stretch,
    campaign,
)
from calibration.exact import Rate, agree, binomial
from calibration.page import MARK, aims_of, campaigns_table, contradictions, table, with_figures
from calibration.rivals import Said, is_false, is_found, of_minima, of_pyperf
from calibration.traces import Cell
from calibration.work import WORKS

from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios

ARMS = tuple(f"arm{number}" for number in range(8))


def stretch(random: Random, arms: tuple[str, ...], rounds: int, sd: float) -> Stretch:
    def noise() -> tuple[float, ...]:
        return tuple(random.gauss(0, sd) for _ in range(rounds))

    totals = {arm: noise() for arm in arms}
    tracks = {arm: ArmLogRatios(total=t, groups=(t,), clock=DecidingClock.CPU) for arm, t in totals.items()}
    return Stretch(tracks=tracks, counted=rounds, rounds=rounds, wall_s=1.0)


def pool(sd: float = 0.01) -> Pool:
    random = Random(7)
    return Pool(
        plan=RacePlan(groups=(CostGroup(name="a", ns=1000),)),
        race=[stretch(random, ARMS, 6, sd) for _ in range(30)],
        confirmation=[stretch(random, ARMS[:3], 1, sd) for _ in range(60)],
    )


def won(*named: float, gains: tuple[float, ...] = (1.05, 1.0), verdict: str = "winner") -> Campaign:
    return Campaign(verdict=verdict, gains=gains, named=named, claims=(), rounds=20, wall_s=2.0)


@pytest.mark.parametrize(
    ("hits", "tries", "low", "high"),
    [(0, 20, 0.0, 0.1684), (20, 20, 0.8316, 1.0), (5, 50, 0.0333, 0.2181), (0, 2000, 0.0, 0.00184)],
)
def test_bounds_are_those_of_the_tables(hits: int, tries: int, low: float, high: float) -> None:
    assert Rate(hits=hits, tries=tries).bounds == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_bounds_hold_the_rate_and_mirror(case: tuple[int, int]) -> None:
    hits, tries = case
    low, high = Rate(hits=hits, tries=tries).bounds
    assert low <= hits / tries <= high
    mirrored = Rate(hits=tries - hits, tries=tries).bounds
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_chances_of_many_tries_add_up() -> None:
    assert sum(binomial(k, 2000, 0.3) for k in range(2001)) == pytest.approx(1)


def test_rates_disagree_only_where_their_bounds_are_apart() -> None:
    assert agree(Rate(hits=0, tries=20), Rate(hits=2, tries=20))
    assert not agree(Rate(hits=0, tries=2000), Rate(hits=15, tries=20))
    assert str(Rate(hits=0, tries=0)) == "-"


@pytest.mark.slow
def test_what_is_truly_faster_is_found_and_nothing_else_is() -> None:
    drawn = pool()
    null, alone, among = (
        [campaign(drawn, scenario.arms, Random(seed)) for seed in range(12)]
        for scenario in SCENARIOS[:4:1]
        if scenario.name in {"8 identical", "1.05 alone", "1.05 among 8"}
    )
    assert not any(found.is_false for found in null + alone + among)
    assert all(found.is_found for found in alone)
    assert all(found.named == (1.05,) for found in among)
    assert all(claim.is_covered for found in among for claim in found.claims)


@pytest.mark.slow
def test_a_seed_gives_the_same_campaign() -> None:
    one, again, other = (campaign(pool(), SCENARIOS[6].arms, Random(seed)) for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_a_speedup_is_what_the_estimate_is_about() -> None:
    (claim,) = campaign(pool(sd=0.002), {"only": 1.5}, Random(1)).claims
    assert claim.estimate == pytest.approx(1.5, rel=0.01)
    assert (claim.low < 1.5 < claim.high) is claim.is_covered


def test_rounds_that_are_all_void_use_up_the_budget() -> None:
    drawn = pool()
    track = replace(drawn.race[0].tracks["arm0"], total=(), groups=((),))
    void = Stretch(tracks=dict.fromkeys(ARMS, track), counted=0, rounds=6, wall_s=1.0)
    found = campaign(replace(drawn, race=[void], confirmation=[void]), {"a": 1.0}, Random(1))
    assert (found.named, found.rounds) == ((), 0)


def test_a_campaign_is_read_back_as_it_was() -> None:
    claim = Claim(gain=1.05, estimate=exp(0.05), low=1.01, high=1.1)
    made = replace(won(1.05), claims=(claim,))
    assert Campaign.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_rates_of_campaigns() -> None:
    right, wrong, none = won(1.05), won(1.0), won(verdict="too_noisy")
    assert (right.is_false, wrong.is_false, none.is_false) == (False, True, False)
    assert (right.is_found, wrong.is_found, none.is_found) == (True, False, False)
    assert (right.is_close, wrong.is_close) == (True, False)
    text = campaigns_table({"case": [right, wrong, none, right]}, "true speedups")
    assert "| case | 25 % (0.63 to 80.6; 1 of 4) | 50 % (6.8 to 93.2; 2 of 4) |" in text


def test_aims_are_reached_or_missed() -> None:
    cases = {"8 identical": [won(verdict="nothing_faster", gains=(1.0,) * 8)] * 99 + [won(1.0)], "more": []}
    assert [(aim.row[1], aim.row[3]) for aim in aims_of(cases)] == [
        ("≤ 1 %", "reached"),
        ("≥ 99 %", "missed"),
        ("≤ 10 %", "reached"),
    ]
    assert [aim.row[3] for aim in aims_of({"1.05 alone": [won(1.05)] * 9 + [won()]})][:1] == ["missed"]


def test_live_races_may_contradict_the_drawn_ones() -> None:
    drawn = {"case": [won(1.05)] * 200}
    assert contradictions(drawn, {"case": [won(1.05)] * 10, "more": []}) == []
    assert len(contradictions(drawn, {"case": [won(1.0)] * 10})) == 2


def test_pages_keep_what_stands_before_the_mark() -> None:
    page = f"# Race\n\nWords.\n\n{MARK}\n\nold\n"
    once = with_figures(page, "new\n")
    assert once == with_figures(once, "new") == f"# Race\n\nWords.\n\n{MARK}\n\nnew\n"
    with pytest.raises(ValueError, match="has no line"):
        with_figures("# Race\n", "new")


def test_a_table_has_a_rule_below_its_header() -> None:
    assert table(["a", "b"], [["c", "1"]]) == "| a | b |\n| --- | ---: |\n| c | 1 |"


def test_what_pyperf_says() -> None:
    faster = of_pyperf("Mean +- std dev: [base] 101 us +- 2 us -> [arm] 96.4 us +- 1.1 us: 1.05x faster\n")
    assert faster == Said(gain=1.05, is_faster=True)
    for text in (
        "Mean +- std dev: [base] 96 us +- 1 us -> [arm] 101 us +- 2 us: 1.05x slower\n",
        "Benchmark hidden because not significant (1): work\n",
    ):
        assert of_pyperf(text) == Said(gain=1.0, is_faster=False)


def test_minima_are_summed_over_the_tests() -> None:
    def file(*minima: float) -> dict[str, object]:
        return {"benchmarks": [{"stats": {"min": value}} for value in minima]}

    assert of_minima(file(1.0, 3.0), file(1.0, 2.7)) == Said(gain=pytest.approx(4 / 3.7), is_faster=True)
    assert not of_minima(file(1.0), file(0.96)).is_faster


def test_only_the_first_of_the_faster_ones_is_found() -> None:
    level, fast, lucky = (Said(gain=g, is_faster=g > 1.05) for g in (1.0, 1.06, 1.08))
    assert not is_false({"a": level})
    assert is_false({"a": level, "b": lucky})
    assert is_found({"a": level, "fast": fast}, "fast")
    assert not is_found({"a": lucky, "fast": fast}, "fast")
    assert not is_found({"a": level, "fast": level}, "fast")


@pytest.mark.parametrize("name", [name for name, work in WORKS.items() if not work.needs])
def test_a_faster_version_does_less_and_gives_the_same(name: str) -> None:
    work = replace(WORKS[name], size=210)
    results = []
    for gain in (1.0, 1.05):
        module: dict[str, object] = {}
        exec(compile(work.source("label", gain), "mod.py", "exec"), module)
        results.append(module["work"](3))
    assert results == [3, 3]
    assert work.true_gain(1.05) == 1.05
    assert work.true_gain(1.0) == 1.0


def test_a_cell_has_its_name_back() -> None:
    cell = Cell(work="python-20us", tests=6, workers=4)
    assert Cell.named(cell.name) == cell
