"""Records: what was measured comes back exactly as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, RaceStage
from codeflash_parallel.race.race_record import RaceRecord, RunRecord, from_json, restored, to_json, written
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceFailed
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code
from codeflash_parallel.result.result_model import Speedup

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1, calls=(0, 3)),), cores=(0, 1))
LEFT = {"c": Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong")}

nanoseconds = st.integers(0, 2**63)
reals = st.floats(allow_nan=False)


@st.composite
def blocks(draw, arm, kind=BlockKind.TIMED):
    return Block(
        arm=arm, kind=kind, group=0, calls=draw(st.integers(1, 99)), cpu_ns=draw(nanoseconds),
        wall_ns=draw(nanoseconds), digest=draw(st.text(max_size=3)), preempted=draw(st.integers(0, 9)),
    )  # fmt: skip


@st.composite
def rounds(draw, number=0):
    order = (BASELINE, "a", "b", "a", BASELINE)
    return Round(
        number=number,
        layout=number // 6,
        core=draw(st.integers(-1, 64)),
        blocks=tuple(draw(blocks(arm)) for arm in order),
        children_ns={"a": draw(nanoseconds)},
        load={"pressure": draw(reals)},
    )


def raced(measured, plan=PLAN):
    tracks = {arm: track(measured, arm, plan) for arm in ("a", "b")}
    return Raced(
        plan=plan, candidates=("a", "b"), rounds=tuple(measured), tracks=tracks,
        looks=InterimState(candidates=("a", "b"), standings={"a": ArmStanding.FASTER}, dropped_after={"b": 2}),
        out=LEFT, wall_ns=7, round_ns=3, stopped="enough", notes=("one",),
    )  # fmt: skip


def through_text(record):
    return from_json(json.loads(json.dumps(to_json(record))))


@given(st.lists(rounds(), max_size=3))
def test_a_race_comes_back_as_it_was(measured):
    record = RaceRecord(stage=RaceStage.RACE, outcome=raced(measured))

    assert through_text(record) == record


@given(reals, reals)
def test_figures_come_back_to_the_last_bit(estimate, low):
    speedup = Speedup(estimate=estimate, low=low, high=1.5, clock="cpu", stage="race")

    text = json.dumps(written(Speedup | None, speedup))

    assert restored(Speedup | None, json.loads(text)) == speedup


@pytest.mark.parametrize(
    "record",
    [
        RunRecord(run_id="r", seed=5, version="0.1.0"),
        RaceRecord(stage=RaceStage.CONFIRMATION, outcome=RaceFailed(candidates=("a",), reason="It died.")),
    ],
)
def test_every_kind_of_record_comes_back(record):
    assert through_text(record) == record


def test_a_field_that_came_later_has_its_default():
    record = RaceRecord(stage=RaceStage.RACE, outcome=raced([]))
    data = to_json(record)
    del data["outcome"]["notes"]

    assert from_json(data) == replace(record, outcome=replace(record.outcome, notes=()))


@pytest.mark.parametrize("name", ["plan", "candidates", "rounds", "looks"])
def test_a_race_without_what_its_figures_need_is_no_record(name):
    data = to_json(RaceRecord(stage=RaceStage.RACE, outcome=raced([])))
    del data["outcome"][name]

    with pytest.raises(ValueError, match=f"Raced is incomplete: .*'{name}'"):
        from_json(data)


GOOD = to_json(RunRecord(run_id="r", seed=5, version="0.1.0"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "schema version is None"),
        ({**GOOD, "schema": 9}, "schema version is 9, this program reads 2"),
        ({**GOOD, "type": "Sum"}, "'Sum' is none of RunRecord, RaceRecord"),
        ({**GOOD, "seed": "5"}, "int was expected, not '5'"),
        ({**GOOD, "seed": True}, "int was expected, not 'True'"),
        ({**GOOD, "more": 1}, "RunRecord has no more"),
        ({k: v for k, v in GOOD.items() if k != "seed"}, "RunRecord is incomplete: .*'seed'"),
        ({"schema": 2, "type": "RaceRecord", "stage": "race", "outcome": 3}, "dict was expected, not '3'"),
    ],
)
def test_what_is_no_record_is_said(data, said):
    with pytest.raises(ValueError, match=said):
        from_json(data)
