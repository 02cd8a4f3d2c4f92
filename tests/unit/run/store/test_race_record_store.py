"""Which races that an earlier process of the same run has held are not held again."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio
import pytest

from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.race.race_record import RaceRecord, RunRecord
from codeflash_parallel.race.race_result import Raced
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import InterimState
from codeflash_parallel.run.store.race_record_store import RaceRecorder, sound_records

PLAN = RacePlan(groups=(CostGroup(name="one", ns=2), CostGroup(name="two", ns=1)))
FIRST = RunRecord(run_id="r", seed=1, version="0")


def race_by(plan):
    """Return the record of a race that ended with a plan."""
    raced = Raced(
        plan=plan,
        candidates=("a",),
        rounds=(),
        tracks={"a": track((), "a", plan)},
        looks=InterimState(candidates=("a",)),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )
    return RaceRecord(stage=plan.stage, outcome=raced)


def known(folder, plan):
    """Return what `PLAN` finds where a race that ended with a plan is kept."""
    return RaceRecorder(folder, FIRST, (FIRST, race_by(plan))).held(PLAN, ["a"])


@pytest.mark.parametrize("found_out", [{}, {"dear": True}, {"groups": PLAN.groups[:1]}])
def test_what_a_race_finds_out_itself_makes_it_no_other_race(tmp_path, found_out):
    assert known(tmp_path, replace(PLAN, **found_out)) is not None


@pytest.mark.parametrize(
    "other", [{"budget_ns": 1}, {"together": True}, {"groups": (CostGroup(name="three", ns=1),)}]
)
def test_a_race_by_other_rules_is_another_one(tmp_path, other):
    assert known(tmp_path, replace(PLAN, **other)) is None


RACES = (race_by(PLAN), race_by(replace(PLAN, together=True)))


@pytest.fixture
def run_dir(tmp_path):
    async def write():
        recorder = RaceRecorder(tmp_path, FIRST)
        for race in RACES:
            await recorder.add(race)

    anyio.run(write)
    return tmp_path


def test_records_are_on_disk_in_order(run_dir):
    assert sound_records(run_dir) == (FIRST, *RACES)


@pytest.mark.parametrize(
    ("number", "damage"),
    [
        (0, lambda path: path.write_text("{}")),
        (1, lambda path: path.unlink()),
        (1, lambda path: path.write_bytes(b"\xff")),
        (2, lambda path: os.truncate(path, 300)),
    ],
)
def test_what_comes_after_a_damaged_record_is_not_used(run_dir, number, damage):
    damage(run_dir / "races" / f"{number:04d}.json")

    assert sound_records(run_dir) == (FIRST, *RACES)[:number]
