"""Races whose rounds are drawn at random, for tests of the looks at a race."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, log, tan

from codeflash_parallel.race.measurement import Block, BlockKind, DecidingClock, Round
from codeflash_parallel.race.plan import CostGroup, RacePlan, block_order
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, track
from codeflash_parallel.race.statistics.sequential_test import InterimState, look

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))
CONFIRM = PLAN.confirmation(10**9)
#: The only confirmation of a race: it may spend the whole error budget.
CLAIM = replace(CONFIRM, share=1.0)
EIGHT = [f"c{i}" for i in range(8)]

#: Log-ratios of one round, by arm.
Draw = Callable[[], Mapping[str, float]]


def single(values):
    return ArmLogRatios(total=tuple(values), groups=(tuple(values),), clock=DecidingClock.CPU)


def run(draw: Draw, candidates, plan=PLAN):
    """Take the looks as a race does, one round after the other; return the state and all tracks."""
    values = {c: [] for c in candidates}
    state = InterimState(candidates=tuple(candidates))
    for _ in range(plan.max_rounds):
        drawn = draw()
        for c in state.living:
            values[c].append(drawn[c])
        state = look(state, {c: single(values[c]) for c in state.living}, plan)
        if state.decided:
            break
    return state, {c: single(v) for c, v in values.items()}


def rounds_used(tracks):
    return max(len(one.total) for one in tracks.values())


def noisy(random, gains, noise) -> Draw:
    """Arms of one round share the noise of their baseline."""

    def draw():
        shared = noise(random)
        return {arm: log(gain) + noise(random) - shared for arm, gain in gains.items()}

    return draw


def gaussian(sd=0.0085):
    """1.2 % for the ratio of two."""
    return lambda random: random.gauss(0, sd)


def cauchy(random):
    return 0.005 * tan(3.14159 * (random.random() - 0.5))


def drifting(random, gains) -> Draw:
    """Blocks in their order on a core whose speed wanders and jumps."""
    core = [0.0]

    def draw():
        blocks = []
        for arm in block_order(list(gains), random):
            core[0] += random.gauss(0, 0.005) + (random.random() < 0.02) * random.choice([-0.3, 0.3])
            ns = int(8e6 * exp(core[0] + random.gauss(0, 0.005)) / gains.get(arm, 1.0))
            blocks.append(Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=ns, wall_ns=ns))
        round_ = Round(number=0, layout=0, core=0, blocks=tuple(blocks))
        return {arm: track([round_], arm, PLAN).total[0] for arm in gains}

    return draw
