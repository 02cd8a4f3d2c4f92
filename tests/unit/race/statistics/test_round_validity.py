from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE
from codeflash_parallel.race.statistics.round_validity import (
    MachineReading,
    judged,
    queued_share,
    stepped,
    void_note,
)

MS = 1_000_000
SECOND = 1000 * MS
THEN = MachineReading(monotonic_ns=5 * SECOND, boot_ns=9 * SECOND, real_ns=1000 * SECOND)


def later(ns, *, slept=0, set_by=0):
    return MachineReading(
        monotonic_ns=THEN.monotonic_ns + ns,
        boot_ns=THEN.boot_ns + ns + slept,
        real_ns=THEN.real_ns + ns + slept + set_by,
    )


@given(st.integers(0, 3600), st.floats(-0.0005, 0.0005))
def test_steered_clocks_are_no_steps(seconds, steering):
    passed = seconds * SECOND

    assert stepped(THEN, later(passed, set_by=int(passed * steering))) == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"slept": 2 * SECOND}, "slept"), ({"set_by": SECOND}, "set"), ({"set_by": -SECOND}, "set")],
)
def test_sleep_and_steps_are_told_apart(changes, words):
    assert words in stepped(THEN, later(SECOND, **changes))


def block(arm, *, cpu, wall, waited=0, kind=BlockKind.TIMED):
    return Block(
        arm=arm, kind=kind, calls=1, cpu_ns=cpu * MS, wall_ns=wall * MS, waited_ns=waited * MS
    )  # fmt: skip


def test_time_in_line_is_that_of_the_timed_blocks():
    blocks = [
        block(BASELINE, cpu=4, wall=10, waited=1),
        block("a", cpu=5, wall=10),
        block("a", cpu=5, wall=500, kind=BlockKind.FIRST),
    ]

    assert queued_share(blocks) == 0.5
    assert queued_share([]) == 0.0


def round_of(queued, void=""):
    return Round(number=0, layout=0, core=0, blocks=(), queued=queued, void=void)


def history(shares):
    rounds = []
    for share in shares:
        rounds.append(judged(rounds, round_of(share)))
    return rounds


def voids(rounds):
    return [number for number, round_ in enumerate(rounds) if round_.void]


def test_a_round_far_busier_than_the_others_is_void():
    rounds = history([0.1, 0.2, 0.1, 0.1, 0.9, 0.1])

    assert voids(rounds) == [4]
    assert void_note(rounds) == "1 of 6 rounds do not count: the machine was much busier than before."


def test_a_machine_that_is_always_busy_voids_nothing():
    assert voids(history([0.8, 0.7, 0.9, 0.8, 0.95, 0.9])) == []
    assert void_note(history([0.8])) == ""


def test_the_first_rounds_tell_what_is_usual():
    assert voids(history([0.1, 0.9, 0.1, 0.1])) == []


@given(st.lists(st.floats(0, 1), max_size=60))
def test_one_round_in_four_is_void_at_most(shares):
    rounds = history(shares)

    assert len(voids(rounds)) * 4 <= len(rounds)


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=8), st.randoms(use_true_random=False))
def test_who_gained_does_not_matter(times, random: Random):
    """The rule sees sums over all arms: giving the same blocks to other arms changes nothing."""
    arms = [f"c{number}" for number in range(len(times))]
    blocks = [
        Block(arm=a, kind=BlockKind.TIMED, calls=1, cpu_ns=int(t * MS), wall_ns=2 * MS)
        for a, t in zip(arms, times, strict=True)
    ]
    random.shuffle(arms)
    others = [replace(block, arm=arm) for block, arm in zip(blocks, arms, strict=True)]

    assert queued_share(blocks) == queued_share(others)


def test_what_is_void_stays_void():
    assert judged([], round_of(0.1, void="the machine slept")).void == "the machine slept"


def test_arms_that_run_at_once_stand_in_line_for_each_other():
    in_turn = [Round(number=n, layout=0, core=0, blocks=(), queued=0.1) for n in range(5)]
    at_once = Round(number=5, layout=0, core=0, blocks=(), queued=0.75, together=True)

    assert judged(in_turn, at_once) is at_once
    assert judged(in_turn, replace(at_once, together=False)).void
