from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from math import exp, log
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import (
    Block,
    BlockKind,
    DecidingClock,
    Round,
    channel_cost,
    clock_of,
    judged,
    queued_share,
    void_note,
)
from codeflash_parallel.race.plan import BASELINE, NULL, CostGroup, RacePlan, block_order
from codeflash_parallel.race.statistics.log_ratios import track

ONE = RacePlan(groups=(CostGroup(name="all", ns=1),))
MS = 1_000_000


def block(arm, ns, kind=BlockKind.TIMED, *, group=0, calls=10, digest="", wall=None, waited=0, start=0):
    return Block(
        arm=arm, kind=kind, group=group, calls=calls, cpu_ns=int(ns), wall_ns=int(wall or ns),
        waited_ns=waited, digest=digest, start=start,
    )  # fmt: skip


def round_of(*blocks, number=0, layout=0, children=None):
    return Round(number=number, layout=layout, core=0, blocks=blocks, children_ns=children or {})


def times(speedups, *, drift=0.0, seed=0):
    """One round's blocks on a core that becomes slower by `drift` with every block."""
    order = block_order(list(speedups), Random(seed))
    return round_of(*(block(a, 8e6 * (1 + drift * i) / speedups.get(a, 1)) for i, a in enumerate(order)))


@given(st.floats(0.1, 100), st.integers(0, 50))
def test_a_quiet_round_gives_the_true_ratio(gain, seed):
    result = track([times({"a": gain, "b": 1.0}, seed=seed)], "a", ONE)

    assert exp(result.total[0]) == pytest.approx(gain, rel=1e-3)
    assert result.groups[0] == pytest.approx(result.total)


@given(st.floats(-0.02, 0.02), st.integers(0, 50), st.integers(1, 6))
def test_linear_drift_cancels(drift, seed, count):
    arms = {f"c{i}": 1.0 for i in range(count)}

    for arm in arms:
        result = track([times(arms, drift=drift, seed=seed)], arm, ONE)
        assert abs(result.total[0]) < 0.01


def test_what_the_channel_costs_is_taken_off():
    empty = [block(a, MS, BlockKind.EMPTY, calls=0) for a in (BASELINE, "a")]
    round_ = round_of(*empty, block(BASELINE, 9 * MS), block("a", 3 * MS))

    assert channel_cost([round_]).cpu_ns == MS
    assert exp(track([round_], "a", ONE).total[0]) == pytest.approx(4)


@pytest.mark.parametrize("own", [0, 8 * MS])
def test_what_an_arm_does_while_nothing_is_called_is_not_taken_off_its_calls(own):
    empty = [block(BASELINE, MS, BlockKind.EMPTY, calls=0), block("a", own, BlockKind.EMPTY, calls=0)]
    round_ = round_of(*empty, block(BASELINE, 9 * MS), block("a", 9 * MS))

    assert track([round_], "a", ONE).total == (0,)


def test_how_long_one_waits_while_nothing_is_called_does_not_choose_the_clock():
    empty = [
        block(BASELINE, MS, BlockKind.EMPTY, wall=9 * MS, waited=8 * MS, calls=0),
        block("a", MS, BlockKind.EMPTY, calls=0),
    ]
    round_ = round_of(*empty, *[block(a, 9 * MS, wall=11 * MS, waited=2 * MS) for a in (BASELINE, "a")])

    assert track([round_] * 4, "a", ONE).clock is DecidingClock.CPU


def test_groups_are_weighted_by_the_baselines_time():
    plan = RacePlan(groups=(CostGroup(name="x", ns=75), CostGroup(name="y", ns=25)))
    blocks = [block(BASELINE, 8e6), block("a", 2e6), block(BASELINE, 8e6, group=1), block("a", 8e6, group=1)]

    result = track([round_of(*blocks)], "a", plan)

    # 75 become 18.75, 25 stay 25.
    assert exp(result.total[0]) == pytest.approx(100 / 43.75)
    assert [exp(g[0]) for g in result.groups] == pytest.approx([4, 1])


def test_an_arm_that_was_never_timed_has_an_empty_track():
    assert track([times({"b": 1.0})], "a", ONE).total == ()
    assert track([], "a", ONE).groups == ((),)


def test_a_dropped_arm_keeps_its_rounds_only():
    rounds = [times({"a": 2.0, "b": 1.0}), times({"b": 1.0})]

    assert len(track(rounds, "a", ONE).total) == 1
    assert len(track(rounds, "b", ONE).total) == 2


def test_a_tiny_block_never_breaks_the_logarithm():
    empty = [block(a, MS, BlockKind.EMPTY, calls=0) for a in (BASELINE, "a")]

    result = track([round_of(*empty, block(BASELINE, 8 * MS), block("a", MS // 2))], "a", ONE)

    assert result.total[0] == pytest.approx(log(7 * MS / 500))


def test_waiting_work_is_timed_by_the_wall_clock():
    sleeper = round_of(block(BASELINE, 8 * MS), block("a", MS, wall=9 * MS, waited=8 * MS))

    result = track([sleeper] * 4, "a", ONE)

    assert result.clock is DecidingClock.WALL
    assert exp(result.total[0]) == pytest.approx(8 / 9)


def test_a_waiting_baseline_makes_wall_decide_for_everybody():
    blocks = (block(BASELINE, MS, wall=9 * MS, waited=8 * MS), block("a", 8 * MS))

    assert clock_of([round_of(*blocks)], "a") is DecidingClock.WALL


def test_a_few_disturbed_blocks_do_not_change_the_clock():
    calm = round_of(block(BASELINE, 8 * MS), block("a", 8 * MS))
    disturbed = round_of(block(BASELINE, 8 * MS), block("a", 8 * MS, wall=40 * MS, waited=30 * MS))

    assert clock_of([calm, disturbed, disturbed], "a") is DecidingClock.CPU


def test_working_children_are_found_by_wait4():
    children = {BASELINE: MS // 2, "a": 7 * MS}
    helped = round_of(block(BASELINE, 8 * MS), block("a", MS), children=children)

    assert clock_of([helped] * 3, "a") is DecidingClock.WALL


def test_a_millisecond_of_dying_is_not_children():
    dying = round_of(block(BASELINE, 8 * MS), block("a", MS), children={BASELINE: 0, "a": MS // 2})

    assert clock_of([dying] * 3, "a") is DecidingClock.CPU


def test_a_void_round_does_not_count():
    calm, void = times({"a": 2.0}), replace(times({"a": 9.0}), void="the budget ended in it")

    assert len(track([calm, void], "a", ONE).total) == 1
    assert track([void], "a", ONE).total == ()


def checking(own_ns, base_ns, kept=2):
    """One round: ten calls in 8 ms on either side, and what encoding the kept outcomes cost."""
    blocks = (block(BASELINE, 8 * MS), block("a", 8 * MS), block(BASELINE, 8 * MS))
    costs = {BASELINE: base_ns, "a": own_ns}
    return round_of(*(replace(b, kept=kept, deferred_ns=kept * costs[b.arm]) for b in blocks))


def test_deferred_work_is_charged_to_every_call():
    rounds = [checking(900_000 + noise, 100_000) for noise in (-3000, 1000, 2000, 0) * 2]

    result = track(rounds, "a", ONE)

    assert result.deferred_ns == pytest.approx(800_000, rel=1e-2)
    # A call of 0.8 ms owes 0.8 ms more.
    assert [exp(value) for value in result.total] == pytest.approx([0.5] * 8, rel=1e-3)


@pytest.mark.parametrize(
    "pairs",
    [
        [(109_000, 100_000)] * 9,
        [(900_000, 100_000)] * 3,
        [(900_000, 100_000), (90_000, 100_000), (100_000, 100_000), (100_000, 100_000)] * 5,
        [(140_000, 100_000)] * 20,
        [(0, 100_000)] * 9,
    ],
    ids=["less than a tenth", "too few rounds", "within the noise", "as little as warmth makes", "less work"],
)
def test_what_is_not_surely_deferred_is_not_charged(pairs):
    assert track([checking(own, base) for own, base in pairs], "a", ONE).deferred_ns == 0


def test_where_nothing_is_kept_nothing_is_charged():
    assert track([checking(900_000, 0, kept=0)] * 9, "a", ONE).deferred_ns == 0


def noisy(order, random):
    """A round in which the machine makes every block longer, by an amount of its own."""
    return round_of(*(block(arm, 8e6 * exp(abs(random.gauss(0, 0.2)))) for arm in order))


def palindromes(count, random, arms=("a",)):
    return [arm for _ in range(count) for arm in block_order(arms, random)]


@given(st.integers(0, 1000))
def test_exchanging_an_arm_and_the_baseline_exchanges_the_sign_and_nothing_else(seed):
    random = Random(seed)
    round_ = noisy(palindromes(5, random), random)
    other = {BASELINE: "a", "a": BASELINE}
    exchanged = replace(round_, blocks=tuple(replace(b, arm=other[b.arm]) for b in round_.blocks))

    assert track([exchanged], "a", ONE).total[0] == pytest.approx(-track([round_], "a", ONE).total[0])


@given(st.integers(0, 1000), st.integers(1, 5))
def test_a_block_is_set_against_one_of_its_own_palindrome(seed, count):
    """Every palindrome is ten times as slow as the one before it, and nothing of that is seen."""
    random = Random(seed)
    arms = {f"c{number}": 1.0 for number in range(count)}
    orders = [block_order([*arms], random) for _ in range(4)]
    blocks = [block(arm, 1e5 * 10**slower) for slower, order in enumerate(orders) for arm in order]

    assert all(track([round_of(*blocks)], arm, ONE).total == pytest.approx((0.0,)) for arm in arms)


def test_a_block_that_the_machine_made_slow_does_not_move_a_round():
    order = palindromes(4, Random(1))
    blocks = [block(arm, 8e6) for arm in order]
    slow = blocks.index(next(b for b in blocks if b.arm == "a"))
    blocks[slow] = replace(blocks[slow], cpu_ns=80_000_000)

    assert track([round_of(*blocks)], "a", ONE).total == (0.0,)


def test_work_that_is_done_in_some_blocks_only_is_not_overlooked():
    random = Random(3)

    def puts_off():
        """The arm does half of the work, and in one block of four three times as much."""
        costs = cycle([4e6, 4e6, 4e6, 12e6])
        return round_of(*(block(arm, next(costs) if arm == "a" else 8e6) for arm in palindromes(8, random)))

    # By medians it would be twice as fast.
    assert [exp(gain) for gain in track([puts_off() for _ in range(12)], "a", ONE).total] == pytest.approx(
        [8 / 6] * 12
    )


def test_noise_of_the_machine_does_not_make_an_arm_uneven():
    random = Random(5)
    rounds = [noisy(palindromes(8, random), random) for _ in range(40)]
    flipped = [track([round_], "a", ONE).total[0] for round_ in rounds]

    assert track(rounds, "a", ONE).total == pytest.approx(flipped)


def test_work_moved_to_the_making_of_inputs_is_charged():
    def prepared(ns):
        order = palindromes(3, Random(2))
        return round_of(
            *(
                replace(block(arm, 8e6 if arm == BASELINE else 2e6), prepared_ns=ns if arm == "a" else 10_000)
                for arm in order
            )
        )

    moved = track([prepared(6_010_000)] * 12, "a", ONE)
    honest = track([prepared(10_300)] * 12, "a", ONE)

    assert exp(moved.total[0]) == pytest.approx(1.0, rel=0.01)
    assert moved.deferred_ns == pytest.approx(600_000)
    assert exp(honest.total[0]) == pytest.approx(4.0)


def warm_baseline(costs):
    """One round in which the baseline makes the inputs of a block in 100 µs, and arms as given, in ns."""
    order = palindromes(3, Random(2), arms=tuple(costs))
    return round_of(*(replace(block(arm, 8e6), prepared_ns=costs.get(arm, 100_000)) for arm in order))


def test_the_second_baseline_is_not_charged_for_being_colder_than_the_first():
    """Where candidates' blocks hold more calls nobody else's costs can be compared with its own."""
    costs = {NULL: 150_000, "a": 150_000}
    order = palindromes(3, Random(2), arms=tuple(costs))
    blocks = [replace(block(arm, 8e6), prepared_ns=costs.get(arm, 100_000)) for arm in order]
    rounds = [round_of(*(replace(b, calls=4 * b.calls) if b.arm == "a" else b for b in blocks))] * 40

    assert track(rounds, NULL, ONE).deferred_ns == 0


@pytest.mark.parametrize("peer", [NULL, "b"])
def test_an_arm_is_not_charged_for_what_its_equals_take_as_well(peer):
    """The baseline has its turn more often, stays warm and is quicker at the same."""
    rounds = [warm_baseline({"a": 150_000, peer: 149_000})] * 40

    assert track(rounds, "a", ONE).deferred_ns == 0


def test_one_honest_candidate_is_enough_to_charge_the_others():
    rounds = [warm_baseline({"a": 500_000, "b": 500_000, "honest": 150_000})] * 40

    assert track(rounds, "a", ONE).deferred_ns == pytest.approx(35_000)


@pytest.mark.parametrize("left", ["b", "z"])
def test_peers_that_leave_the_race_are_followed_by_the_next(left):
    """Nobody was in all rounds: whoever stayed longer is held against meanwhile, whatever its name."""
    others = {left: 149_000, "c": 150_000, "d": 148_000}
    full, cut = warm_baseline({"a": 150_000, **others}), warm_baseline({"a": 150_000, "c": 150_000})
    alone = warm_baseline({"a": 100_500})

    assert track([full] * 3 + [cut] * 30 + [alone] * 2, "a", ONE).deferred_ns == 0


def test_a_dear_peer_that_stays_does_not_excuse_an_arm_for_the_rounds_of_an_honest_one():
    full = warm_baseline({"a": 500_000, "dear": 500_000, "honest": 150_000})
    cut = warm_baseline({"a": 500_000, "dear": 500_000})

    assert track([full] * 30 + [cut], "a", ONE).deferred_ns == pytest.approx(35_000)


def test_who_is_left_alone_is_held_against_the_baseline():
    """Each has its turn as often as the other, so that the baseline is no warmer."""
    full = warm_baseline({"a": 150_000, "b": 150_000})
    alone = warm_baseline({"a": 100_500})

    assert track([full] * 6 + [alone] * 30, "a", ONE).deferred_ns == 0


def test_a_second_baseline_tells_more_than_candidates_that_do_the_same():
    rounds = [warm_baseline({"a": 500_000, "b": 500_000, NULL: 150_000})] * 40

    assert track(rounds, "a", ONE).deferred_ns == pytest.approx(35_000)
    assert track(rounds, NULL, ONE).deferred_ns == 0


def spent_block(arm, *, cpu, wall, waited=0, kind=BlockKind.TIMED):
    return Block(
        arm=arm, kind=kind, calls=1, cpu_ns=cpu * MS, wall_ns=wall * MS, waited_ns=waited * MS
    )  # fmt: skip


def test_time_in_line_is_that_of_the_timed_blocks():
    blocks = [
        spent_block(BASELINE, cpu=4, wall=10, waited=1),
        spent_block("a", cpu=5, wall=10),
        spent_block("a", cpu=5, wall=500, kind=BlockKind.FIRST),
    ]

    assert queued_share(blocks) == 0.5
    assert queued_share([]) == 0.0


def queued_round(queued, void=""):
    return Round(number=0, layout=0, core=0, blocks=(), queued=queued, void=void)


def history(shares):
    rounds = []
    for share in shares:
        rounds.append(judged(rounds, queued_round(share)))
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
    assert judged([], queued_round(0.1, void="the budget ended in it")).void == "the budget ended in it"


def test_arms_that_run_at_once_stand_in_line_for_each_other():
    in_turn = [Round(number=n, layout=0, core=0, blocks=(), queued=0.1) for n in range(5)]
    at_once = Round(number=5, layout=0, core=0, blocks=(), queued=0.75, together=True)

    assert judged(in_turn, at_once) is at_once
    assert judged(in_turn, replace(at_once, together=False)).void
