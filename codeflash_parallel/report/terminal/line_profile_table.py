"""Line profiles as tables: the winner's beside the baseline's where the terminal is wide enough."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from codeflash_parallel.report.phrases import duration, total_ns
from codeflash_parallel.result.result_model import LineProfile, LineTiming, RunResult
from codeflash_parallel.result.safe_text import one_line, printable

#: Columns from which on two profiles stand side by side; below, source lines would be cut too short.
SIDE_BY_SIDE = 118

#: A line that takes this share of the time is worth a look.
_HOT = 0.15

#: Lines of a profile that are shown unless everything is asked for; the hottest are kept.
_MAX_LINES = 40


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
    shown = _hottest(profile.lines, limit)
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


def _hottest(lines: Sequence[LineTiming], limit: int) -> list[LineTiming]:
    """Return at most `limit` lines (0: all) in their order, the coldest left out."""
    hottest = sorted(range(len(lines)), key=lambda place: -lines[place].time_ns)
    return [lines[place] for place in sorted(hottest[: limit or None])]
