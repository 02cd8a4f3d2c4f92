"""The race against a stand-in arm that speaks the protocol: real processes, real clocks, wrong behaviour."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from pathlib import Path

import anyio
import pytest
from stadium import LOOPS, open_stadium

from codeflash_parallel.race.measurement import BlockKind, DecidingClock, blocks_of
from codeflash_parallel.race.plan import BASELINE, NULL, SHORT_GAIN, RacePlan
from codeflash_parallel.race.race import LAST_BLOCK_S
from codeflash_parallel.race.race_result import Raced, RaceFailed
from codeflash_parallel.race.ranking.arm_comparison import contenders
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, centre
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict

pytestmark = [pytest.mark.anyio, pytest.mark.engine]


@pytest.mark.campaign
async def test_a_clear_winner_is_found_and_confirmed(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        seen = []
        arms = {
            a.id: a
            for a in (stadium.arm("same"), stadium.arm("fast", LOOPS // 2), stadium.arm("slow", LOOPS * 2))
        }
        raced = await stadium.race(*arms.values(), progress=seen.append)
        confirmations = []
        while ids := contenders([raced], confirmations, stadium.plan, limit=2):
            again = stadium.plan.confirmation(300 * 10**9)
            confirmations.append(await stadium.race(*(arms[i] for i in ids), plan=again))

    ranking = rank([raced], confirmations, stadium.plan, {})
    assert raced.standing("slow") is ArmStanding.HOPELESS
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "fast")
    assert 1.5 < ranking.of("fast").speedup.estimate < 2.6
    told = [(one.rounds, one.most_rounds, one.racing, one.leader) for one in seen]
    most = stadium.plan.max_rounds
    assert (told[0][:3], told[-1][1:]) == ((1, most, 3), (most, len(raced.looks.living), "fast"))
    assert seen[-1].speedup == pytest.approx(exp(centre(raced.tracks["fast"])))
    assert 0 < seen[-1].seconds_left < seen[0].seconds_left < 300
    assert NULL in confirmations[0].tracks
    assert [r.layout for r in confirmations[0].rounds] == [
        n // 2 for n in range(len(confirmations[0].rounds))
    ]


ACTS = {
    "crash": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "status"),
    "hang": (CandidateStatus.LOST, Code.NOT_FASTER, "not done after"),
    "wrong": (CandidateStatus.REJECTED, Code.NOT_CONFIRMED, "differ"),
    "random": (CandidateStatus.REJECTED, Code.NOT_CONFIRMED, "differ"),
    "no-ready": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "cannot import the target"),
    "garbage": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "protocol"),
    "foreign": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "not its own"),
    "nameless": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "no number 'pid'"),
    "countless": (CandidateStatus.UNDECIDED, Code.NOT_CONFIRMED, "no numbers 'calls'"),
}


async def test_arms_that_misbehave_are_out_with_a_reason_and_break_nothing(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        arms = [stadium.arm(act, act=act) for act in ACTS]
        # Each stand-in has an interpreter of its own, as no arm has: where its code and objects lie may cost
        # threefold, for as long as a unit lives (decision 17).
        raced = await stadium.race(*arms, stadium.arm("fast", LOOPS // 8))

    assert raced.standing("fast") is ArmStanding.FASTER
    assert {*raced.out} == {*ACTS}
    for act, (status, code, words) in ACTS.items():
        assert (raced.out[act].status, raced.out[act].code) == (status, code), act
        assert words in raced.out[act].reason


@pytest.mark.parametrize("act", ["crash", "no-ready", "garbage", "foreign"])
async def test_a_baseline_that_fails_blames_nobody(tmp_path, act):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race(stadium.arm("a"), baseline=stadium.arm("baseline", act=act))

    assert isinstance(raced, RaceFailed)
    assert raced.candidates == ("a",)


async def test_a_baseline_that_is_lost_once_costs_nobody_the_race(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        baseline = stadium.arm("baseline", act="crash once")
        raced = await stadium.race(stadium.arm("fast", LOOPS // 2), baseline=baseline)

    assert raced.out == {}
    assert raced.standing("fast") is ArmStanding.FASTER
    assert "ended with status" in raced.notes[0]


async def test_outcomes_that_the_baseline_does_not_repeat_are_not_compared(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        baseline = stadium.arm("baseline", act="random")
        raced = await stadium.race(stadium.arm("a", LOOPS // 2, act="random"), baseline=baseline)

    assert raced.out == {}
    assert raced.standing("a") is ArmStanding.FASTER
    assert "g0" in raced.notes[0]


async def test_work_of_children_and_waiting_are_seen_by_the_wall_clock(tmp_path):
    short = 10 * LOOPS  # long enough that forking is not the larger part of a call
    async with open_stadium(tmp_path) as stadium:
        arms = [stadium.arm("children", short, act="children"), stadium.arm("sleep", LOOPS, act="sleep")]
        raced = await stadium.race(*arms, baseline=stadium.arm("baseline", short))

    assert raced.tracks["children"].clock is DecidingClock.WALL
    assert raced.tracks["sleep"].clock is DecidingClock.WALL
    assert raced.standing("children") is not ArmStanding.FASTER


async def test_a_fast_arm_has_more_calls_in_a_block_and_the_baseline_has_not(tmp_path):
    """What it gives in such a block is compared, too: with one block of the baseline that holds as many."""
    async with open_stadium(tmp_path) as stadium:
        plan = replace(stadium.plan.confirmation(300 * 10**9, gain=10 * SHORT_GAIN), max_rounds=2)
        fast = [stadium.arm("fast", LOOPS // 10), stadium.arm("wrong", LOOPS // 10, "wrong in many calls")]
        raced = await stadium.race(*fast, plan=plan)

    calls = {
        arm: {b.calls for b in blocks_of(raced.rounds, arm, BlockKind.TIMED)}
        for arm in (*raced.tracks, BASELINE)
    }
    (once,), (many,) = calls[BASELINE], calls["fast"]
    assert (2 * plan.block_ns, calls[NULL]) == (stadium.plan.block_ns, {once})
    assert 5 * once < many < 20 * once
    assert {b.calls for b in blocks_of(raced.rounds, BASELINE, BlockKind.MANY)} == {many}
    assert 5 < exp(centre(raced.tracks["fast"])) < 20
    assert {arm: out.reason for arm, out in raced.out.items()} == {
        "wrong": "its outcomes in a timed unit differ from the baseline's"
    }


async def test_a_group_that_becomes_slower_is_vetoed(tmp_path):
    async with open_stadium(tmp_path, groups=2) as stadium:
        mixed = stadium.arm("mixed", [LOOPS // 4, LOOPS * 5 // 4])
        # Its dozen rounds are what a claim rests on; a race in which it is far ahead may end before.
        raced = await stadium.race(mixed, plan=stadium.plan.confirmation(300 * 10**9))

    assert raced.standing("mixed") is ArmStanding.REGRESSES
    assert rank([raced], [], stadium.plan, {}).of("mixed").code is Code.REGRESSES_TEST


async def test_long_calls_are_timed_once_a_round(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race(
            stadium.arm("a", LOOPS * 60), baseline=stadium.arm("baseline", LOOPS * 180)
        )

    kinds = {block.kind for round_ in raced.rounds for block in round_.blocks}
    assert BlockKind.FIRST not in kinds
    assert raced.standing("a") is ArmStanding.FASTER


@pytest.mark.parametrize(("loops", "words"), [(LOOPS * 300, "not begun"), (LOOPS * 20_000, "one pass")])
async def test_a_race_that_cannot_fit_its_budget_is_not_begun(tmp_path, loops, words):
    async with open_stadium(tmp_path) as stadium:
        tight = RacePlan(groups=stadium.plan.groups, budget_ns=3_000_000_000)
        raced = await stadium.race(stadium.arm("a"), baseline=stadium.arm("baseline", loops), plan=tight)

    assert isinstance(raced, Raced)
    assert raced.rounds == ()
    assert raced.stopped.startswith("the race was not begun")
    assert words in raced.stopped or "one pass" in raced.stopped  # a busy machine may make it so
    ranking = rank([raced], [], tight, {})
    assert (ranking.verdict, ranking.of("a").code) == (Verdict.BUDGET_TOO_SMALL, Code.BUDGET_TOO_SMALL)
    needed_s = int(ranking.of("a").reason.partition("--time-budget ")[2])
    assert needed_s >= 6, "twice the budget at least"
    assert "the budget of 3 s is too small" in ranking.summary


async def test_the_budget_ends_a_race(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        short = RacePlan(groups=stadium.plan.groups, cores=stadium.plan.cores, budget_ns=1_000_000_000)
        raced = await stadium.race(stadium.arm("a"), stadium.arm("b"), plan=short)

    assert "budget" in raced.stopped or raced.stopped.startswith("decided"), raced.stopped
    assert raced.wall_ns < short.budget_ns + (LAST_BLOCK_S + CLOSING_S) * 10**9


#: How long killed processes may take to be gone, on a busy machine.
CLOSING_S = 4.0


@pytest.mark.parametrize("act", ["at its start", "in a fork", "before go", "in a check"])
async def test_whoever_keeps_us_waiting_the_budget_holds_and_nobody_is_blamed(tmp_path, act):
    budget_s = 1.5
    async with open_stadium(tmp_path) as stadium:
        short = replace(stadium.plan, budget_ns=int(budget_s * 10**9))
        raced = await stadium.race(stadium.arm("a", act=f"stuck {act}"), stadium.arm("b"), plan=short)

    assert raced.wall_ns < (budget_s + LAST_BLOCK_S + CLOSING_S) * 10**9
    assert "budget" in raced.stopped
    assert raced.out == {}
    assert rank([raced], [], short, {}).verdict is Verdict.BUDGET_TOO_SMALL


async def test_no_candidates_no_race(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race()

    assert (raced.candidates, raced.rounds) == ((), ())
    assert rank([raced], [], stadium.plan, {}).verdict is Verdict.NOTHING_FASTER


async def test_cancelling_leaves_no_process(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        with anyio.CancelScope() as scope:
            await stadium.race(stadium.arm("a"), progress=lambda _told: scope.cancel())

        assert scope.cancelled_caught
        assert not processes_of(tmp_path)


def processes_of(folder):
    return [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _bytes(p)]


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_calls_that_the_baseline_itself_remembers_are_timed_once_a_round_where_they_are_long(tmp_path):
    """Of four arms the baseline had two blocks a round: the second one found everything in its own cache."""
    async with open_stadium(tmp_path) as stadium:
        long = 180 * LOOPS
        arms = [stadium.arm(name, long, "cache") for name in ("one", "two", "three")]
        plan = replace(stadium.plan, max_rounds=1)
        raced = await stadium.race(*arms, baseline=stadium.arm("baseline", long, "cache"), plan=plan)
    assert not raced.rounds[0].together
    assert len([*blocks_of(raced.rounds, BASELINE, BlockKind.TIMED)]) == 1
    assert all(1 / 2 < exp(raced.tracks[arm.id].total[0]) < 2 for arm in arms)
