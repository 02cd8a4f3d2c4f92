"""What later rounds of a run make of what earlier ones found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import CostGroup, RacePlan
from codeflash_parallel.race.race_result import Disqualification, Raced, RaceFailed
from codeflash_parallel.race.ranking.ranking_result import RaceRanking
from codeflash_parallel.race.statistics.log_ratios import ArmLogRatios
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, InterimState
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    CandidateOrigin,
    PatchText,
    Submission,
)
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import ValueCounts
from codeflash_parallel.run.race_phase.race_coordinator import RaceFinding, draws, kept, merits_of
from codeflash_parallel.run.state.ledger import Ledger

PLAN = RacePlan(groups=(CostGroup(name="all", ns=1),))
WRONG = Disqualification(status=CandidateStatus.REJECTED, code=Code.NOT_CONFIRMED, reason="wrong")


def raced(**standings: ArmStanding) -> Raced:
    track = ArmLogRatios(total=(0.1,) * 12, groups=((0.1,) * 12,), clock=DecidingClock.CPU)
    return Raced(
        plan=PLAN,
        candidates=tuple(standings),
        rounds=(),
        tracks=dict.fromkeys(standings, track),
        looks=InterimState(candidates=tuple(standings), standings=standings, decided=True),
        out={},
        wall_ns=1,
        round_ns=1,
        stopped="enough",
    )


def found(*confirmations: Raced, leaders: tuple[str, ...] = ("a",)) -> RaceFinding:
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner=leaders[0], tie_set=leaders, candidates=(), summary="a wins."
    )
    return RaceFinding(confirmations=confirmations, ranking=ranking)


CLAIM = raced(a=ArmStanding.FASTER)


def test_the_first_round_has_nothing_to_keep() -> None:
    assert kept(RaceFinding(), [raced(a=ArmStanding.FASTER)], []) == []


def test_a_race_that_leaves_a_winner_open_takes_nothing_back() -> None:
    before = found(CLAIM, raced(a=ArmStanding.OPEN))

    assert kept(before, [raced(a=ArmStanding.OPEN, r=ArmStanding.OPEN)], []) == [CLAIM]
    assert kept(before, [], [raced(a=ArmStanding.OPEN)]) == [CLAIM]
    assert kept(before, [], [RaceFailed(candidates=("a",), reason="It died.")]) == [CLAIM]


@pytest.mark.parametrize("standing", [ArmStanding.FASTER, ArmStanding.FUTILE, ArmStanding.REGRESSES])
def test_what_is_decided_anew_counts(standing: ArmStanding) -> None:
    assert kept(found(CLAIM), [], [raced(a=standing)]) == []


def test_who_is_found_out_keeps_nothing() -> None:
    both = raced(a=ArmStanding.FASTER, b=ArmStanding.FASTER)
    later = replace(raced(a=ArmStanding.OUT, b=ArmStanding.OPEN), out={"a": WRONG})

    assert kept(found(CLAIM), [later], []) == []
    (claim,) = kept(found(both, leaders=("a", "b")), [later], [])
    assert isinstance(claim, Raced)
    assert claim.out == {"a": WRONG}


def test_every_round_draws_anew_and_the_same_again() -> None:
    first, second, again = draws(7, 0), draws(7, 3), draws(7, 3)

    assert first.random() != (drawn := second.random())
    assert drawn == again.random()


def test_what_orders_a_tie_is_read_from_the_check() -> None:
    ledger = Ledger("run", lambda _event: None)
    entry = ledger.add(Submission(id=CandidateId("a"), content=PatchText(patch="")))
    entry.candidate = Candidate(
        id=entry.id, origin=CandidateOrigin.PATCH, edits=(), diff="--- a\n+++ b\n-old\n+new\n+more\n"
    )
    values = ValueCounts(compared=5, derived=7, outside=4, outside_differing=3)
    entry.outcome = CheckOutcome(
        code=Code.OK, reason="", values=values, hints=("It leaves its list sorted.",)
    )

    merit = merits_of(ledger)["a"]

    assert (merit.changed_lines, merit.inputs_equal) == (3, 13)
    assert merit.hints == ("It leaves its list sorted.",)
