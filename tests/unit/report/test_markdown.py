"""The summary for a pull request: nothing that a candidate wrote is acted on by Markdown."""

from __future__ import annotations

from codeflash_parallel.report.markdown import markdown, timings_markdown
from codeflash_parallel.result.candidate_model import CandidateId, CandidateOrigin
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import CandidateResult, RunResult


def winner(**more) -> RunResult:
    fields = {"status": CandidateStatus.WON, "code": Code.OK, "reason": "So."} | more
    one = CandidateResult(id=CandidateId("a"), origin=CandidateOrigin.PATCH, **fields)
    return RunResult(run_id="r", complete=True, verdict=Verdict.WINNER, winner=one.id, candidates=(one,))


def rejected(reason: str) -> RunResult:
    one = CandidateResult(
        id=CandidateId("a"),
        origin=CandidateOrigin.PATCH,
        status=CandidateStatus.REJECTED,
        code=Code.TESTS_FAILED,
        reason=reason,
    )
    return RunResult(run_id="r", complete=True, verdict=Verdict.NOTHING_FASTER, candidates=(one,))


def test_the_verdict_is_the_first_line() -> None:
    assert markdown(winner()).startswith("**")
    assert markdown(winner()).split("\n\n")[1].startswith("| candidate |")


def test_reasons_are_shown_as_text() -> None:
    text = markdown(rejected("<script> @all `x` | *y*\nnext"))
    assert "- a: \\<script\\> \\@all \\`x\\` \\| \\*y\\*" in text
    assert "<script>" not in text.replace("\\<script\\>", "")


def test_a_diff_cannot_end_its_own_block() -> None:
    text = markdown(winner(diff="+```\n+x\n"))
    assert "````diff\n+```\n+x\n````" in text


def test_a_long_diff_is_shortened_and_says_so() -> None:
    text = markdown(winner(diff="".join(f"+{n}\n" for n in range(450))))
    assert "+199\n... 250 more lines\n```" in text
    assert "+200\n" not in text


def test_a_run_in_which_nothing_ran_has_no_timings() -> None:
    run = RunResult(run_id="r", complete=False, verdict=Verdict.NOTHING_FASTER)
    assert timings_markdown(run) == ""
