"""How a run ends: whoever is equivalent never becomes `cancelled`, and the verdict says what was cut short."""

from __future__ import annotations

import pytest

from codeflash_parallel.race.race_result import RaceRanking, RankedCandidate
from codeflash_parallel.result.candidate_model import CandidateId, PatchText, Submission
from codeflash_parallel.result.events import Step
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import STEPS
from codeflash_parallel.run.ledger import Ledger
from codeflash_parallel.run.result_builder import conclusion, finish_all, sentence, summed
from codeflash_parallel.run.run_context import RaceFinding

TO_PASSED = (Step.PREPARE, Step.ENQUEUE, Step.STAGE, Step.PASS)


def ledger_of(**steps: tuple[Step, ...]) -> Ledger:
    ledger = Ledger("run")
    for name, walk in steps.items():
        entry = ledger.add(Submission(id=CandidateId(name), content=PatchText(patch="")))
        for step in walk:
            ledger.move(entry, step)
    return ledger


def ended(ledger: Ledger) -> dict[str, tuple[CandidateStatus, Code]]:
    return {entry.id: (entry.result.status, entry.result.code) for entry in ledger if entry.result}


def test_a_budget_that_ends_in_the_race_leaves_equivalent_candidates_undecided() -> None:
    ledger = ledger_of(racing=(*TO_PASSED, Step.RACE), passed=TO_PASSED, queued=(Step.PREPARE, Step.ENQUEUE))
    finish_all(ledger, RaceFinding(), with_race=True)
    assert ended(ledger) == {
        "racing": (CandidateStatus.UNDECIDED, Code.CANCELLED),
        "passed": (CandidateStatus.UNDECIDED, Code.CANCELLED),
        "queued": (CandidateStatus.CANCELLED, Code.CANCELLED),
    }
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=True)
    assert verdict is Verdict.TOO_NOISY
    assert "2 of 3" in summary


def test_a_race_that_was_not_held_leaves_what_was_checked() -> None:
    ledger = ledger_of(passed=TO_PASSED, first=(*TO_PASSED, Step.RACE))
    finding = RaceFinding(not_held="Another benchmark has had this machine for 1800 s.")
    finish_all(ledger, finding, with_race=True)
    assert {*ended(ledger).values()} == {(CandidateStatus.UNDECIDED, Code.RACE_NOT_HELD)}
    verdict, summary = conclusion(ledger, finding, with_race=True)
    assert verdict is Verdict.TOO_NOISY
    assert summary.endswith("the race was not held: another benchmark has had this machine for 1800 s.")


def test_a_later_race_that_was_not_held_does_not_take_back_what_the_first_said() -> None:
    ledger = ledger_of(first=(*TO_PASSED, Step.RACE, Step.MEASURE), refined=TO_PASSED)
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finding = RaceFinding(ranking=ranking, not_held="Another benchmark has had this machine.")
    finish_all(ledger, finding, with_race=True)
    assert ended(ledger) == {
        "first": (CandidateStatus.WON, Code.OK),
        "refined": (CandidateStatus.UNDECIDED, Code.RACE_NOT_HELD),
    }
    assert conclusion(ledger, finding, with_race=True) == (Verdict.WINNER, "first is faster.")


def test_a_check_leaves_equivalent_candidates_not_raced() -> None:
    ledger = ledger_of(passed=TO_PASSED)
    finish_all(ledger, RaceFinding(), with_race=False)
    assert ended(ledger) == {"passed": (CandidateStatus.UNDECIDED, Code.NOT_RACED)}
    assert conclusion(ledger, RaceFinding(), with_race=False)[0] is Verdict.CHECKED


def test_a_later_race_that_is_cut_short_does_not_take_back_what_the_first_said() -> None:
    ledger = ledger_of(
        first=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.RACE), refined=(*TO_PASSED, Step.RACE)
    )
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finding = RaceFinding(ranking=ranking)
    finish_all(ledger, finding, with_race=True)
    assert ended(ledger) == {
        "first": (CandidateStatus.WON, Code.OK),
        "refined": (CandidateStatus.UNDECIDED, Code.CANCELLED),
    }
    assert conclusion(ledger, finding, with_race=True) == (Verdict.WINNER, "first is faster.")


def test_a_budget_that_ends_in_the_clean_process_leaves_the_leader_undecided() -> None:
    ledger = ledger_of(leader=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.CONFIRM))
    finish_all(ledger, RaceFinding(), with_race=True)
    assert ended(ledger) == {"leader": (CandidateStatus.UNDECIDED, Code.CANCELLED)}
    assert conclusion(ledger, RaceFinding(), with_race=True)[0] is Verdict.TOO_NOISY


def test_a_second_look_that_is_cut_short_does_not_take_back_what_the_race_said() -> None:
    ledger = ledger_of(first=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.CONFIRM))
    won = RankedCandidate(id="first", status=CandidateStatus.WON, code=Code.OK, reason="2x, confirmed")
    ranking = RaceRanking(
        verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster."
    )
    finish_all(ledger, RaceFinding(ranking=ranking), with_race=True)
    assert ended(ledger) == {"first": (CandidateStatus.WON, Code.OK)}


def test_who_owes_tests_is_not_said_to_be_equivalent() -> None:
    ledger = ledger_of(owes=TO_PASSED, passed=TO_PASSED)
    ledger.get(CandidateId("owes")).owes_tests = True
    finish_all(ledger, RaceFinding(), with_race=False)
    assert ended(ledger) == {
        "owes": (CandidateStatus.CANCELLED, Code.CANCELLED),
        "passed": (CandidateStatus.UNDECIDED, Code.NOT_RACED),
    }


@pytest.mark.parametrize("with_race", [True, False])
def test_nobody_judged_is_no_verdict(with_race: bool) -> None:
    ledger = ledger_of(waits=(Step.PREPARE, Step.ENQUEUE), broken=(Step.PREPARE, Step.ENQUEUE))
    ledger.finish(ledger.get(CandidateId("broken")), CandidateStatus.INFRA, Code.INFRA_SLOT, "It broke.")
    finish_all(ledger, RaceFinding(), with_race=with_race)
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=with_race)
    assert (verdict, summary) == (None, "None of 2 candidates was judged: nothing is known of them.")


def test_some_wrong_and_others_not_judged_is_no_verdict() -> None:
    ledger = ledger_of(wrong=(Step.PREPARE, Step.ENQUEUE, Step.STAGE), waits=())
    ledger.finish(ledger.get(CandidateId("wrong")), CandidateStatus.REJECTED, Code.TESTS_FAILED, "It fails.")
    finish_all(ledger, RaceFinding(), with_race=False)
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=False)
    assert verdict is None
    assert summary.startswith("1 of 2 candidates were not judged; none of the 1 that were is")


def test_nothing_equivalent() -> None:
    ledger = ledger_of(broken=(Step.PREPARE,))
    ledger.finish(next(iter(ledger)), CandidateStatus.UNAPPLIABLE, Code.DOES_NOT_APPLY, "No.")
    finish_all(ledger, RaceFinding(), with_race=True)
    assert conclusion(ledger, RaceFinding(), with_race=True)[0] is Verdict.NONE_CORRECT


def test_clauses_become_sentences() -> None:
    assert [sentence(c) for c in ("", "beaten by b", "Done.")] == ["", "Beaten by b.", "Done."]


def test_a_run_sums_up_its_candidates() -> None:
    total = summed([{"queue": 1.0, "calls": 2.0}, {}, {"calls": 3.5}])
    assert tuple(total) == tuple(STEPS)
    assert summed([{}, {}]) == {}
    assert (total["queue"], total["calls"], total["other"]) == (1.0, 5.5, 0.0)
