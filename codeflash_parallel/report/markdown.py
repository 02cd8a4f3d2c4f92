"""A short summary in Markdown, for pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from codeflash_parallel.report.columns import (
    COLUMNS,
    race_sentence,
    ranked,
    speedup_words,
    verdict_sentence,
)
from codeflash_parallel.report.timing_table import footer, machinery_rows, run_rows
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.safe_text import one_line, printable

#: Characters that Markdown or HTML would act on.
_ACTIVE = re.compile(r"([\\`*_{}\[\]()<>#+!|~&@])")

#: Lines of the winner's diff; more belong into a file.
_DIFF_LINES = 200


def markdown(result: RunResult, plot: str = "") -> str:
    """Return the verdict, the table, the reasons, the winner's diff, and how the time divides.

    Args:
        result: a run.
        plot: path of the plot of its speedups, as the text refers to it; empty: there is none.
    """
    parts = [f"**{escaped(verdict_sentence(result))}**"]
    if plot:
        address = quote(plot.encode("utf-8", "surrogateescape"))
        parts.append(f"![Speedups over the baseline: {escaped(speedup_words(result))}](<{address}>)")
    if result.candidates:
        parts += [_table(result), _reasons(result)]
    winner = result.candidate(result.winner) if result.winner is not None else None
    if winner is not None and winner.diff:
        parts.append(_diff(winner))
    parts.append("\n\n".join(map(escaped, filter(None, (race_sentence(result), footer(result))))))
    return "\n\n".join(part for part in parts if part) + "\n"


def timings_markdown(result: RunResult) -> str:
    """Return the table of steps, fork points of the checks, and slots; empty: nothing ran."""
    rows = run_rows(result)
    parts = [rows_of(rows[0], rows[1:], (n > 1 for n in range(len(rows[0]))))] if rows else []
    lines = [f"- {name}: {escaped(words)}" for name, words in machinery_rows(result)]
    return "".join(f"{part}\n\n" for part in [*parts, "\n".join(lines)] if part)[:-1]


def _table(result: RunResult) -> str:
    columns = [column for column in COLUMNS if not column.from_width]
    rows = [[column.cell(candidate) for column in columns] for candidate in ranked(result)]
    return rows_of([column.name for column in columns], rows, [column.is_figure for column in columns])


def rows_of(header: Sequence[str], rows: Iterable[Sequence[str]], figures: Iterable[bool]) -> str:
    """Return a table; figures are aligned to the right."""
    lines = [header, ["---:" if is_figure else "---" for is_figure in figures]]
    lines += [list(map(escaped, row)) for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _reasons(result: RunResult) -> str:
    others = [c for c in ranked(result) if not c.status.is_best]
    return "\n".join(f"- {escaped(candidate.id)}: {escaped(candidate.reason)}" for candidate in others)


def _diff(winner: CandidateResult) -> str:
    lines = printable(winner.diff).rstrip("\n").split("\n")
    shown = lines[:_DIFF_LINES]
    if len(lines) > len(shown):
        shown.append(f"... {len(lines) - len(shown)} more lines")
    text = "\n".join(shown)
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{fence}diff\n{text}\n{fence}"


def escaped(text: str) -> str:
    """Return text that Markdown shows and does not act on."""
    return _ACTIVE.sub(r"\\\1", one_line(text))
