"""The result of a gate for people: text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from codeflash_parallel.gate.gate_result import BenchmarkChange, GateResult, time_change
from codeflash_parallel.race.statistics.slowdown_test import Change
from codeflash_parallel.report.markdown import escaped, rows_of
from codeflash_parallel.result.safe_text import one_line

_HEADER = ("benchmark", "verdict", "time", "from", "to")
#: The order of rows: what is to be looked at comes first.
_ORDER = (Change.SLOWER, "no_head", Change.TOO_NOISY, "no_base", Change.FASTER, Change.NOT_SLOWER)


def text(result: GateResult) -> str:
    """Return the verdict, the table of benchmarks, and what else should be known."""
    rows = [_HEADER, *map(_row, ranked(result))]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADER))]
    table = [
        "  ".join(
            cell.ljust(width) if place < _FIGURES else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    reasons = [f"- {one_line(one.name)}: {one_line(one.why)}" for one in ranked(result) if one.why]
    return "\n".join([headline(result), "", *table, "", *reasons, *_facts(result)]) + "\n"


#: Columns before the figures.
_FIGURES = 2


def markdown(result: GateResult) -> str:
    """Return the same for a pull request."""
    table = rows_of(_HEADER, map(_row, ranked(result)), [place >= _FIGURES for place in range(len(_HEADER))])
    reasons = [f"- {escaped(one.name)}: {escaped(one.why)}" for one in ranked(result) if one.why]
    facts = "\n\n".join(map(escaped, _facts(result)))
    parts = [f"**{escaped(headline(result))}**", table, "\n".join(reasons), facts]
    return "\n\n".join(filter(None, parts)) + "\n"


def headline(result: GateResult) -> str:
    """Return the verdict and why, one line."""
    return one_line(f"{result.verdict.replace('_', ' ')}: {result.why}")


def ranked(result: GateResult) -> Sequence[BenchmarkChange]:
    """Return the benchmarks, those that are to be looked at first."""
    return sorted(result.benchmarks, key=lambda one: _ORDER.index(one.verdict))


def _row(one: BenchmarkChange) -> tuple[str, ...]:
    figures = (one.speed.estimate, one.speed.high, one.speed.low)
    cells = ("" if figure is None else f"{time_change(figure)} %" for figure in figures)
    return (one_line(one.name), one.verdict.replace("_", " "), *cells)


def _facts(result: GateResult) -> list[str]:
    before, after = result.load
    sides = f"base {result.base[:12]} (the merge base), head {result.head[:12] or 'the working tree'}"
    null = "" if result.null_arm else "; at the end without a second baseline, for want of time"
    seconds = f"{result.rounds} rounds in {result.layouts} sets of processes, {result.seconds:.0f} s"
    machine = f"{result.cores} cores, load {before:.1f} to {after:.1f}"
    lines = [
        f"{sides}; {seconds} of {result.budget_s:.0f}; {machine}{null}.",
        "time: the head's against the base's; from, to: 95 % confidence.",
    ]
    if result.qualification is not None:
        lines.insert(0, qualification(result))
    return [*lines, *map(one_line, result.notes)]


def qualification(result: GateResult) -> str:
    """Return what a race of the base with itself says of this machine, a sentence or two."""
    found = result.qualification
    if found is None:
        return ""
    loss = f"{100 * found.planted:.0f} %"
    if found.seconds is None:
        said = f"This runner does not tell {loss} in {result.budget_s:.0f} s."
    else:
        said = f"This runner tells {loss} in {found.seconds:.0f} s (of {result.budget_s:.0f})."
    alarms = ", ".join(map(one_line, found.false_alarms)) or "none"
    return f"{said} False alarms of the base against itself: {alarms}."
