from __future__ import annotations

from dataclasses import replace
from math import exp, log
from random import Random

import pytest
from effort import drawn
from hypothesis import given, settings
from hypothesis import strategies as st

from codeflash_parallel.benchmark.caches import claimed, is_proven, remembers
from codeflash_parallel.benchmark.decide import Looks, Standing
from codeflash_parallel.benchmark.evidence import bounds
from codeflash_parallel.benchmark.plan import BASELINE, Group, RacePlan, Work
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.rank import rank
from codeflash_parallel.benchmark.samples import Block, BlockKind, Clock, Round
from codeflash_parallel.benchmark.suspicion import suspicion
from codeflash_parallel.benchmark.tracks import track
from codeflash_parallel.model.outcome import Status, Verdict

PLAN = RacePlan(groups=(Group(name="a", ns=3), Group(name="b", ns=1))).confirmation(10**9)

#: Nanoseconds: of the baseline's call, of what a fork's first block and new inputs cost anyone, of the channel.
CALL, FORKED, NEW, CHANNEL = 20_000, 60_000, 12_000, 9_000

#: Inputs of half a group; the first pass sees one half after the other.
HALF = 20


def block(arm, kind, group, calls, ns, **more):
    used = CHANNEL + round(ns)
    return Block(arm=arm, kind=kind, group=group, calls=calls, **{"cpu_ns": used, "wall_ns": used, **more})


def units(
    arm,
    new,
    known,
    random,
    *,
    setup=0.0,
    sd=0.02,
    repeats=7,
    once=None,
    second=None,
    steps=0.0,
    groups=2,
    half=HALF,
    **more,
):
    """Yield one round's blocks of an arm, of which a call takes so long on new and on known inputs.

    Args:
        once: on inputs that are known, and come once in a block; where absent as on other known ones.
        second: on inputs that come for the second time; where absent as on other known ones.
        steps: what every block with known inputs costs beside the calls in it.
    """

    def noise():
        return random.gauss(1, sd)

    yield block(arm, BlockKind.EMPTY, 0, 0, 0)
    for group in range(groups):
        first = half * new * noise() + FORKED + setup
        yield block(arm, BlockKind.FIRST, group, half, first, **more)
        yield block(arm, BlockKind.COLD, group, half, half * new * noise() + NEW, start=half, **more)
        for number, start in enumerate((half, *(half, 0) * 3)):
            takes = once or known if number else second or once or known
            again = half * takes * noise() + steps
            yield block(arm, BlockKind.AGAIN, group, half, again, start=start, **more)
    for group in range(groups):
        calls = 2 * half * repeats
        yield block(arm, BlockKind.TIMED, group, calls, calls * known * noise(), **more)


def confirmation(
    new, known, *, rounds=12, seed=0, plan=PLAN, baseline=None, children=0, unclean=(), half=HALF, **more
):
    """Return a confirmation of one candidate in which it gains so much on new and on known inputs."""
    random, held = Random(seed), []
    size = {"groups": len(plan.groups), "half": half}
    for number in range(rounds):
        base = units(BASELINE, CALL, CALL, random, **size, **(baseline or {}))
        own = units("x", CALL / new, CALL / known, random, **size, **more)
        held.append(
            Round(
                number=number,
                layout=number,
                core=0,
                blocks=(*base, *own),
                children_ns={"x": children},
                unclean=unclean,
            )
        )
    return Raced(
        plan=plan, candidates=("x",), rounds=tuple(held), tracks={"x": track(held, "x", plan)},
        looks=Looks(candidates=("x",), standings={"x": Standing.FASTER}, decided=True), out={},
        wall_ns=10**9, round_ns=10**8, stopped="enough",
    )  # fmt: skip


def gain(raced):
    return exp(bounds(claimed(raced, "x").total, raced.error).estimate)


def doubt(raced):
    return suspicion(raced, "x", bounds(claimed(raced, "x").total, raced.error))


@settings(max_examples=drawn(20))
@given(known=st.floats(1.2, 60), seed=st.integers(0, 20))
def test_what_is_fast_the_first_time_is_credited_in_full(known, seed):
    raced = confirmation(known, known, seed=seed)

    assert not remembers(raced, "x")
    assert gain(raced) == pytest.approx(known, rel=0.05)
    assert doubt(raced) == ""


@settings(max_examples=drawn(20))
@given(known=st.floats(1.5, 60), seed=st.integers(0, 20))
def test_what_is_fast_the_second_time_only_is_not_credited(known, seed):
    raced = confirmation(1, known, seed=seed)

    assert remembers(raced, "x")
    assert gain(raced) == pytest.approx(1, abs=0.05)
    assert "cache" in doubt(raced)


@settings(max_examples=drawn(20))
@given(new=st.floats(1.5, 5), more=st.floats(2, 20))
def test_a_cache_in_faster_code_claims_what_the_code_gains_alone(new, more):
    raced = confirmation(new, new * more)

    assert remembers(raced, "x")
    assert 1 < gain(raced) <= new * 1.03
    assert doubt(raced) == ""


@pytest.mark.parametrize("known", [1.3, 2, 5, 60])
def test_what_is_fast_only_where_one_block_repeats_its_inputs_is_not_credited(known):
    raced = confirmation(1, known, once=CALL)

    assert remembers(raced, "x")
    assert gain(raced) == pytest.approx(1, abs=0.05)
    assert "cache" in doubt(raced)


@settings(max_examples=drawn(20))
@given(known=st.floats(1.4, 20), seed=st.integers(0, 20))
def test_what_one_group_remembers_is_seen_beside_one_that_scatters(known, seed):
    quiet, loud = (
        confirmation(1, known, seed=seed),
        confirmation(1, 1, seed=seed, sd=0.4, baseline={"sd": 0.4}),
    )
    rounds = [
        replace(
            calm, blocks=tuple(b for r, group in ((calm, 0), (wild, 1)) for b in r.blocks if b.group == group)
        )
        for calm, wild in zip(quiet.rounds, loud.rounds, strict=True)
    ]

    assert remembers(replace(quiet, rounds=tuple(rounds)), "x")


def test_what_is_known_from_the_third_time_on_is_not_credited():
    raced = confirmation(1, 5, second=CALL)

    assert remembers(raced, "x")
    assert "cache" in doubt(raced)


@pytest.mark.parametrize("known", [1.5, 2, 5])
def test_a_pass_may_be_short(known):
    """A memo on two inputs of 20 microseconds that forgets between blocks, and code that is faster."""
    plan = replace(PLAN, groups=PLAN.groups[:1])
    forgetting = confirmation(1, known, once=CALL, plan=plan, half=1)
    faster = confirmation(known, known, plan=plan, half=1)

    assert remembers(forgetting, "x")
    assert not remembers(faster, "x")


@pytest.mark.parametrize("new", [0.9, 0.95])
def test_what_is_slower_the_first_time_is_never_credited(new):
    """A memo on two inputs of 20 microseconds that saves less in a pass than the first steps may differ by."""
    raced = confirmation(new, 1.5, plan=replace(PLAN, groups=PLAN.groups[:1]), half=1)

    assert remembers(raced, "x")
    assert gain(raced) < 1
    assert "cache" in doubt(raced)


@settings(max_examples=drawn(20))
@given(known=st.floats(1.05, 3), seed=st.integers(0, 50), sd=st.sampled_from([0.01, 0.03]))
def test_what_is_a_little_faster_in_a_short_pass_is_credited(known, seed, sd):
    plan = replace(PLAN, groups=PLAN.groups[:1])

    assert not remembers(
        confirmation(known, known, plan=plan, half=1, seed=seed, sd=sd, baseline={"sd": sd}), "x"
    )


def test_the_steps_of_a_block_are_nobodys_concern():
    slower_steps = {"once": CALL / 1.05, "steps": 10_000}

    assert not remembers(confirmation(1.05, 1.05, **slower_steps), "x")
    assert not remembers(confirmation(5, 5, once=CALL / 5, steps=10_000), "x")


def test_races_on_record_in_which_one_half_was_looked_at_again_are_judged_as_they_were():
    raced = confirmation(3, 3)
    halves = (
        replace(r, blocks=tuple(b for b in r.blocks if b.kind is not BlockKind.AGAIN or b.start))
        for r in raced.rounds
    )

    assert not remembers(replace(raced, rounds=tuple(halves)), "x")


def test_a_winner_that_caches_is_labelled():
    raced = confirmation(2, 30)

    ranking = rank([raced], [raced], PLAN, {})

    assert (ranking.verdict, ranking.of("x").status) == (Verdict.WINNER, Status.WON)
    assert "caches: " in ranking.of("x").reason
    assert 1.5 < ranking.of("x").speedup.estimate < 2.1


def test_a_table_made_at_the_first_call_counts_as_a_cache():
    raced = confirmation(20, 20, setup=5e6)

    assert remembers(raced, "x")
    assert gain(raced) < 1
    assert "cache" in doubt(raced)


def test_a_small_table_is_nobodys_concern():
    assert not remembers(confirmation(5, 5, setup=3e5), "x")


def test_few_forks_prove_no_cache_and_void_ones_do_not_count():
    void = confirmation(1, 5)
    void = replace(void, rounds=tuple(replace(r, void="the machine slept") for r in void.rounds))

    assert not remembers(confirmation(1, 5, rounds=8), "x")
    assert not remembers(void, "x")


def test_a_claim_needs_as_many_rounds_as_tell_a_cache():
    few, enough = (confirmation(3, 3, rounds=rounds) for rounds in (8, 9))

    assert "too few rounds" in doubt(few)
    assert doubt(enough) == ""


def test_a_gain_beyond_ten_needs_proof():
    """Calls of a fifth of a microsecond: what is remembered hides below what a fork's steps cost."""
    hidden, shown = confirmation(1.1, 30), confirmation(30, 30)
    hidden = replace(hidden, rounds=tuple(map(_without_much_to_learn, hidden.rounds)))

    assert not remembers(hidden, "x")
    assert "does not prove" in doubt(hidden)
    assert not is_proven(hidden, "x")
    assert doubt(shown) == ""


def _without_much_to_learn(round_):
    """A round of the same blocks, in which everything takes a hundredth of the time beside the channel's."""
    blocks = [
        replace(
            b, cpu_ns=CHANNEL + (b.cpu_ns - CHANNEL) // 100, wall_ns=CHANNEL + (b.wall_ns - CHANNEL) // 100
        )
        for b in round_.blocks
    ]
    return replace(round_, blocks=tuple(blocks))


def test_calls_that_are_never_repeated_are_always_new():
    raced = confirmation(30, 30)
    lean = {BlockKind.EMPTY, BlockKind.TIMED}
    rounds = tuple(replace(r, blocks=tuple(b for b in r.blocks if b.kind in lean)) for r in raced.rounds)
    raced = replace(raced, rounds=rounds)

    assert doubt(raced) == ""
    assert gain(raced) == pytest.approx(30, rel=0.05)


def test_who_reads_files_may_have_them_from_an_earlier_process():
    assert "reads files" in doubt(confirmation(3, 3, reads=4))
    assert doubt(confirmation(1.05, 1.05, reads=4)) == ""
    assert doubt(confirmation(3, 3, reads=4, baseline={"reads": 4})) == ""


def test_a_fast_arm_reads_more_in_a_timed_block_since_it_makes_more_calls_there():
    raced = confirmation(3, 3, reads=4, baseline={"reads": 4})
    many = [
        tuple(replace(b, reads=40) if (b.arm, b.kind) == ("x", BlockKind.TIMED) else b for b in r.blocks)
        for r in raced.rounds
    ]
    rounds = tuple(replace(r, blocks=blocks) for r, blocks in zip(raced.rounds, many, strict=True))

    assert doubt(replace(raced, rounds=rounds)) == ""


def test_what_a_command_reads_is_its_own_imports():
    raced = confirmation(3, 3, reads=40)

    assert doubt(replace(raced, plan=replace(raced.plan, work=Work.COMMAND))) == ""


def test_long_calls_may_read_what_they_import():
    raced = confirmation(3, 3, reads=40)
    lean = {BlockKind.EMPTY, BlockKind.TIMED}
    rounds = tuple(replace(r, blocks=tuple(b for b in r.blocks if b.kind in lean)) for r in raced.rounds)

    assert doubt(replace(raced, rounds=rounds)) == ""


def test_who_leaves_something_for_its_next_process_is_doubted():
    assert "leaves" in doubt(confirmation(3, 3, unclean=("x",)))
    assert doubt(confirmation(3, 3, unclean=(BASELINE, "x"))) == ""


def test_what_was_left_while_all_ran_at_once_clears_nobody():
    raced = confirmation(3, 3, unclean=(BASELINE, "x"))
    at_once = tuple(replace(round_, together=True) for round_ in raced.rounds)

    assert "leaves" in doubt(replace(raced, rounds=at_once))
    assert doubt(replace(raced, rounds=(*at_once[:-1], raced.rounds[-1]))) == ""


def test_a_first_pass_on_the_wall_clock_is_told_by_rounds_alone():
    raced = confirmation(1, 5, children=10**9)
    at_once = (replace(round_, together=True) for round_ in raced.rounds[:2])
    mixed = replace(raced, rounds=(*at_once, *raced.rounds[2:]))

    assert raced.tracks["x"].clock is Clock.WALL
    assert remembers(mixed, "x")
    assert len(claimed(mixed, "x").total) == len(raced.rounds) - 2


def test_a_gain_on_one_clock_must_not_be_a_loss_on_the_other():
    raced = confirmation(2, 2, wall_ns=10**8)

    assert raced.tracks["x"].clock is Clock.CPU
    assert "slower on the wall clock" in doubt(raced)


def test_who_waits_as_long_as_the_baseline_gains_no_more_than_the_wall_clock_shows():
    busy, waited = {}, {"waited_ns": 900_000}
    for name, work_ns in ((BASELINE, 5_100_000), ("x", 100_000)):
        busy[name] = {"cpu_ns": CHANNEL + work_ns, "wall_ns": CHANNEL + work_ns + 900_000, **waited}
    raced = confirmation(1, 1, baseline=busy[BASELINE], **busy["x"])

    assert raced.tracks["x"].clock is Clock.CPU
    assert "it waits" in doubt(raced)


def test_a_gain_on_the_wall_clock_has_its_price():
    work_ns = CALL * HALF * 4 * 11.5
    cheap = confirmation(2, 2, children=int(0.6 * work_ns))
    dear = confirmation(2, 2, children=int(1.5 * work_ns))
    allowed = replace(dear, plan=replace(PLAN, max_cpu_cost=3.0))

    assert dear.tracks["x"].clock is Clock.WALL
    assert doubt(cheap) == ""
    assert "2.0 times the CPU time" in doubt(dear)
    assert doubt(allowed) == ""


def test_the_claim_of_a_cache_is_weighted_like_any_other():
    raced = confirmation(1, 10)

    cold = claimed(raced, "x")

    assert len(cold.groups) == len(PLAN.groups)
    assert len(cold.total) == len(raced.rounds)
    assert max(map(abs, cold.total)) < log(1.1)
