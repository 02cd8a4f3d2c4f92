"""Charts of the end report: speedups as bars on one axis, and line profiles as tables."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from math import log

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.columns import duration, timed_candidates, total_ns
from codeflash_parallel.result.result_model import LineProfile, LineTiming, RunResult, Speedup
from codeflash_parallel.result.safe_text import one_line, printable

#: Columns that an axis needs to tell anything, and that it gets at most.
_NARROWEST, _WIDEST = 20, 60

_BASELINE = "baseline"

#: Columns of a name; longer ones are cut.
_NAME = 24

#: An interval is drawn as far as this many times the largest estimate, and an arrow says that it goes on: one
#: arm of which little is known must not press all others together.
_BEYOND = 2.0

#: Columns from which on two profiles stand side by side; below, source lines would be cut too short.
SIDE_BY_SIDE = 118

#: A line that takes this share of the time is worth a look.
_HOT = 0.15

#: Lines of a profile that are shown unless everything is asked for; the hottest are kept.
_MAX_LINES = 40


# --- bars ------------------------------------------------------------------------------------------------


def bars(result: RunResult, width: int) -> Table | None:
    """Return a bar for each candidate that was timed, not for duplicates; `None`: none, or there is no room.

    Args:
        result: a run.
        width: columns of the terminal.
    """
    timed = [(c.id, c.speedup) for c in timed_candidates(result) if c.speedup is not None]
    name = min(_NAME, max(len(_BASELINE), *(len(one_line(id_)) for id_, _ in timed), 0))
    room = min(_WIDEST, width - name - 2)
    if not timed or room < _NARROWEST:
        return None
    axis = axis_of([speedup for _, speedup in timed])
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, max_width=_NAME, overflow="ellipsis")
    grid.add_column(no_wrap=True)
    left, right = (f"{end:.2g}x" if end < 99.5 else f"{end:.0f}x" for end in axis)  # noqa: PLR2004 - no 1e+02
    ends = f"{left}{' ' * (room - len(left) - len(right))}{right}"
    grid.add_row(Text(_BASELINE, style="dim"), Text(ends, style="dim"))
    for id_, speedup in timed:
        colour = "green" if speedup.low > 1 else "red" if speedup.high < 1 else "yellow"
        style = colour if speedup.stage == "confirmation" else f"dim {colour}"
        grid.add_row(Text(one_line(id_, limit=_NAME)), Text(bar(speedup, axis, room), style=style))
    return grid


def axis_of(speedups: Sequence[Speedup]) -> tuple[float, float]:
    """Return the ends of an axis that has the baseline, every estimate, and intervals as far as they tell."""
    least = min(1.0, *(s.estimate for s in speedups)) / _BEYOND
    most = max(1.0, *(s.estimate for s in speedups)) * _BEYOND
    low = min(1.0, *(max(s.low, least) for s in speedups))
    high = max(1.0, *(min(s.high, most) for s in speedups))
    return low * 0.98, high * 1.02  # nothing is drawn on an end


def bar(speedup: Speedup, axis: tuple[float, float], width: int) -> str:
    """Return one interval as a line of text on a logarithmic axis, with the baseline's mark at 1."""
    low, high = axis

    def column(times: float) -> int:
        return min(width - 1, int(log(max(times, low) / low) / log(high / low) * width))

    cells = [" "] * width
    first, last = column(speedup.low), column(speedup.high)
    cells[first : last + 1] = "-" * (last + 1 - first)
    cells[first] = "[" if speedup.low >= low else "<"
    cells[last] = "]" if speedup.high <= high else ">"
    cells[column(1.0)] = "+" if speedup.low <= 1 <= speedup.high else "|"
    cells[column(speedup.estimate)] = "o"
    return "".join(cells)


# --- line profiles ---------------------------------------------------------------------------------------


def profiles(result: RunResult, width: int, *, shortened: bool) -> RenderableType | None:
    """Return both profiles, laid out for a width; `None` when there are none.

    Args:
        result: of the run.
        width: columns of the terminal.
        shortened: only the hottest lines.
    """
    named = (("baseline", result.baseline_profile), (str(result.winner), result.winner_profile))
    limit = _MAX_LINES if shortened else 0
    tables = [
        _table(name, profile, limit) for name, profile in named if profile is not None and profile.lines
    ]
    if not tables:
        return None
    if width >= SIDE_BY_SIDE and len(tables) > 1:
        grid = Table.grid(expand=True, padding=(0, 2))
        for _ in tables:
            grid.add_column(ratio=1)
        grid.add_row(*tables)
        return grid
    return Group(*[part for table in tables for part in ("", table)][1:])


def _table(name: str, profile: LineProfile, limit: int) -> Table:
    total = total_ns(profile) or 1
    title = Text.assemble(
        (one_line(name, limit=40), "bold"), f"  {duration(total)}, {one_line(profile.tracer)}"
    )
    table = Table(
        title=title, title_justify="left", box=None, pad_edge=False, expand=True, header_style="dim"
    )
    table.add_column("line", justify="right", style="dim", no_wrap=True)
    table.add_column("hits", justify="right", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("%", justify="right", no_wrap=True)
    table.add_column("source", ratio=1, no_wrap=True, overflow="ellipsis")
    shown = hottest(profile.lines, limit)
    sources = textwrap.dedent("\n".join(_source(line.text) for line in shown)).split("\n")
    for line, source in zip(shown, sources, strict=True):
        table.add_row(*_row(line, source, total))
    if len(shown) < len(profile.lines):
        table.add_row(
            "", "", "", "", Text(f"... {len(profile.lines) - len(shown)} colder lines", style="dim")
        )
    return table


def _row(line: LineTiming, source: str, total: int) -> tuple[Text, ...]:
    share = line.time_ns / total
    style = "bold red" if share >= 2 * _HOT else "yellow" if share >= _HOT else ""
    if not line.hits:
        return Text(str(line.line)), Text(""), Text(""), Text(""), Text(source, style="dim")
    figures = (str(line.line), f"{line.hits:,}", duration(line.time_ns), f"{100 * share:.0f}", source)
    return tuple(Text(figure, style=style if place else "") for place, figure in enumerate(figures))


def _source(text: str) -> str:
    """Return a line of source, printable and with its indentation."""
    return printable(text).replace("\n", " ").rstrip()


def hottest(lines: Sequence[LineTiming], limit: int) -> list[LineTiming]:
    """Return at most `limit` lines (0: all) in their order, the coldest left out."""
    hottest = sorted(range(len(lines)), key=lambda place: -lines[place].time_ns)
    return [lines[place] for place in sorted(hottest[: limit or None])]
