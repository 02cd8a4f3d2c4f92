"""The summary for a pull request: nothing that a candidate wrote is acted on by Markdown."""

from __future__ import annotations

from codeflash_parallel.report.markdown import markdown, timings_markdown
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunResult


def text_of(verdict: Verdict, **fields) -> str:
    one = CandidateResult(id=CandidateId("a"), origin=CandidateOrigin.PATCH, **fields)
    winner = one.id if verdict is Verdict.WINNER else None
    return markdown(RunResult(run_id="r", complete=True, verdict=verdict, winner=winner, candidates=(one,)))


def won(diff: str = "") -> str:
    return text_of(Verdict.WINNER, status=CandidateStatus.WON, code=Code.OK, reason="So.", diff=diff)


def test_the_verdict_is_the_first_line() -> None:
    verdict, table = won().split("\n\n")[:2]
    assert verdict.startswith("**")
    assert table.startswith("| candidate |")


def test_reasons_are_shown_as_text() -> None:
    text = text_of(
        Verdict.NOTHING_FASTER,
        status=CandidateStatus.REJECTED,
        code=Code.TESTS_FAILED,
        reason="<script> @all `x` | *y*\nnext",
    )
    assert "- a: \\<script\\> \\@all \\`x\\` \\| \\*y\\*" in text
    assert "<script>" not in text.replace("\\<script\\>", "")


def test_a_diff_cannot_end_its_own_block() -> None:
    text = won(diff="+```\n+x\n")
    assert "````diff\n+```\n+x\n````" in text


def test_a_long_diff_is_shortened_and_says_so() -> None:
    text = won(diff="".join(f"+{n}\n" for n in range(450)))
    assert "+199\n... 250 more lines\n```" in text
    assert "+200\n" not in text


def test_a_run_in_which_nothing_ran_has_no_timings() -> None:
    run = RunResult(run_id="r", complete=False, verdict=Verdict.NOTHING_FASTER)
    assert timings_markdown(run) == ""
