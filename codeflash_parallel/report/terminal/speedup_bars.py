"""Speedups as bars on one axis: where each interval lies, and whether it leaves the baseline out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.columns import ranked
from codeflash_parallel.result.result_model import CandidateResult, RunResult, Speedup
from codeflash_parallel.result.safe_text import one_line

#: Columns that an axis needs to tell anything, and that it gets at most.
_NARROWEST, _WIDEST = 20, 60

_BASELINE = "baseline"

#: Columns of a name; longer ones are cut.
_NAME = 24

#: An interval is drawn as far as this many times the largest estimate, and an arrow says that it goes on: one
#: arm of which little is known must not press all others together.
_BEYOND = 2.0

#: The part of an axis that is left free on either side, so that nothing is drawn on its end.
_MARGIN = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class BarSymbols:
    """What bars are drawn with, a column each."""

    baseline: str
    crossing: str
    left: str
    right: str
    line: str
    point: str
    goes_on: tuple[str, str]


UNICODE = BarSymbols(baseline="│", crossing="┼", left="├", right="┤", line="─", point="●", goes_on=("◂", "▸"))
ASCII = BarSymbols(baseline="|", crossing="+", left="[", right="]", line="-", point="o", goes_on=("<", ">"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A logarithmic axis: twice as fast is as far to the right as half as fast is to the left.

    Attributes:
        low, high: speedups at its ends.
        width: columns.
    """

    low: float
    high: float
    width: int

    def column(self, speedup: float) -> int:
        """Return where a speedup is drawn; beyond an end, that end."""
        share = log(max(speedup, self.low) / self.low) / log(self.high / self.low)
        return min(self.width - 1, int(share * self.width))


def axis_of(speedups: Sequence[Speedup], width: int) -> Axis:
    """Return an axis that shows the baseline and every estimate, and intervals as far as they tell."""
    least = min(1.0, *(s.estimate for s in speedups)) / _BEYOND
    most = max(1.0, *(s.estimate for s in speedups)) * _BEYOND
    low = min(1.0, *(max(s.low, least) for s in speedups))
    high = max(1.0, *(min(s.high, most) for s in speedups))
    return Axis(low=low * (1 - _MARGIN), high=high * (1 + _MARGIN), width=width)


def bar(speedup: Speedup, axis: Axis, signs: BarSymbols) -> str:
    """Return one interval as a line of text, with the baseline's mark at 1."""
    cells = [" "] * axis.width
    first, last = axis.column(speedup.low), axis.column(speedup.high)
    cells[first : last + 1] = signs.line * (last + 1 - first)
    cells[first] = signs.left if speedup.low >= axis.low else signs.goes_on[0]
    cells[last] = signs.right if speedup.high <= axis.high else signs.goes_on[1]
    base = axis.column(1.0)
    cells[base] = signs.crossing if speedup.low <= 1 <= speedup.high else signs.baseline
    cells[axis.column(speedup.estimate)] = signs.point
    return "".join(cells)


def scale(axis: Axis, signs: BarSymbols) -> str:
    """Return the line above the bars: its ends in figures, and the baseline."""
    left, right = _end(axis.low), _end(axis.high)
    base = axis.column(1.0)
    cells = list(f"{left}{' ' * (axis.width - len(left) - len(right))}{right}")
    if len(left) < base < axis.width - len(right):
        cells[base] = signs.baseline
    return "".join(cells)


def _end(times: float) -> str:
    return f"{times:.2g}x" if times < 99.5 else f"{times:.0f}x"  # noqa: PLR2004 - no 1e+02


def bars(result: RunResult, width: int, *, ascii_only: bool) -> Table | None:
    """Return the bars of everybody who was timed, not of duplicates; `None`: nobody was, or there is no room.

    Args:
        result: a run.
        width: columns of the terminal.
        ascii_only: it cannot show more.
    """
    timed = [(c, c.speedup) for c in ranked(result) if c.speedup is not None and not c.duplicate_of]
    name = min(_NAME, max(len(_BASELINE), *(len(one_line(c.id)) for c, _ in timed), 0))
    room = min(_WIDEST, width - name - 2)
    if not timed or room < _NARROWEST:
        return None
    axis, signs = axis_of([s for _, s in timed], room), ASCII if ascii_only else UNICODE
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, max_width=_NAME, overflow="ellipsis")
    grid.add_column(no_wrap=True)
    grid.add_row(Text(_BASELINE, style="dim"), Text(scale(axis, signs), style="dim"))
    for candidate, speedup in timed:
        grid.add_row(_name(candidate), Text(bar(speedup, axis, signs), style=_style(speedup)))
    return grid


def _name(candidate: CandidateResult) -> Text:
    return Text(one_line(candidate.id, limit=_NAME))


def _style(speedup: Speedup) -> str:
    """Return a colour that repeats what the bar shows; figures for orientation are dim."""
    colour = "green" if speedup.low > 1 else "red" if speedup.high < 1 else "yellow"
    return colour if speedup.stage == "confirmation" else f"dim {colour}"
