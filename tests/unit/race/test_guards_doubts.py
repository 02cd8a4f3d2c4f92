"""Gains that a confirmation found and that are not credited."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from codeflash_parallel.race.guards import Gain, doubt_of
from codeflash_parallel.race.measurement import Block, BlockKind, DecidingClock, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.confidence_sequence import bounds
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState

PLAN = RacePlan(groups=(CostGroup(name="a", ns=3), CostGroup(name="b", ns=1))).confirmation(10**9)

#: Nanoseconds: of the baseline's call, of what a fork's first block costs anyone, of the channel.
CALL, FORKED, CHANNEL = 20_000, 60_000, 9_000

#: Inputs of a group, and the calls of a timed block.
CYCLE, CALLS = 40, 280


def block(arm, kind, group, calls, ns, **more):
    used = CHANNEL + round(ns)
    return Block(arm=arm, kind=kind, group=group, calls=calls, **{"cpu_ns": used, "wall_ns": used, **more})


def units(arm, call_ns, random, *, groups=2, **more):
    """Yield one round's blocks of an arm, of which a call takes so long."""
    yield block(arm, BlockKind.EMPTY, 0, 0, 0)
    for group in range(groups):
        yield block(arm, BlockKind.FIRST, group, CYCLE, CYCLE * call_ns + FORKED, **more)
    for group in range(groups):
        yield block(arm, BlockKind.TIMED, group, CALLS, CALLS * call_ns * random.gauss(1, 0.02), **more)


def confirmation(gain, *, rounds=12, baseline=None, children=0, unclean=(), **more):
    """Return a confirmation of one candidate that gains so much."""
    random, held = Random(0), []
    for number in range(rounds):
        base = units(BASELINE, CALL, random, **(baseline or {}))
        blocks = (*base, *units("x", CALL / gain, random, **more))
        held.append(
            Round(
                number=number,
                layout=number,
                core=0,
                blocks=blocks,
                children_ns={"x": children},
                unclean=unclean,
            )
        )
    return Raced(
        plan=PLAN, candidates=("x",), rounds=tuple(held), tracks={"x": track(held, "x", PLAN)},
        looks=InterimState(candidates=("x",), standings={"x": ArmStanding.FASTER}, decided=True), out={},
        wall_ns=10**9, round_ns=10**8, stopped="enough",
    )  # fmt: skip


def doubt(raced):
    bound = bounds(raced.tracks["x"].total, raced.error)
    found = doubt_of(Gain(raced=raced, id="x", bound=bound))
    return found.reason if found else ""


def test_who_reads_files_may_have_them_from_an_earlier_process():
    assert "reads files" in doubt(confirmation(3, reads=4))
    assert doubt(confirmation(1.05, reads=4)) == ""
    assert doubt(confirmation(3, reads=4, baseline={"reads": 4})) == ""


def test_what_a_command_reads_is_its_own_imports():
    raced = confirmation(3, reads=40)

    assert doubt(replace(raced, plan=replace(raced.plan, work=WorkKind.COMMAND))) == ""


def test_long_calls_may_read_what_they_import():
    raced = confirmation(3, reads=40)
    lean = {BlockKind.EMPTY, BlockKind.TIMED}
    rounds = tuple(replace(r, blocks=tuple(b for b in r.blocks if b.kind in lean)) for r in raced.rounds)

    assert doubt(replace(raced, rounds=rounds)) == ""


def test_who_leaves_something_for_its_next_process_is_doubted():
    assert "leaves" in doubt(confirmation(3, unclean=("x",)))
    assert doubt(confirmation(3, unclean=(BASELINE, "x"))) == ""


def test_what_was_found_after_one_round_may_be_another_program_s():
    raced = confirmation(3)
    first, *others = raced.rounds

    assert doubt(replace(raced, rounds=(replace(first, unclean=("x",)), *others))) == ""


def test_what_was_left_while_all_ran_at_once_clears_nobody():
    raced = confirmation(3, unclean=(BASELINE, "x"))
    at_once = tuple(replace(round_, together=True) for round_ in raced.rounds)

    assert "leaves" in doubt(replace(raced, rounds=at_once))
    assert doubt(replace(raced, rounds=(*at_once[:-1], raced.rounds[-1]))) == ""


def test_a_gain_on_one_clock_must_not_be_a_loss_on_the_other():
    raced = confirmation(2, wall_ns=10**8)

    assert raced.tracks["x"].clock is DecidingClock.CPU
    assert "slower on the wall clock" in doubt(raced)


def test_who_waits_as_long_as_the_baseline_gains_no_more_than_the_wall_clock_shows():
    busy, waited = {}, {"waited_ns": 900_000}
    for name, work_ns in ((BASELINE, 5_100_000), ("x", 100_000)):
        busy[name] = {"cpu_ns": CHANNEL + work_ns, "wall_ns": CHANNEL + work_ns + 900_000, **waited}
    raced = confirmation(1, baseline=busy[BASELINE], **busy["x"])

    assert raced.tracks["x"].clock is DecidingClock.CPU
    assert "it waits" in doubt(raced)


def test_a_gain_on_the_wall_clock_has_its_price():
    work_ns = CALL * 2 * (CYCLE + CALLS)
    cheap = confirmation(2, children=int(0.6 * work_ns))
    dear = confirmation(2, children=int(1.5 * work_ns))
    allowed = replace(dear, plan=replace(PLAN, max_cpu_cost=3.0))

    assert dear.tracks["x"].clock is DecidingClock.WALL
    assert doubt(cheap) == ""
    assert "2.0 times the CPU time" in doubt(dear)
    assert doubt(allowed) == ""


def test_a_fast_arm_reads_more_in_a_timed_block_since_it_makes_more_calls_there():
    raced = confirmation(3)
    rounds = []
    for round_ in raced.rounds:
        many = block(BASELINE, BlockKind.MANY, 0, 10 * CALLS, 10 * CALLS * CALL, reads=40)
        fast = [
            replace(b, calls=10 * CALLS, reads=40) if (b.arm, b.kind) == ("x", BlockKind.TIMED) else b
            for b in round_.blocks
        ]
        rounds.append(replace(round_, blocks=(*fast, many)))

    assert doubt(replace(raced, rounds=tuple(rounds))) == ""


def test_of_the_wall_clock_no_more_is_asked_than_it_can_show():
    """150 times as fast: on a busy machine the way to the arm and back takes longer than the calls."""
    busy = {"cpu_ns": CHANNEL + 10_000, "wall_ns": CHANNEL + 35_000}
    raced = confirmation(1, baseline={"cpu_ns": CHANNEL + 1_500_000, "wall_ns": CHANNEL + 1_525_000}, **busy)

    assert doubt(raced) == ""
