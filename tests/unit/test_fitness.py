"""Campaigns drawn from simulated layouts, and what they tell about a machine."""

from __future__ import annotations

from math import exp
from random import Random

import pytest
from effort import TIMES
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.benchmark.fitness import (
    ARMS,
    GAINS,
    Recorded,
    core_asymmetry,
    fitness,
    wall_per_cpu,
)
from codeflash_parallel.benchmark.plan import BASELINE, Group, RacePlan
from codeflash_parallel.benchmark.resample import Layout, Walls, campaign, held, most
from codeflash_parallel.benchmark.samples import Block, BlockKind, Round
from codeflash_parallel.model.outcome import Verdict

PLAN = RacePlan(groups=(Group(name="all", ns=1),), budget_ns=20_000_000_000)
NAMES = tuple(f"arm {number}" for number in range(1, ARMS))


def block(arm, ns):
    return Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=int(ns), wall_ns=int(1.1 * ns))


def rounds_of(random, number, *, sd, offset_sd, void=""):
    """Return the rounds of one layout in which core 1 is a tenth slower."""
    offsets = {arm: random.gauss(0, offset_sd) for arm in (BASELINE, *NAMES)}

    def one(arm, core):
        return block(arm, 6e6 * (1.1 if core else 1.0) * exp(offsets[arm] + random.gauss(0, sd)))

    rounds = []
    for step in range(6):
        core = step % 2
        blocks = [one(BASELINE, core)]
        for arm in NAMES:
            blocks += [one(arm, core), blocks[0]]
        rounds.append(
            Round(number=6 * number + step, layout=number, core=core, blocks=tuple(blocks), void=void)
        )
    return rounds


def recorded(sd=0.01, offset_sd=0.01, layouts=12, plan=PLAN):
    random = Random(5)
    rounds = [rounds_of(random, number, sd=sd, offset_sd=offset_sd) for number in range(layouts)]
    walls = Walls(start=400e6, rounds=600e6)
    return Recorded(
        work="simulated", plan=plan, arms=NAMES, rounds=tuple(r for layout in rounds for r in layout),
        layouts=tuple(Layout.of(layout, NAMES, plan, walls) for layout in rounds), seconds=12.0,
    )  # fmt: skip


def tries(count):
    return lambda: range(count)


@pytest.mark.slow  # drawn with a fixed seed: one Python will do
def test_a_quiet_machine():
    found = fitness(recorded(), tries(15 * TIMES), tries(7 * TIMES), Random(1))

    assert (found.false_wins, found.campaigns) == (0, 15 * TIMES)
    assert found.false_bound == pytest.approx(3 / (15 * TIMES), rel=0.1)
    assert 0.005 < found.unit_sd < 0.03
    assert found.core_asymmetry == pytest.approx(0.1, abs=0.02)
    assert found.wall_per_cpu == pytest.approx(1.1, abs=0.01)
    assert [needed.gain for needed in found.needed] == list(GAINS)
    ten = found.needed[-1]
    assert ten.is_usual
    assert ten.found == 7 * TIMES
    assert 1 < ten.seconds < 10


def test_a_noisy_machine_says_what_it_would_need():
    found = fitness(recorded(sd=0.3), tries(2), tries(4), Random(1))

    two = found.needed[0]
    assert not two.is_usual
    assert two.seconds > 1000


def test_what_is_not_claimed_needs_no_seconds():
    plan = RacePlan(groups=PLAN.groups, min_speedup=0.05)

    found = fitness(recorded(plan=plan), tries(5), tries(5), Random(1))

    assert [needed.seconds is None for needed in found.needed] == [True, True, False]


def test_one_core_is_as_fast_as_itself():
    rounds = [r for r in recorded().rounds if r.core == 0]

    assert core_asymmetry(rounds) == 0
    assert wall_per_cpu(rounds) > 1


def test_void_rounds_are_not_drawn():
    rounds = rounds_of(Random(1), 0, sd=0.01, offset_sd=0.0, void="the machine slept")

    assert Layout.of(rounds, NAMES, PLAN, Walls(start=1.0, rounds=6.0)).rows == ()


def test_a_campaign_finds_the_faster_one_among_identical_ones():
    layouts = recorded().layouts

    found = campaign(layouts, {"fast": 1.2, "same": 1.0}, PLAN, Random(3))

    assert (found.ranking.verdict, found.ranking.winner) == (Verdict.WINNER, "fast")
    assert found.rounds >= 12 + 2
    assert found.wall_ns > 12 * layouts[0].wall_ns(3, 1)


def test_the_same_seed_gives_the_same_campaign():
    layouts = recorded().layouts
    gains = {"a": 1.03, "b": 1.0}

    assert campaign(layouts, gains, PLAN, Random(7)) == campaign(layouts, gains, PLAN, Random(7))


def test_a_race_that_is_drawn_keeps_its_rules():
    layouts = recorded(sd=0.3).layouts

    raced = held(layouts, {"a": 1.0, "b": 1.0}, PLAN, Random(1))

    assert all(len(track.total) <= PLAN.max_rounds for track in raced.tracks.values())
    assert raced.wall_ns < PLAN.budget_ns + layouts[0].wall_ns(3, 6)


@given(st.integers(1, 500), st.data())
def test_a_bound_lies_above_the_rate(count, data):
    hits = data.draw(st.integers(0, count))

    bound = most(hits, count)

    assert hits / count <= bound <= 1
    if not hits:
        assert bound < 3 / count


def test_known_bounds():
    assert most(1, 100) == pytest.approx(0.0466, abs=0.0005)
    assert most(10, 10) == 1.0
