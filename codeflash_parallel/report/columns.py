"""Columns of the result table: one list for the terminal, Markdown and JUnit XML; JSON has the whole result.

A new column is one entry of `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.result_model import CandidateResult, RunResult, Speedup

#: Statuses in the order of tables, the best first, with their style on a terminal.
STYLES = {
    CandidateStatus.WON: "bold green",
    CandidateStatus.TIED: "green",
    CandidateStatus.LOST: "yellow",
    CandidateStatus.UNDECIDED: "cyan",
    CandidateStatus.REJECTED: "red",
    CandidateStatus.UNAPPLIABLE: "magenta",
    CandidateStatus.DUPLICATE: "dim",
    CandidateStatus.CANCELLED: "dim",
    CandidateStatus.INFRA: "bold magenta",
}

#: Columns of a terminal from which on the origin has a column of its own; else the reasons tell it.
WIDE = 110

#: What a cell says where there is nothing to say.
NOTHING = "-"


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of the result table.

    Attributes:
        name: its heading, and the name of JUnit's property.
        cell: a candidate's text in it; others wrote parts of it, so it is not printable yet.
        style: a candidate's style on a terminal.
        is_figure: it is aligned to the right.
        folds: it may take several lines where there is little room.
        from_width: columns of a terminal from which on it is shown; 0: always, and in Markdown.
    """

    name: str
    cell: Callable[[CandidateResult], str]
    style: Callable[[CandidateResult], str] = lambda _: ""
    is_figure: bool = False
    folds: bool = False
    from_width: int = 0


def ranked(result: RunResult) -> list[CandidateResult]:
    """Return the candidates in the order of a table: the best first, then as they came."""
    places = {status: place for place, status in enumerate(STYLES)}
    return sorted(
        result.candidates, key=lambda c: (places[c.status], -(c.speedup.estimate if c.speedup else 0))
    )


def verdict_cell(candidate: CandidateResult) -> str:
    """Return the status, and the code where it adds something."""
    return candidate.status if candidate.status.is_best else f"{candidate.status} {candidate.code}"


def speedup_cell(speedup: Speedup | None) -> str:
    """Return a speedup with its interval; figures of the race itself are for orientation and marked so."""
    if speedup is None:
        return NOTHING
    sign = "~" if speedup.stage == "race" else ""
    digits = digits_of(speedup.estimate)
    low, high = (f"{bound:.{digits}f}" for bound in (speedup.low, speedup.high))
    return f"{sign}{speedup.estimate:.{digits}f}x ({low}-{high})"


def digits_of(speedup: float) -> int:
    """Return decimals that show three significant digits of a speedup."""
    return 2 if speedup < 10 else 1 if speedup < 100 else 0  # noqa: PLR2004 - powers of ten


def origin_cell(candidate: CandidateResult) -> str:
    """Return where a candidate came from: its ancestors, the nearest first, or what it repeats."""
    if candidate.duplicate_of:
        return f"same as {candidate.duplicate_of}"
    descent = f" of {' < '.join(reversed(candidate.lineage))}" if candidate.lineage else ""
    return f"{candidate.origin}{descent}"


def _tests(candidate: CandidateResult) -> str:
    """Return how many of the expected tests pass."""
    tests = candidate.tests
    return f"{tests.passed}/{tests.expected}" if tests.expected else NOTHING


def _calls(candidate: CandidateResult) -> str:
    """Return how many of the compared calls are equal: captured ones, and those with derived inputs."""
    values = candidate.values
    compared = values.compared + values.derived
    equal = compared - values.differing - values.derived_differing
    return f"{equal}/{compared}" if compared else NOTHING


COLUMNS = (
    Column(
        name="candidate", cell=lambda c: c.id, style=lambda c: "bold" if c.status.is_best else "", folds=True
    ),
    Column(name="verdict", cell=verdict_cell, style=lambda c: STYLES[c.status], folds=True),
    Column(name="tests", cell=_tests, is_figure=True),
    Column(name="calls", cell=_calls, is_figure=True),
    Column(
        name="speedup",
        cell=lambda c: speedup_cell(c.speedup),
        style=lambda c: STYLES[c.status] if c.status.is_best else "",
    ),
    Column(name="from", cell=origin_cell, style=lambda _: "dim", folds=True, from_width=WIDE),
)
