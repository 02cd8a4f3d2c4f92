"""The short text of a result: verdict, one line per candidate, next command."""

from __future__ import annotations

from collections.abc import Iterator

from codeflash_parallel.report.columns import ranked, verdict_cell, verdict_sentence
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.result.safe_text import one_line


def brief(result: RunResult) -> str:
    """Return the verdict, a line per candidate and the next command."""
    return "\n".join(_lines(result))


def _lines(result: RunResult) -> Iterator[str]:
    word = result.verdict.value.replace("_", " ") if result.verdict is not None else "incomplete"
    yield f"{word}: {verdict_sentence(result)}"
    for candidate in ranked(result):
        yield one_line(f"{candidate.id}  {verdict_cell(candidate)}: {candidate.reason}", limit=200)
    if result.winner is not None:
        yield f"Apply with: codeflash-parallel apply {one_line(result.run_id)}"
