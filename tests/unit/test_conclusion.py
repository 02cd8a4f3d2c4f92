"""How a run ends: whoever is equivalent never becomes `cancelled`, and the verdict says what was cut short."""

from __future__ import annotations

from codeflash_parallel.benchmark.rank import Ranked, Ranking
from codeflash_parallel.engine.conclusion import conclusion, finish_all, sentence
from codeflash_parallel.engine.ledger import Ledger
from codeflash_parallel.engine.race_phase import RaceFinding
from codeflash_parallel.model.candidate import CandidateId, PatchText, Submission
from codeflash_parallel.model.lifecycle import Step
from codeflash_parallel.model.outcome import Code, Status, Verdict

TO_PASSED = (Step.PREPARE, Step.ENQUEUE, Step.STAGE, Step.PASS)


def ledger_of(**steps: tuple[Step, ...]) -> Ledger:
    ledger = Ledger("run", lambda _event: None)
    for name, walk in steps.items():
        entry = ledger.add(Submission(id=CandidateId(name), content=PatchText(patch="")))
        for step in walk:
            ledger.move(entry, step)
    return ledger


def ended(ledger: Ledger) -> dict[str, tuple[Status, Code]]:
    return {entry.id: (entry.result.status, entry.result.code) for entry in ledger if entry.result}


def test_a_budget_that_ends_in_the_race_leaves_equivalent_candidates_undecided() -> None:
    ledger = ledger_of(racing=(*TO_PASSED, Step.RACE), passed=TO_PASSED, queued=(Step.PREPARE, Step.ENQUEUE))
    finish_all(ledger, RaceFinding(), with_race=True)
    assert ended(ledger) == {
        "racing": (Status.UNDECIDED, Code.CANCELLED),
        "passed": (Status.UNDECIDED, Code.CANCELLED),
        "queued": (Status.CANCELLED, Code.CANCELLED),
    }
    verdict, summary = conclusion(ledger, RaceFinding(), with_race=True)
    assert verdict is Verdict.TOO_NOISY
    assert "2 of 3" in summary


def test_a_check_leaves_equivalent_candidates_not_raced() -> None:
    ledger = ledger_of(passed=TO_PASSED)
    finish_all(ledger, RaceFinding(), with_race=False)
    assert ended(ledger) == {"passed": (Status.UNDECIDED, Code.NOT_RACED)}
    assert conclusion(ledger, RaceFinding(), with_race=False)[0] is Verdict.NOTHING_FASTER


def test_a_later_race_that_is_cut_short_does_not_take_back_what_the_first_said() -> None:
    ledger = ledger_of(
        first=(*TO_PASSED, Step.RACE, Step.MEASURE, Step.RACE), refined=(*TO_PASSED, Step.RACE)
    )
    won = Ranked(id="first", status=Status.WON, code=Code.OK, reason="2x, confirmed")
    ranking = Ranking(verdict=Verdict.WINNER, winner="first", candidates=(won,), summary="first is faster.")
    finding = RaceFinding(ranking=ranking)
    finish_all(ledger, finding, with_race=True)
    assert ended(ledger) == {
        "first": (Status.WON, Code.OK),
        "refined": (Status.UNDECIDED, Code.CANCELLED),
    }
    assert conclusion(ledger, finding, with_race=True) == (Verdict.WINNER, "first is faster.")


def test_nothing_equivalent() -> None:
    ledger = ledger_of(broken=(Step.PREPARE,))
    ledger.finish(next(iter(ledger)), Status.UNAPPLIABLE, Code.DOES_NOT_APPLY, "No.")
    finish_all(ledger, RaceFinding(), with_race=True)
    assert conclusion(ledger, RaceFinding(), with_race=True)[0] is Verdict.NONE_CORRECT


def test_clauses_become_sentences() -> None:
    assert [sentence(c) for c in ("", "beaten by b", "Done.")] == ["", "Beaten by b.", "Done."]
