"""Time of a run: the table of steps, fork points of the checks, slots and servers, and the footer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from codeflash_parallel.result.result_model import STEPS, CandidateResult, HostUse, RunResult
from codeflash_parallel.result.safe_text import one_line

#: Steps that most runs do not have: without any time in them they get no column.
_RARE = frozenset({"evidence", "confirm"})

#: Headings: no step has more than five characters.
_SHORT = {"import": "imp.", "collect": "coll.", "evidence": "evid.", "compare": "comp.", "confirm": "conf."}

#: Columns that a name gets at most where it stands beside a reason.
_NAME = 30

#: Below this many milliseconds the first decimal is shown.
_PRECISE_MS = 9.95

#: What would be shown as 0.0.
_NOTHING_MS = 0.05

_MIB = 2**20


def footer(result: RunResult) -> str:
    """Return how the time that slots were held divides into tests and overhead; empty when nothing ran."""
    steps = _steps(result.steps_ms)
    held = sum(steps.values()) - steps["queue"]
    if held < _NOTHING_MS:
        return ""
    tests = round(100 * (steps["calls"] / held))
    return f"tests {tests} %, overhead {100 - tests} %"


def isolation_words(result: RunResult) -> str:
    """Return the isolation level that was in force, and what was asked for if it was something else."""
    asked = result.isolation_requested
    return result.isolation if asked == result.isolation else f"{result.isolation} ({asked})"


def timing_rows(candidates: Sequence[CandidateResult]) -> list[list[str]]:
    """Return headings, and a row for each candidate that held a slot: name, served, steps and total, in ms.

    A step that few runs have gets a column where a candidate spent time in it. Empty where none held a slot.
    """
    spent = [(c, steps) for c in candidates if any((steps := _steps(c.timings_ms)).values())]
    if not spent:
        return []
    names = [step for step in STEPS if step not in _RARE or any(steps[step] for _, steps in spent)]
    rows = [_row(c.id, c.served, steps, names) for c, steps in spent]
    return [["candidate", "served", *names, "total"], *rows]


def run_rows(result: RunResult) -> list[list[str]]:
    """Return the rows of a run's candidates, and one of all together; empty where none held a slot."""
    rows = timing_rows(result.candidates)
    return [*rows, _row("all", "", _steps(result.steps_ms), rows[0][2:-1])] if rows else []


def machinery_rows(result: RunResult) -> list[tuple[str, str]]:
    """Return phases of the run, fork points of the checks, slots and warm servers: a name and words each."""
    return [
        *_phases(result.timings),
        *_served(result.candidates),
        *_slots(result.slots),
        *_servers(result.warm),
    ]


def served_by_candidate(candidates: Sequence[CandidateResult]) -> RenderableType | None:
    """Return where the checks of each candidate began, and why not further on; `None`: none was checked."""
    rows = [(c.id, c.served, c.served_why) for c in candidates if c.served]
    return (
        _grid(rows, ("candidate", "served", "why" if any(row[2] for row in rows) else "")) if rows else None
    )


def run_timings(result: RunResult) -> Iterator[RenderableType]:
    """Yield everything about a run's time."""
    if rows := run_rows(result):
        yield _table(rows, last_style="bold")
    if machinery := machinery_rows(result):
        yield _grid(machinery)


def candidate_timings(candidate: CandidateResult) -> Iterator[RenderableType]:
    """Yield where the time of one candidate went; nothing when it never held a slot."""
    if rows := timing_rows([candidate]):
        yield _table(rows)


def _table(rows: Sequence[Sequence[str]], last_style: str = "") -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    _, served, *figures = rows[0]
    table.add_column("name", overflow="fold", min_width=6)
    table.add_column(served, no_wrap=True)
    for figure in figures:
        table.add_column(_SHORT.get(figure, figure), justify="right", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*map(Text, row), style=last_style if row is rows[-1] else "")
    table.caption = Text("milliseconds; total: the wait for a slot and the time it was held", style="dim")
    table.caption_justify = "left"
    return table


def _grid(rows: Sequence[Sequence[str]], header: Sequence[str] = ()) -> Table:
    """Return rows of text; a name gets no more room than it should, the last column is folded."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=bool(header))
    last = len(rows[0]) - 1
    for place, name in enumerate(header or [""] * len(rows[0])):
        grid.add_column(name, overflow="fold", max_width=None if place == last else _NAME)
    for row in rows:
        grid.add_row(*(Text(one_line(cell)) for cell in row))
    return grid


def _row(name: str, served: str, steps: Mapping[str, float], shown: Sequence[str]) -> list[str]:
    figures = [*(steps[step] for step in shown), sum(steps.values())]
    return [one_line(name), one_line(served), *map(_figure, figures)]


def _steps(timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Return every step; one that is absent took no time."""
    return {step: timings_ms.get(step, 0.0) for step in STEPS}


def _figure(milliseconds: float) -> str:
    if milliseconds < _NOTHING_MS:
        return "-"
    return f"{milliseconds:.1f}" if milliseconds < _PRECISE_MS else f"{milliseconds:.0f}"


def _phases(timings: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    if timings:
        yield "seconds", ", ".join(f"{one_line(name)} {ms / 1e3:.1f}" for name, ms in timings.items())


def _served(candidates: Sequence[CandidateResult]) -> Iterator[tuple[str, str]]:
    """Yield how many candidates were served from where, and why; each distinct reason comes once."""
    counts = Counter((one_line(c.served), one_line(c.served_why)) for c in candidates if c.served)
    # By the alphabet, the point that is furthest on comes first, too.
    for (point, why), count in sorted(counts.items(), key=lambda i: (i[0][0], -i[1], i[0][1])):
        yield "served", f"{point} ({count})" + (f": {why}" if why else "")


def _slots(slots: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if slots:
        size = f"{slots.get('bytes', 0) / _MIB:.1f} MiB and {slots.get('inodes', 0)} inodes"
        yield "slots", one_line(f"{slots.get('kind', '')}, each {size}")


def _servers(warm: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if warm:
        counts = [f"{name} {warm.get(name, 0)}" for name in ("forks", "restarts")]
        yield "servers", ", ".join([str(warm.get("servers", 0)), *counts])
        yield from (("unfit", one_line(why)) for why in warm.get("unfit", ()))


def host_words(use: HostUse) -> str:
    """Return what a host has done, one line."""
    done = (
        [f"{len(use.checked)} checked in {use.shards} job{'' if use.shards == 1 else 's'}"]
        if use.checked
        else []
    )
    done += ["held the race"] if use.raced else []
    done += [use.environment] if use.environment else []
    done += [f"left out: {one_line(use.left_out)}"] if use.left_out else []
    return f"Host {one_line(use.host)}: {'; '.join(done)}"
