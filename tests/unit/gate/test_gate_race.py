"""The look of a gate after a round, without a race."""

from __future__ import annotations

import pytest

from codeflash_parallel.gate.benchmark_trial import GateWork
from codeflash_parallel.gate.gate_race import HEAD, GateLook, gate_plan
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, CostGroup, RacePlan, RaceStage, WorkKind
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules

PLAN = RacePlan(groups=(CostGroup(name="a", ns=1),), layout_rounds=1)
STATE = InterimState(candidates=(HEAD,))


def rounds(factor: float, count: int) -> list[Round]:
    def timed(arm: str, ns: float) -> Block:
        return Block(arm=arm, kind=BlockKind.TIMED, calls=10, cpu_ns=int(ns), wall_ns=int(ns))

    blocks = tuple(
        timed(arm, 1e6 * (factor if arm == HEAD else 1)) for arm in (BASELINE, HEAD, HEAD, BASELINE)
    )
    return [Round(number=n, layout=n, core=0, blocks=blocks) for n in range(count)]


def looked(look: GateLook, factor: float) -> int:
    """Return after how many rounds all is decided."""
    found = rounds(factor, 40)
    return next(n for n in range(1, 41) if look(STATE, found[:n], PLAN, ()).decided)


@pytest.mark.parametrize(
    ("factor", "change"), [(1.0, Change.NOT_SLOWER), (1.2, Change.SLOWER), (0.8, Change.FASTER)]
)
def test_a_race_ends_as_soon_as_all_is_decided(factor: float, change: Change) -> None:
    look = GateLook(GateRules())
    after = looked(look, factor)
    assert 7 <= after <= 12
    assert look.decision is not None
    assert look.decision.verdict is change
    assert (look.names, look.layouts) == (("a",), after)


def test_a_planted_slowdown_is_found_in_what_was_measured() -> None:
    look = GateLook(GateRules(), planted=0.05)
    looked(look, 1.0)
    assert look.planted_s is not None
    assert look.alarms(look.lanes) == ()


def test_identical_arms_that_differ_are_alarms() -> None:
    look = GateLook(GateRules())
    looked(look, 1.2)
    assert look.alarms(look.lanes) == ("a", "total")


def test_a_head_that_is_out_ends_the_race() -> None:
    state = GateLook(GateRules())(STATE, rounds(1.0, 1), PLAN, {HEAD})
    assert (state.decided, state.standing(HEAD)) == (True, ArmStanding.OUT)


def test_the_second_baseline_races() -> None:
    plan = gate_plan(GateWork(kind=WorkKind.CALLABLE, names=()), 30, {3, 1})
    assert (plan.stage, plan.budget_ns, plan.cores) == (RaceStage.CONFIRMATION, 30_000_000_000, (1, 3))
