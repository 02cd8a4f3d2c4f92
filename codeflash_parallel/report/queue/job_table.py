"""The queue as a table that stays up to date, and the figures of its health."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from codeflash_parallel.queue.jobs import JobState, Priority
from codeflash_parallel.report.queue.queue_document import JOB_COLUMNS, JobView, job_row
from codeflash_parallel.result.safe_text import one_line, printable

STYLES = {
    JobState.QUEUED: "cyan",
    JobState.RUNNING: "bold",
    JobState.DONE: "green",
    JobState.CANCELLED: "dim",
    JobState.EXPIRED: "yellow",
    JobState.DROPPED: "yellow",
    JobState.DEAD: "bold red",
}

#: Lines of the terminal that a live table leaves free, so that it never scrolls.
_SPARE_LINES = 4


def jobs_table(views: Sequence[JobView], *, limit: int = 0) -> RenderableType:
    """Return the table of some jobs.

    Args:
        views: the jobs.
        limit: rows at most; 0: all.
    """
    rows = [job_row(view.job, view.place, view.age_s) for view in views]
    shown = [place for place, name in enumerate(JOB_COLUMNS) if _says_something(name, rows, place)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for place in shown:
        name = JOB_COLUMNS[place]
        table.add_column(name, overflow="fold", no_wrap=name in {"job", "state", "age"})
    for view, row in zip(views[:limit] if limit else views, rows, strict=False):
        styles = {"state": STYLES[view.job.state]}
        cells = (Text(one_line(row[place]), style=styles.get(JOB_COLUMNS[place], "")) for place in shown)
        table.add_row(*cells)
    if limit and len(views) > limit:
        table.add_row(Text(f"and {len(views) - limit} more", style="dim"))
    return table


def _says_something(name: str, rows: Sequence[Sequence[str]], place: int) -> bool:
    """Tell a column that is worth its room: runs and priorities are often all the same."""
    usual = {"run": {""}, "priority": {Priority.NORMAL.value}}
    return name not in usual or not {row[place] for row in rows} <= usual[name]


def figures_table(rows: Sequence[tuple[str, str]]) -> Table:
    """Return names and values, one pair a line."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column()
    grid.add_column(overflow="fold")  # of a path that is cut nobody can do anything with it
    for name, value in rows:
        grid.add_row(Text(name, style="dim"), Text(one_line(value)))
    return grid


def print_dead(views: Sequence[JobView], console: Console) -> None:
    """Print dead jobs with why they died and the end of what their last attempt printed."""
    if not views:
        console.print(Text("No job is dead."))
    for view in views:
        job = view.job
        failed = f"{job.crashes} crashes, {job.machinery_faults} faults of the machine"
        whose = one_line(f"{job.submitter}, {job.kind.value}, {failed}")
        console.print(Text.assemble((one_line(job.job_id), "bold red"), f"  {whose}"), soft_wrap=True)
        console.print(Text(f"  {one_line(job.fault)}"), soft_wrap=True)
        for line in printable(job.last_output).rstrip("\n").split("\n") if job.last_output else ():
            console.print(Text(f"  | {line}", style="dim"), soft_wrap=True)


def show_live(
    console: Console,
    look: Callable[[int], tuple[RenderableType, bool]],
    pause_s: float,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Keep a picture of the queue up to date until there is nothing more to see; the last one stays.

    Args:
        console: where to.
        look: returns the picture for so many rows, and whether it is the last one.
        pause_s: from one look to the next.
        sleep: spends it.
    """
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        while True:
            picture, is_last = look(max(3, console.height - _SPARE_LINES))
            live.update(Group(picture), refresh=True)
            if is_last:
                return
            sleep(pause_s)
