"""What a race sees beside the clock, on stand-in arms: each way of being fast without doing less work."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from stadium import LOOPS, open_stadium

from codeflash_parallel.race.guards import disagreeing, unstable_groups
from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, NULL, RacePlan, RaceStage
from codeflash_parallel.race.race_result import ArmWorkTimeout
from codeflash_parallel.race.round import LEAST_DRAWN, BlockScale, RoundContext, run_round
from codeflash_parallel.race.statistics.sequential_test import ArmStanding
from codeflash_parallel.race.worker.arm_pool import open_field
from codeflash_parallel.race.worker.arm_worker import SECOND, SMALL_S, BlockRequest
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

SCALES = (BlockScale(cycle=10, calls=20, block_ns=4_000_000),)


async def one_round(stadium, *arms, scales=SCALES, left_s=60.0, together=False):
    """Hold one round of the baseline and some arms in a new field."""
    baseline = stadium.arm(BASELINE)
    where = {"core": stadium.plan.cores[0], "left_s": left_s, "together": together}
    place = RoundContext(number=0, layout=0, stage=RaceStage.RACE, **where)
    async with open_field(stadium.bench, [baseline, *arms], stadium.plan, 1) as field:
        round_ = await run_round(field, scales, place, Random(1))
        return round_, dict(field.lost)


async def test_a_round_records_what_went_on(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        round_, lost = await one_round(stadium, stadium.arm("a"))

    assert (lost, round_.void, round_.unclean) == ({}, "", ())
    assert 0 <= round_.queued < 1
    for figures in (round_.peak_bytes, round_.start_ns):
        assert {*figures} == {BASELINE, "a"}
        assert min(figures.values()) > 0
    timed = [block for block in round_.blocks if block.kind is BlockKind.TIMED]
    assert all(block.reads >= 1 and block.children == 0 for block in timed)
    looked_at = [block for block in timed if block.deferred_ns > 0]
    assert sorted((block.arm, block.kept) for block in looked_at) == [
        (BASELINE, LEAST_DRAWN),
        ("a", LEAST_DRAWN),
    ]


async def test_all_twins_and_some_of_them_are_not_compared(tmp_path, monkeypatch):
    # More twins in a block than calls in a group, and fewer of them are encoded than there are.
    scales = (replace(SCALES[0], twin_calls=15, twin_blocks=1, drawn=12),)
    rounds = []
    async with open_stadium(tmp_path) as stadium:
        for full_checks in (0, 1):
            monkeypatch.setattr("codeflash_parallel.race.round.FULL_CHECKS", full_checks)
            arms = [stadium.arm(NULL), stadium.arm("a"), stadium.arm("wrong", act="wrong in twins")]
            round_, lost = await one_round(stadium, *arms, scales=scales)
            assert lost == {}
            assert disagreeing([round_]).keys() == {"wrong"}
            rounds.append(round_)

    assert unstable_groups(rounds) == frozenset()
    assert disagreeing(rounds) == {"wrong": 2}


@pytest.mark.parametrize("is_long", [True, False])
async def test_only_long_calls_run_at_once(tmp_path, is_long):
    scales = (BlockScale(cycle=10, calls=10, block_ns=60_000_000),) if is_long else SCALES
    assert scales[0].is_lean is is_long
    async with open_stadium(tmp_path) as stadium:
        round_, lost = await one_round(stadium, stadium.arm("a"), scales=scales, together=True)

    timed = [block.arm for block in round_.blocks if block.kind is BlockKind.TIMED]
    assert (lost, round_.void, round_.together) == ({}, "", is_long)
    assert len(timed) == (2 if is_long else 4)


async def test_files_of_a_unit_do_not_reach_the_next_one(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        plan = RacePlan(groups=stadium.plan.groups, cores=stadium.plan.cores, max_rounds=2)
        raced = await stadium.race(stadium.arm("litter", act="litter"), plan=plan)

        first = [
            block.cpu_ns
            for round_ in raced.rounds
            for block in round_.blocks
            if (block.arm, block.kind) == ("litter", BlockKind.FIRST)
        ]
        # An input that is known costs next to nothing.
        assert min(first) > max(first) / 5
        assert not list((tmp_path / "litter" / "tmp").iterdir())
        assert not any(round_.unclean for round_ in raced.rounds)


async def test_processes_left_behind_throw_an_arm_out(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        raced = await stadium.race(stadium.arm("leak", act="leak"))

    assert (raced.out["leak"].status, raced.out["leak"].code) == (
        CandidateStatus.REJECTED,
        Code.LEAKED_PROCESS,
    )
    assert len(raced.rounds) == 1


async def test_work_deferred_to_the_check_is_charged(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        # The race may be over before that is sure; the confirmation makes the claim.
        again = stadium.plan.confirmation(300 * 10**9)
        raced = await stadium.race(stadium.arm("defer", LOOPS // 2, act="defer"), plan=again)

    assert raced.tracks["defer"].deferred_ns > 0
    assert raced.standing("defer") is not ArmStanding.FASTER


async def test_work_moved_to_import_throws_an_arm_out(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        again = stadium.plan.confirmation(300 * 10**9)
        raced = await stadium.race(stadium.arm("import", LOOPS // 2, act="import"), plan=again)

    assert "import takes" in raced.out["import"].reason


async def test_the_budget_ends_a_round_without_blame(tmp_path):
    short = (BlockScale(cycle=10, calls=20, block_ns=1_000_000),)
    async with open_stadium(tmp_path) as stadium:
        spent, lost = await one_round(stadium, stadium.arm("a", act="endless"), left_s=-1.0)
        assert (spent.void, lost) == ("the budget ended in it", {})
        cut, lost = await one_round(stadium, stadium.arm("a", act="endless"), scales=short, left_s=0.2)
        assert (cut.void, lost) == ("the budget ended in it", {})


async def test_whoever_is_at_work_in_the_last_moments_of_the_budget_is_not_lost(tmp_path):
    # Blocks of some milliseconds, so one of them begins when next to nothing is left.
    many = (BlockScale(cycle=10, calls=20, block_ns=100_000, palindromes=1000),)
    async with open_stadium(tmp_path) as stadium:
        cut, lost = await one_round(stadium, stadium.arm("a"), scales=many, left_s=0.5)

    assert (cut.void, lost) == ("the budget ended in it", {})
    assert {block.arm for block in cut.blocks} == {BASELINE, "a"}


@contextmanager
def crowded(core):
    """Keep a core busy with processes that the kernel lets take turns with everybody's."""
    code = f"import os; os.sched_setaffinity(0, [{core}]); print(flush=True)\nwhile True: pass"
    start = partial(subprocess.Popen, [sys.executable, "-c", code], stdout=subprocess.PIPE)
    others = [start(start_new_session=True) for _ in range(8)]
    try:
        for other in others:
            other.stdout.read(1)
        yield
    finally:
        for other in others:
            other.kill()
            other.communicate()


async def test_nobody_is_lost_for_time_in_line_behind_others(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        core = stadium.plan.cores[0]
        async with open_field(stadium.bench, [stadium.arm(BASELINE)], stadium.plan, 1) as field:
            unit = await field.templates[BASELINE].fork(0, core)
            job = BlockRequest(kind=BlockKind.TIMED, calls=1500)
            alone = await unit.block(job, SMALL_S)
            with crowded(core):
                late = await unit.block(job, 3 * alone.cpu_ns / SECOND)

    assert late.wall_ns > late.cpu_ns


async def test_who_waits_for_nobody_is_too_slow(tmp_path):
    async with open_stadium(tmp_path) as stadium:
        arms = [stadium.arm(BASELINE, act="endless")]
        async with open_field(stadium.bench, arms, stadium.plan, 1) as field:
            unit = await field.templates[BASELINE].fork(0, stadium.plan.cores[0])
            with pytest.raises(ArmWorkTimeout):
                await unit.block(BlockRequest(kind=BlockKind.TIMED, calls=1), 0.2)
