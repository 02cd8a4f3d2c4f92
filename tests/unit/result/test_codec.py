"""Values come back from JSON exactly as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceFailed, RaceOutcome
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.codec import from_plain, to_plain
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
        wall_ns=draw(nanoseconds), digest=draw(st.text(max_size=3)), reads=draw(st.integers(0, 9)),
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
        queued=draw(reals),
    )


def raced(measured, plan=PLAN):
    tracks = {arm: track(measured, arm, plan) for arm in ("a", "b")}
    return Raced(
        plan=plan, candidates=("a", "b"), rounds=tuple(measured), tracks=tracks,
        looks=InterimState(candidates=("a", "b"), standings={"a": ArmStanding.FASTER}, dropped_after={"b": 2}),
        out=LEFT, wall_ns=7, round_ns=3, stopped="enough", notes=("one",),
    )  # fmt: skip


def through_text(kind, value):
    return from_plain(kind, json.loads(json.dumps(to_plain(value, kind))))


@given(st.lists(rounds(), max_size=3))
def test_a_race_comes_back_as_it_was(measured):
    record = raced(measured)

    assert through_text(Raced, record) == record


@given(reals, reals)
def test_figures_come_back_to_the_last_bit(estimate, low):
    speedup = Speedup(estimate=estimate, low=low, high=1.5, clock="cpu", stage="race")

    text = json.dumps(to_plain(speedup))

    assert from_plain(Speedup | None, json.loads(text)) == speedup


@pytest.mark.parametrize("value", [raced([]), RaceFailed(candidates=("a",), reason="It died.")])
def test_every_member_of_a_union_comes_back(value):
    assert through_text(RaceOutcome, value) == value


@given(st.binary())
def test_bytes_come_back(data):
    assert through_text(bytes | None, data) == data


def test_a_field_that_came_later_has_its_default():
    record = raced([])
    data = to_plain(record)
    del data["notes"]

    assert from_plain(Raced, data) == replace(record, notes=())


@pytest.mark.parametrize("name", ["plan", "candidates", "rounds", "tracks", "looks"])
def test_a_race_without_what_its_figures_need_is_no_record(name):
    data = to_plain(raced([]))
    del data[name]

    with pytest.raises(ValueError, match=f"Raced is incomplete: .*'{name}'"):
        from_plain(Raced, data)


GOOD = to_plain(RaceFailed(candidates=("a",), reason="It died."), RaceOutcome)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "dict was expected, not '\\[\\]'"),
        ({**GOOD, "type": "Sum"}, "'Sum' is none of Raced, RaceFailed"),
        ({**GOOD, "reason": 5}, "str was expected, not '5'"),
        ({**GOOD, "more": 1}, "RaceFailed has no more"),
        ({k: v for k, v in GOOD.items() if k != "reason"}, "RaceFailed is incomplete: .*'reason'"),
        ({"type": "Raced", "plan": 3}, "dict was expected, not '3'"),
        ({"type": "Raced", "wall_ns": True}, "int was expected, not 'True'"),
    ],
)
def test_what_is_no_record_is_said(data, said):
    with pytest.raises(ValueError, match=said):
        from_plain(RaceOutcome, data)
