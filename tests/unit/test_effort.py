from __future__ import annotations

from dataclasses import replace
from math import exp

import pytest

from codeflash_parallel.benchmark.effort import Effort, effort
from codeflash_parallel.benchmark.plan import BASELINE, Group, RacePlan
from codeflash_parallel.benchmark.samples import Block, BlockKind, Round

ONE = RacePlan(groups=(Group(name="all", ns=1),))
WOBBLE = (0.00, 0.03, -0.03, 0.05, -0.05, 0.01, -0.01, 0.02)


def block(arm, ns):
    return Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=int(ns), wall_ns=int(ns))


def round_of(**gains):
    blocks = [b for arm, gain in gains.items() for b in (block(BASELINE, 8e6), block(arm, 8e6 / exp(gain)))]
    return Round(number=0, layout=0, core=0, blocks=(*blocks, block(BASELINE, 8e6)))


@pytest.mark.parametrize(
    ("gain", "wanted"), [(0.03, Effort.THOROUGH), (0.0, Effort.THOROUGH), (1.0, Effort.QUICK)]
)
def test_what_drowns_in_the_noise_is_looked_at_thoroughly(gain, wanted):
    rounds = [round_of(a=gain + wobble, b=2.0) for wobble in WOBBLE]

    assert effort(rounds, ["a", "b"], ONE) is wanted
    assert effort(rounds, ["b"], ONE) is Effort.QUICK


def test_on_a_quiet_machine_small_gains_are_clear():
    assert effort([round_of(a=0.03 + wobble / 20) for wobble in WOBBLE], ["a"], ONE) is Effort.QUICK


def test_a_few_rounds_and_void_ones_tell_nothing():
    rounds = [round_of(a=wobble) for wobble in WOBBLE]

    assert effort([], ["a"], ONE) is Effort.QUICK
    assert effort(rounds[:3], ["a"], ONE) is Effort.QUICK
    assert effort([replace(round_, void="slept") for round_ in rounds], ["a"], ONE) is Effort.QUICK


def test_only_the_last_rounds_count():
    rounds = [round_of(a=wobble) for wobble in WOBBLE] + [round_of(a=1.0)] * 8

    assert effort(rounds, ["a"], ONE) is Effort.QUICK
