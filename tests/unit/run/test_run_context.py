"""Findings of a run: leaders of its races, and time by phase."""

from __future__ import annotations

from typing import Any

from codeflash_parallel.race.race_result import RaceRanking
from codeflash_parallel.result.events import Event, PhaseStarted
from codeflash_parallel.result.outcome_codes import Verdict
from codeflash_parallel.run.ledger import Ledger
from codeflash_parallel.run.run_context import RaceFinding, RunFindings


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
