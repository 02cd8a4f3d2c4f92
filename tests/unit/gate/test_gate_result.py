"""The sentence and the document of a gate."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log

import pytest

from codeflash_parallel.gate.gate_result import (
    BenchmarkChange,
    GateResult,
    Qualification,
    SpeedBounds,
    load_now,
    sentence,
    taken,
    time_change,
)
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules

SPEED = SpeedBounds(estimate=1 / 1.05, low=1 / 1.07, high=1 / 1.03)
RESULT = GateResult(
    verdict=Change.SLOWER,
    why="",
    speed=SPEED,
    benchmarks=(),
    base="b" * 40,
    head="",
    rules=GateRules(),
    budget_s=60.0,
    seconds=12.3,
)


def raced(name: str, verdict: str, why: str = "") -> BenchmarkChange:
    return BenchmarkChange(name=name, verdict=verdict, why=why, speed=SPEED, clock="cpu")


def said(verdict: Change, *benchmarks: BenchmarkChange) -> str:
    return sentence(replace(RESULT, verdict=verdict, benchmarks=benchmarks))


def test_sentences() -> None:
    change = "+5.0 % time, +3.0 to +7.0"
    fine = raced("b", Change.NOT_SLOWER)
    assert (
        said(Change.SLOWER, raced("a", Change.SLOWER), fine)
        == f"1 of 2 benchmarks is surely more than 2 % slower: a ({change})."
    )
    many = said(Change.SLOWER, *(raced(f"t{n}", Change.SLOWER) for n in range(5)))
    assert many.startswith("5 of 5 benchmarks are")
    assert many.endswith("and 2 more.")
    assert said(Change.SLOWER, fine) == f"All benchmarks together are surely more than 2 % slower: {change}."
    assert said(Change.FASTER, fine).startswith("The head is surely faster")
    assert said(Change.NOT_SLOWER, fine) == "No benchmark is more than 2 % slower."
    noisy = raced("n", Change.TOO_NOISY, "it scatters")
    assert (
        said(Change.TOO_NOISY, noisy, fine) == f"1 of 2 benchmarks is not decided after 12 s: n ({change})."
    )
    lost = BenchmarkChange(name="x", verdict="no_base", why="the base does not run it: gone")
    assert said(Change.TOO_NOISY, lost) == "No benchmark was raced: the base does not run it: gone."
    assert said(Change.TOO_NOISY) == "No benchmark was raced: there is none."


@pytest.mark.parametrize("values", [[], [0.0], [log(1.05)] * 20])
def test_bounds_are_numbers_or_nothing(values: list[float]) -> None:
    speed = SpeedBounds.of(values)
    json.dumps([speed.estimate, speed.low, speed.high], allow_nan=False)
    if len(values) > 10:
        assert speed.low is not None
        assert speed.high is not None
        assert speed.low <= 1.05 <= speed.high
    assert bool(taken(speed)) == bool(values)


def test_time_that_is_added() -> None:
    assert (time_change(1 / 1.052), time_change(2.0), time_change(None)) == ("+5.2", "-50.0", "?")


def test_the_document_is_flat_where_it_is_read() -> None:
    noted = replace(
        RESULT,
        benchmarks=(raced("a", Change.SLOWER),),
        qualification=Qualification(planted=0.05, seconds=20.0),
    )
    found = json.loads(json.dumps(noted.document(), allow_nan=False))
    assert (found["verdict"], found["estimate"], found["max_regression"]) == ("slower", 1 / 1.05, 0.02)
    assert found["benchmarks"][0]["low"] == 1 / 1.07
    assert found["machine"]["load"] == [0.0, 0.0]
    assert found["qualification"] == {"planted": 0.05, "seconds": 20.0, "false_alarms": [], "tells": True}
    assert RESULT.document()["qualification"] is None


def test_a_machine_tells_what_it_finds_in_time_and_without_false_alarms() -> None:
    assert not Qualification(planted=0.05, seconds=None).tells
    assert not Qualification(planted=0.05, seconds=9.0, false_alarms=("total",)).tells


def test_the_load_is_a_number() -> None:
    assert load_now() >= 0
