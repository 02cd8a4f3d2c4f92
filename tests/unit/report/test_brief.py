"""The brief answer: never more than 4,000 bytes, the verdict and the next command always in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from result_strategies import run_results

from codeflash_parallel.report.brief import MOST_BYTES, brief, brief_candidate, cut
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, FirstDifference, RunFault, RunResult
from codeflash_parallel.result.safe_text import one_line


def candidate(name: str, status: CandidateStatus, code: Code, reason: str) -> CandidateResult:
    return CandidateResult(
        id=CandidateId(name), origin=CandidateOrigin.PATCH, status=status, code=code, reason=reason
    )


WON = candidate("quick", CandidateStatus.WON, Code.OK, "24x, confirmed.")
WRONG = candidate("wrong", CandidateStatus.REJECTED, Code.VALUE_DIFFERS, "f gives another value for 0.")


def run_of(*candidates: CandidateResult, **fields: object) -> RunResult:
    given = {
        "run_id": "r1",
        "complete": True,
        "verdict": Verdict.NOTHING_FASTER,
        "summary": "Nothing.",
        **fields,
    }
    return RunResult(candidates=candidates, **given)  # type: ignore[arg-type]


def test_a_winner_comes_with_its_reasons_and_the_command_that_applies_it() -> None:
    text = brief(run_of(WRONG, WON, verdict=Verdict.WINNER, winner=WON.id, summary="quick wins."))
    assert text == (
        "quick wins.\n"
        "- quick: won\n"
        "- wrong: rejected VALUE_DIFFERS, f gives another value for 0.\n"
        "next: codeflash-parallel apply r1\n"
    )


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({}, "show r1 --candidate wrong"),
        ({"complete": False}, "resume r1"),
        ({"error": RunFault(family="usage", code="X", message="No.", hint="Do this.")}, "Do this."),
    ],
)
def test_the_next_command_goes_with_the_outcome(fields: dict[str, object], command: str) -> None:
    assert brief(run_of(WRONG, **fields)).splitlines()[-1].endswith(command)


@pytest.mark.parametrize("count", [1, 40, 100, 2_000])
def test_many_candidates_with_long_reasons_fit(count: int) -> None:
    many = [
        candidate(f"candidate-{n}-é", CandidateStatus.REJECTED, Code.TESTS_FAILED, "😀 fails " * 200)
        for n in range(count)
    ]
    text = brief(run_of(*many, WON, verdict=Verdict.WINNER, winner=WON.id, summary="s" * 9_000))
    assert len(text.encode()) <= MOST_BYTES
    assert text.endswith("next: codeflash-parallel apply r1\n")
    assert "- quick: won" in text
    assert ("cut" in text) == (count >= 100)


@given(run_results())
def test_any_result_fits_and_is_printable(result: RunResult) -> None:
    text = brief(result)
    assert len(text.encode("utf-8", "replace")) <= MOST_BYTES
    assert all(one_line(line) == line for line in text.split("\n"))


@given(st.text(max_size=20), st.integers(0, 1_000), st.text())
def test_text_is_never_longer_than_the_limit(text: str, times: int, full: str) -> None:
    assert len(cut(text * times, full).encode()) <= MOST_BYTES


def test_text_is_cut_between_lines_and_one_long_line_inside() -> None:
    assert cut("one\n two\n", "show") == "one\n two\n"
    assert cut("é" * 100 + "\n" + "x" * 5_000, "show r1") == "é" * 100 + "\n... (cut; full: show r1)\n"
    text = cut("🙂" * 4_000, "show")
    assert text.startswith("🙂" * 900)
    assert text.endswith("\n... (cut; full: show)\n")


def test_one_candidate_shows_what_differs_before_its_diff_and_no_line_is_wrapped() -> None:
    long = "x" * 5_000
    difference = FirstDifference(
        target="m.py::f", test="tests/t.py::test_f", call=1, inputs=long, expected="1", got="2"
    )
    changed = "+" + "y" * 300
    text = brief_candidate(
        replace(WRONG, difference=difference, hints=("Look.",), diff=f"--- a\n{changed}\n")
    )
    assert len(text.encode()) <= MOST_BYTES
    assert changed in text.splitlines()
    assert text.index("expected: 1") < text.index("got: 2") < text.index("review (not rejected): Look.")
    assert text.index("Look.") < text.index("its changes:")


def test_of_one_that_may_be_applied_the_review_is_said() -> None:
    tied = replace(WON, status=CandidateStatus.TIED, hints=("f gives another value for [].",))
    assert "- quick: tied, review: f gives another value for []." in brief(run_of(tied))
