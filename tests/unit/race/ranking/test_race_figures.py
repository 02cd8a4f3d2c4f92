from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.race.guards import cpu_per_call
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceFailed
from codeflash_parallel.race.ranking.race_figures import figures, summary
from codeflash_parallel.race.statistics.log_ratios import track
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1, twins=((0,),)),), budget_ns=30 * 10**9)
MS = 1_000_000
CALLS = 10


def block(arm: str, kind: BlockKind, ns: int, *, slowed: float = 1.0) -> Block:
    return Block(arm=arm, kind=kind, calls=CALLS, cpu_ns=ns, wall_ns=int(ns * slowed), digest="d")


def round_of(number: int, costs: dict[str, int], **more) -> Round:
    """Make a round in which twins cost a quarter more, and the wall clock shows a tenth more."""
    blocks = [block(arm, BlockKind.TWIN, ns * 5 // 4 + ns // 10 * (arm == "a")) for arm, ns in costs.items()]
    order = [BASELINE, *(arm for arm in costs if arm != BASELINE), BASELINE]
    blocks += [block(arm, BlockKind.TIMED, costs[arm], slowed=1.1) for arm in order]
    return Round(number=number, layout=0, core=0, blocks=tuple(blocks), **more)


def raced(costs: dict[str, int], plan: RacePlan = PLAN, count: int = 12, **more) -> Raced:
    arms = [arm for arm in costs if arm not in {BASELINE, NULL}]
    rounds = more.pop(
        "rounds", tuple(round_of(n, costs, peak_bytes={"a": 5, BASELINE: 3}) for n in range(count))
    )
    fields = {
        "plan": plan,
        "candidates": tuple(arms),
        "rounds": rounds,
        "tracks": {arm: track(rounds, arm, plan) for arm in costs if arm != BASELINE},
        "looks": InterimState(candidates=tuple(arms)),
        "out": {},
        "wall_ns": 2 * 10**9,
        "round_ns": 10**8,
        "stopped": "enough",
    }  # fmt: skip
    return Raced(**{**fields, **more})


def test_both_clocks_unseen_inputs_memory_and_throughput() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS})], "a")

    assert (found.stage, found.rounds, found.dropped, found.dropped_after) == ("race", 12, "", 0)
    for gain in (found.cpu, found.wall):
        assert gain.low <= gain.estimate <= gain.high
        assert gain.estimate == pytest.approx(2.0, rel=0.01)
    assert (found.cpu.clock, found.wall.clock) == ("cpu", "wall")
    assert (found.seen, found.unseen) == (pytest.approx(2.0), pytest.approx(2.5 / 1.35))
    assert (found.peak_bytes, found.baseline_peak_bytes) == (5, 3)
    assert found.calls_per_s == pytest.approx(CALLS / 0.0044)
    assert found.baseline_calls_per_s == pytest.approx(CALLS / 0.0088)


def test_the_last_race_counts_and_a_failed_one_tells_nothing() -> None:
    first = raced({BASELINE: 8 * MS, "a": 4 * MS})
    confirmation = raced({BASELINE: 8 * MS, "a": 5 * MS}, PLAN.confirmation(10**9))

    found = figures([first, RaceFailed(candidates=("a",), reason="so"), confirmation], "a")

    assert found.stage == "confirmation"
    assert found.cpu.estimate == pytest.approx(1.6, rel=0.01)
    assert figures([first], "b") is None
    assert figures([RaceFailed(candidates=("a",), reason="so")], "a") is None


def test_why_and_when_an_arm_was_dropped() -> None:
    looks = InterimState(candidates=("a",), standings={"a": ArmStanding.BEATEN}, dropped_after={"a": 7})
    beaten = raced({BASELINE: 8 * MS, "a": 8 * MS}, looks=looks)
    wrong = Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="it differs")

    found = figures([beaten], "a")

    assert (found.dropped, found.dropped_after) == ("another candidate is faster", 7)
    assert figures([replace(beaten, out={"a": wrong})], "a").dropped == "it differs"


def test_cpu_time_of_children_is_quoted_where_they_work() -> None:
    """On the clocks of its blocks it uses next to nothing."""
    children = {"a": 30 * 8 * MS}
    rounds = [round_of(n, {BASELINE: 8 * MS, "a": MS // 100}, children_ns=children) for n in range(12)]
    found = figures([raced({BASELINE: 8 * MS, "a": MS // 100}, rounds=tuple(rounds))], "a")

    assert found.cpu.high < 1
    assert found.cpu.estimate == pytest.approx(
        cpu_per_call(rounds[0], BASELINE) / cpu_per_call(rounds[0], "a")
    )
    assert found.wall.low > 2


def test_a_callable_has_a_throughput_as_calls_have() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, work=WorkKind.CALLABLE))], "a")
    assert found.calls_per_s == pytest.approx(CALLS / 0.0044)


def test_throughput_is_that_of_a_pass_over_all_calls() -> None:
    """One call of 99 ms and nine of 1 ms: ten calls in 108 ms, however many blocks each group has."""
    heavy, light = (
        CostGroup(name="heavy", ns=99, calls=(0,)),
        CostGroup(name="light", ns=9, calls=tuple(range(1, 10))),
    )
    plan, costs = replace(PLAN, groups=(heavy, light)), (99 * MS, MS)
    blocks = [
        replace(block(arm, BlockKind.TIMED, ns * CALLS), group=group)
        for group, ns in enumerate(costs)
        for arm in (BASELINE, "a", BASELINE)
    ]
    rounds = tuple(Round(number=n, layout=0, core=0, blocks=tuple(blocks)) for n in range(12))

    found = figures([raced({BASELINE: 1, "a": 1}, plan, rounds=rounds)], "a")

    assert found.calls_per_s == found.baseline_calls_per_s == pytest.approx(10 / 0.108)


def test_whole_tests_have_no_throughput() -> None:
    found = figures([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, work=WorkKind.TESTS))], "a")
    assert found.calls_per_s is None
    assert found.baseline_calls_per_s is None


def test_the_races_of_a_run_in_sum() -> None:
    costs = {BASELINE: 8 * MS, NULL: 8 * MS, "a": 4 * MS}
    rounds = (*(round_of(n, costs) for n in range(12)), round_of(12, costs, void="suspended"))

    found = summary([raced(costs, rounds=rounds), raced(costs), RaceFailed(candidates=("a",), reason="so")])

    assert (found["rounds"], found["void"], found["seconds"], found["budget_s"]) == (25, 1, 4.0, 30.0)
    assert found["workload"] == "calls"
    assert found["unit_sd"] == pytest.approx(0.0, abs=1e-9)
    assert found["groups"] == [{"group": "all", "share": 1.0, "tests": []}]
    assert summary([]) == {}


def test_what_stands_behind_the_names_of_groups() -> None:
    light = tuple(f"t.py::light[{n}]" for n in range(60))
    groups = (
        CostGroup(name="t.py::heavy", ns=3, tests=("t.py::heavy",)),
        CostGroup(name="60 tests", ns=1, tests=light),
    )

    found = summary([raced({BASELINE: 8 * MS, "a": 4 * MS}, replace(PLAN, groups=groups), rounds=())])[
        "groups"
    ]

    assert [(one["group"], one["share"]) for one in found] == [("t.py::heavy", 0.75), ("60 tests", 0.25)]
    assert found[1]["tests"] == list(light[:50])
