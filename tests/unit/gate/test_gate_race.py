"""The look of a gate after a round, without a race."""

from __future__ import annotations

import pytest

from codeflash_parallel.gate.benchmark_trial import GateWork
from codeflash_parallel.gate.gate_race import HEAD, GateLook, gate_plan, why_void
from codeflash_parallel.race.measurement import Block, BlockKind, Round
from codeflash_parallel.race.plan import BASELINE, NULL, CostGroup, RacePlan, RaceStage, WorkKind
from codeflash_parallel.race.race_result import Disqualification, Raced
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code

PLAN = RacePlan(groups=(CostGroup(name="a", ns=1),), layout_rounds=1)
STATE = InterimState(candidates=(HEAD,))


def rounds(factor: float, count: int, arm: str = HEAD) -> list[Round]:
    def timed(name: str, ns: float) -> Block:
        return Block(arm=name, kind=BlockKind.TIMED, calls=10, cpu_ns=int(ns), wall_ns=int(ns))

    order = (BASELINE, NULL, HEAD, HEAD, NULL, BASELINE)
    blocks = tuple(timed(name, 1e6 * (factor if name == arm else 1)) for name in order)
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


def raced(found: list[Round], *, lost: Code | None = None) -> Raced:
    status = CandidateStatus.UNDECIDED
    out = {HEAD: Disqualification(status=status, code=lost, reason="it died")} if lost else {}
    return Raced(
        plan=PLAN,
        candidates=(HEAD,),
        rounds=tuple(found),
        tracks={},
        looks=STATE,
        out=out,
        wall_ns=1,
        round_ns=1,
        stopped="the race was not begun",
    )


def test_a_race_in_which_the_base_differs_from_itself_is_void() -> None:
    void = "The race does not count: the base differs from itself (a, total)."
    for arm, expected in ((NULL, void), (HEAD, "")):
        look, found = GateLook(GateRules()), rounds(1.2, 30, arm)
        look(STATE, found, PLAN, ())
        assert why_void(look, raced(found)) == expected


def test_so_is_one_in_which_nothing_was_measured_or_the_head_died() -> None:
    look = GateLook(GateRules())
    assert why_void(look, raced([])) == "Nothing was measured: the race was not begun."
    assert why_void(look, raced([], lost=Code.NOT_CONFIRMED)) == "The head could not be timed: it died."
    assert why_void(look, raced([], lost=Code.NOT_FASTER)) == ""


def test_the_second_baseline_races() -> None:
    plan = gate_plan(GateWork(kind=WorkKind.CALLABLE, names=()), 30, {3, 1})
    assert (plan.stage, plan.budget_ns, plan.cores) == (RaceStage.CONFIRMATION, 30_000_000_000, (1, 3))
