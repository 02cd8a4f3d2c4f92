"""A candidate's time by step adds up to what it waited and what it held."""

from __future__ import annotations

from typing import Any

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.race.race_result import RaceRanking
from codeflash_parallel.result.events import Event, PhaseStarted
from codeflash_parallel.result.outcome_codes import Code, Verdict
from codeflash_parallel.result.result_model import STEPS
from codeflash_parallel.run.ledger import CandidateTimes, Ledger, RaceFinding, RunFindings, together

MS = 10**6


def outcome(tests_ns: int, **timings_ms: float) -> CheckOutcome:
    return CheckOutcome(code=Code.OK, reason="", tests_ns=tests_ns, timings_ms=timings_ms)


def test_what_no_step_claims_is_other() -> None:
    spent = CandidateTimes(queue_ns=5 * MS, held_ns=100 * MS, stage_ns=10 * MS)
    spent.add(outcome(20 * MS, start=15.0, calls=20.0))
    spent.add(outcome(30 * MS, calls=30.0, compare=5.0))
    steps = spent.by_step()
    assert tuple(steps) == tuple(STEPS)
    assert steps["other"] == pytest.approx(20.0)
    assert (steps["queue"], steps["stage"], steps["calls"]) == (5.0, 10.0, 50.0)
    assert sum(steps.values()) == pytest.approx(105.0)
    assert spent.tests_ns == 50 * MS


def test_a_wait_lasts_until_a_slot_is_there() -> None:
    spent = CandidateTimes(held_ns=MS)
    spent.begin_wait(10 * MS)
    spent.begin_wait(20 * MS)
    spent.end_wait(30 * MS)
    spent.begin_wait(50 * MS)
    spent.end_wait(51 * MS)
    assert spent.by_step()["queue"] == pytest.approx(21.0)


def test_what_a_check_calls_other_is_part_of_it() -> None:
    spent = CandidateTimes(held_ns=100 * MS)
    spent.add(outcome(0, other=40.0, calls=30.0))
    assert spent.by_step()["other"] == pytest.approx(70.0)


def test_steps_that_overlap_leave_nothing_below_zero() -> None:
    spent = CandidateTimes(held_ns=10 * MS)
    spent.add(outcome(0, calls=30.0))
    assert spent.by_step()["other"] == 0.0


def test_who_never_held_a_slot_has_no_steps() -> None:
    assert CandidateTimes(queue_ns=MS).by_step() == {}


def test_overhead_is_the_slot_without_tests_and_evidence() -> None:
    spent = CandidateTimes(held_ns=100 * MS, stage_ns=10 * MS)
    spent.add(outcome(20 * MS, calls=35.0, evidence=30.0))
    assert spent.overhead_ms == pytest.approx(50.0)
    assert CandidateTimes(held_ns=MS, tests_ns=2 * MS).overhead_ms == 0.0


def test_looks_around_a_race_add_to_waits_and_tests_and_are_a_step_of_their_own() -> None:
    check = CandidateTimes(queue_ns=5 * MS, held_ns=100 * MS, stage_ns=10 * MS)
    check.add(outcome(20 * MS, calls=20.0))
    looks = CandidateTimes(queue_ns=3 * MS, held_ns=600 * MS, stage_ns=10 * MS)
    looks.add(outcome(200 * MS, calls=200.0, start=50.0))
    steps = together(check.by_step(), looks.by_step())
    assert tuple(steps) == tuple(STEPS)
    assert (steps["queue"], steps["stage"], steps["calls"]) == (8.0, 10.0, 220.0)
    assert steps["confirm"] == pytest.approx(400.0)
    assert sum(steps.values()) == pytest.approx(708.0)
    assert together(check.by_step(), {}) == check.by_step()


def ranking(winner: str, *tie_set: str) -> RaceRanking:
    return RaceRanking(verdict=Verdict.WINNER, winner=winner, tie_set=tie_set, candidates=(), summary="")


def test_the_winner_or_the_tie_set_leads() -> None:
    assert RaceFinding().leaders == ()
    assert RaceFinding(ranking=ranking("")).leaders == ()
    assert RaceFinding(ranking=ranking("a")).leaders == ("a",)
    assert RaceFinding(ranking=ranking("a", "a", "b")).leaders == ("a", "b")


def test_a_phase_is_announced_and_the_time_until_its_end_is_its_own() -> None:
    events: list[Event] = []
    nothing: Any = None
    ledger = Ledger("run", [events.append])
    findings = RunFindings(run_id="run", seed=1, races=True, setup=nothing, ledger=ledger)
    for name in ("check", "race", "check"):
        with findings.phase(name, "detail"):
            pass
    assert [(e.phase, e.detail) for e in events if isinstance(e, PhaseStarted)] == [
        ("check", "detail"),
        ("race", "detail"),
        ("check", "detail"),
    ]
    assert findings.spent_ms.keys() == {"check", "race"}
    assert all(ms > 0 for ms in findings.spent_ms.values())


def test_what_is_waited_for_is_no_part_of_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr("codeflash_parallel.run.ledger.monotonic_ns", lambda: clock[0] * MS)
    nothing: Any = None
    findings = RunFindings(run_id="run", seed=1, races=True, setup=nothing, ledger=Ledger("run", []))
    findings._since_ns = 0
    steps = [(10, True), (15, False), (20, True)]
    with findings.phase("check"):
        for clock[0], now in steps:
            findings.waits(now=now)
        clock[0] = 30
    with findings.phase("race"):
        clock[0] = 34
        findings.waits(now=False)
        clock[0] = 40
    assert findings.spent_ms == {"check": 15.0, "waited": 19.0, "race": 6.0}
