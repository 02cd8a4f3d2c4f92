"""When long calls of all arms may run at once, and which rounds then count."""

from __future__ import annotations

from dataclasses import replace
from math import log, log1p

import pytest

from codeflash_parallel.race.measurement import (
    Block,
    BlockKind,
    DecidingClock,
    Round,
    counting,
    may_run_together,
    without_line,
)
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.ranking.arm_comparison import confirmation_of
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios, track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState, look

MS = 1_000_000
GB = 1 << 30
ARMS = (BASELINE, "a")
PLAN = RacePlan(groups=(CostGroup(name="long", ns=300 * MS),))


def block(arm, cpu_ns, *, wall_ns=0, waited_ns=0):
    return Block(
        arm=arm, kind=BlockKind.TIMED, calls=1, cpu_ns=cpu_ns, wall_ns=wall_ns or cpu_ns, waited_ns=waited_ns
    )


def round_of(*blocks, together=False, **known):
    return Round(number=0, layout=0, core=0, blocks=blocks, together=together, **known)


ALONE = round_of(block(BASELINE, 300 * MS), block("a", 200 * MS))


def test_the_first_round_runs_one_arm_after_the_other():
    assert not may_run_together([], ARMS, PLAN, GB)
    assert may_run_together([ALONE], ARMS, PLAN, GB)


@pytest.mark.parametrize("work", [WorkKind.TESTS, WorkKind.COMMAND])
def test_what_may_share_a_port_or_a_folder_runs_alone(work):
    assert not may_run_together([ALONE], ARMS, replace(PLAN, work=work), GB)


@pytest.mark.parametrize("arm", ARMS)
def test_who_waits_is_not_run_with_others(arm):
    waits = block(arm, 100 * MS, wall_ns=300 * MS, waited_ns=200 * MS)
    others = [block(other, 300 * MS) for other in ARMS if other != arm]

    assert not may_run_together([round_of(waits, *others)], ARMS, PLAN, GB)


def test_who_has_children_is_not_run_with_others():
    with_children = replace(ALONE, children_ns={"a": 100 * MS, BASELINE: 0})

    assert not may_run_together([with_children], ARMS, PLAN, GB)
    assert may_run_together([with_children], (BASELINE, "b"), PLAN, GB)


def test_all_must_find_room_at_once():
    large = replace(ALONE, peak_bytes={"a": GB // 3, BASELINE: GB // 3})

    assert not may_run_together([large], ARMS, PLAN, GB)
    assert may_run_together([large], ARMS, PLAN, 2 * GB)


def test_after_something_was_left_in_shared_memory_it_is_to_be_known_by_whom():
    assert not may_run_together([replace(ALONE, unclean=("a",)), ALONE], ARMS, PLAN, GB)


def test_waiting_is_told_by_rounds_alone():
    """In rounds together the wall clock holds everybody's work."""
    together = round_of(
        block(BASELINE, 300 * MS, wall_ns=600 * MS),
        block("a", 100 * MS, wall_ns=600 * MS, waited_ns=300 * MS),
        together=True,
    )
    alone = round_of(block(BASELINE, 300 * MS), block("a", 100 * MS, wall_ns=600 * MS, waited_ns=500 * MS))

    found = track([alone, together, together], "a", PLAN)

    assert found.clock is DecidingClock.WALL
    assert found.total == pytest.approx([-log(2)])
    assert track([together], "a", PLAN).total == ()


def test_who_is_confirmed_after_running_together_goes_on_so():
    assert may_run_together([], ARMS, replace(PLAN, together=True), GB)


def test_computing_is_told_by_rounds_together_as_long_as_they_last():
    together = round_of(block(BASELINE, 300 * MS), block("a", 100 * MS), together=True)

    assert track([ALONE, together], "a", PLAN).total == pytest.approx([log(3)])
    assert track([ALONE, together, ALONE], "a", PLAN).total == pytest.approx([log(1.5), log(3), log(1.5)])
    assert counting([], DecidingClock.CPU) == []


def test_the_wall_clock_beside_does_not_count_the_time_in_line():
    together = round_of(
        block(BASELINE, 300 * MS, wall_ns=900 * MS),
        block("a", 150 * MS, wall_ns=500 * MS, waited_ns=50 * MS),
        together=True,
    )

    assert track([together], "a", PLAN, DecidingClock.WALL).total == pytest.approx([log(1.5)])
    assert without_line(ALONE) is ALONE


def test_who_was_found_waiting_is_confirmed_alone_though_others_then_ran_together():
    waits = block("a", 100 * MS, wall_ns=300 * MS, waited_ns=200 * MS)
    first = round_of(block(BASELINE, 300 * MS), waits, block("b", 100 * MS))
    later = round_of(block(BASELINE, 300 * MS), block("b", 100 * MS), together=True)
    rounds, names = (first, later), ("a", "b")
    raced = Raced(
        plan=PLAN,
        candidates=names,
        rounds=rounds,
        tracks={name: track(rounds, name, PLAN) for name in names},
        looks=InterimState(candidates=names),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )

    assert not confirmation_of([raced], [], PLAN, ["a"]).together
    assert not confirmation_of([raced], [], PLAN, names).together
    assert confirmation_of([raced], [], PLAN, ["b"]).together


def test_who_has_no_round_that_counts_is_cut_before_those_who_seem_to_be_faster():
    known = ArmLogRatios(
        total=(log1p(PLAN.target),) * 6, groups=((log1p(PLAN.target),) * 6,), clock=DecidingClock.CPU
    )
    nothing = ArmLogRatios(total=(), groups=((),), clock=DecidingClock.WALL)
    tracks = {"a": nothing, **dict.fromkeys("bcde", known)}

    state = look(InterimState(candidates=tuple(tracks)), tracks, PLAN)

    assert state.standing("a") is ArmStanding.BEHIND
    assert state.living == tuple("bcde")
    assert not state.decided
