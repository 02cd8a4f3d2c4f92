"""A leader that is wrong in a clean process leaves the ranking; the others are ranked by the same races."""

from __future__ import annotations

from ranking_cases import CONFIRM, PLAN, held

from codeflash_parallel.race.race_result import Disqualification, RaceFailed
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.ranking.confirmation_plan import contenders
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.run.race_phase.race_coordinator import without

TRUTH = {"fast": 1.5, "medium": 1.2, "same": 1.0}
WRONG = Disqualification(
    status=CandidateStatus.REJECTED, code=Code.DIFFERS_IN_CLEAN_PROCESS, reason="it differs"
)


def confirmed(races: list, confirmations: list) -> list:
    while ids := contenders(races, confirmations, PLAN, limit=4):
        confirmations.append(held({i: TRUTH[i] for i in ids}, CONFIRM, seed=len(confirmations)))
    return confirmations


def test_whoever_was_beaten_by_it_is_confirmed_in_its_place() -> None:
    races = [held(TRUTH)]
    confirmations = confirmed(races, [])
    assert rank(races, confirmations, PLAN, {}).winner == "fast"
    races, confirmations = without(races, {"fast": WRONG}), without(confirmations, {"fast": WRONG})
    ranking = rank(races, confirmed(races, confirmations), PLAN, {})
    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "medium")
    assert {r.id: (r.status, r.code) for r in ranking.candidates} == {
        "fast": (CandidateStatus.REJECTED, Code.DIFFERS_IN_CLEAN_PROCESS),
        "medium": (CandidateStatus.WON, Code.OK),
        "same": (CandidateStatus.LOST, Code.NOT_FASTER),
    }


def test_the_only_fast_one_leaves_nothing_faster() -> None:
    truth = {"fast": 1.5, "same": 1.0}
    races = [held(truth)]
    confirmations = [held({"fast": 1.5}, CONFIRM)]
    out = {"fast": WRONG}
    races, confirmations = without(races, out), without(confirmations, out)
    assert contenders(races, confirmations, PLAN, limit=4) == ()
    assert rank(races, confirmations, PLAN, {}).verdict is Verdict.NOTHING_FASTER


def test_what_was_measured_of_the_others_is_untouched() -> None:
    races = [held(TRUTH), RaceFailed(candidates=("fast",), reason="no")]
    left = without(races, {"fast": WRONG, "elsewhere": WRONG})
    assert left[1] is races[1]
    assert left[0].tracks == races[0].tracks
    assert left[0].looks == races[0].looks
    assert left[0].candidates == races[0].candidates
    assert left[0].out == {"fast": WRONG}
    assert without(races, {}) == races
