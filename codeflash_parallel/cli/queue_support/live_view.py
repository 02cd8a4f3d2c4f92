"""Pictures of the queue: shown once, or kept up to date."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel.cli.exit_codes import SignalInterrupt, handling_signals
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.report.queue.health import health_document, health_rows
from codeflash_parallel.report.queue.json_document import JobView, queue_document
from codeflash_parallel.report.queue.phrases import OPEN

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codeflash_parallel.queue.client.sync_client import EvalQueueClient
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo
    from codeflash_parallel.queue.metrics import QueueHealth

#: Seconds from one look to the next; a view is read by people.
PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueView:
    """What is shown: some jobs, and perhaps the figures of the whole queue."""

    views: Sequence[JobView]
    health: QueueHealth | None = None


def show(
    args: argparse.Namespace, output: Output, client: EvalQueueClient, look: Callable[[], QueueView]
) -> None:
    """Show a picture; with `--watch` again and again, until all jobs named are final or a signal comes.

    Args:
        args: with `watch`.
        output: where to.
        client: knows whether there is a daemon.
        look: makes a picture.
    """
    if not args.watch:
        _write(output, look(), client.daemon)
        return
    if output.form == Format.JSON:
        output.form = Format.JSONL  # several pictures, one a line
    with handling_signals(output):
        try:
            _watch(output, client, look, ends=bool(getattr(args, "jobs", ())))
        except SignalInterrupt:
            return  # it was asked to stay until then


def _write(output: Output, picture: QueueView, daemon: DaemonInfo | None) -> None:
    if output.form == Format.TEXT:
        output.write_report(lambda stream: _print(picture, daemon, stream))
    else:
        output.write_values(_document(picture, daemon))


def _document(picture: QueueView, daemon: DaemonInfo | None) -> Mapping[str, Any]:
    health = None if picture.health is None else health_document(picture.health, daemon)
    word = "none" if daemon is None else "running"
    return queue_document(picture.views, daemon=word, health=health)


def _print(picture: QueueView, daemon: DaemonInfo | None, stream: TextIO) -> None:
    from codeflash_parallel.report.console import make_console

    make_console(stream).print(_drawn(picture, daemon))


def _drawn(picture: QueueView, daemon: DaemonInfo | None, limit: int = 0) -> RenderableType:
    from rich.console import Group

    from codeflash_parallel.report.queue.job_table import figures_table, jobs_table

    table = jobs_table(picture.views, limit=limit)
    if picture.health is None:
        return table
    figures = figures_table(health_rows(picture.health, daemon))
    return Group(figures, "", table) if picture.views else figures


def _watch(output: Output, client: EvalQueueClient, look: Callable[[], QueueView], *, ends: bool) -> None:
    """Look again and again; a terminal is redrawn, elsewhere each picture that differs is written."""
    if output.form == Format.TEXT and sys.stdout.isatty():
        from codeflash_parallel.report.console import make_console
        from codeflash_parallel.report.queue.job_table import show_live

        def drawn(rows: int) -> tuple[RenderableType, bool]:
            picture = look()
            return _drawn(picture, client.daemon, rows), ends and _is_over(picture)

        show_live(make_console(sys.stdout), drawn, PAUSE_S)
        return
    before: Any = None
    while True:
        picture = look()
        if (essence := _essence(picture)) != before:
            before = essence
            _write(output, picture, client.daemon)
        if ends and _is_over(picture):
            return
        time.sleep(PAUSE_S)


def _is_over(picture: QueueView) -> bool:
    return all(view.job.state not in OPEN for view in picture.views)


def _essence(picture: QueueView) -> Any:
    """Return what makes a picture worth showing again: not that time has passed."""
    jobs = [
        (v.job.job_id, v.job.state, v.job.progress, v.place.position, v.place.reason) for v in picture.views
    ]
    counts = picture.health and (picture.health.states, picture.health.paused)
    return jobs, counts
