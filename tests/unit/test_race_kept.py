"""Which races that an earlier process of the same run has held are not held again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.benchmark.decide import Looks
from codeflash_parallel.benchmark.plan import Group, RacePlan
from codeflash_parallel.benchmark.raced import Raced
from codeflash_parallel.benchmark.record import RaceRecord, RunRecord
from codeflash_parallel.engine.samples import Recorder

PLAN = RacePlan(groups=(Group(name="one", ns=2), Group(name="two", ns=1)))
FIRST = RunRecord(run_id="r", seed=1, policy="fastest", version="0")


def known(folder, plan):
    """Return what `PLAN` finds where a race that ended with a plan is kept."""
    raced = Raced(
        plan=plan,
        candidates=("a",),
        rounds=(),
        tracks={},
        looks=Looks(candidates=("a",)),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )
    recorder = Recorder(folder, FIRST, (FIRST, RaceRecord(stage=plan.stage, outcome=raced)))
    return recorder.held(PLAN, ["a"])


@pytest.mark.parametrize("found_out", [{}, {"dear": True}, {"groups": PLAN.groups[:1]}])
def test_what_a_race_finds_out_itself_makes_it_no_other_race(tmp_path, found_out):
    assert known(tmp_path, replace(PLAN, **found_out)) is not None


@pytest.mark.parametrize(
    "other", [{"budget_ns": 1}, {"together": True}, {"groups": (Group(name="three", ns=1),)}]
)
def test_a_race_by_other_rules_is_another_one(tmp_path, other):
    assert known(tmp_path, replace(PLAN, **other)) is None
