"""Views of the queue: `queue status`, `queue list`, `queue report`, `queue dead` and `queue metrics`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode, SignalInterrupt, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue.command_base import (
    add_common,
    add_jobs,
    daemon_of,
    name_of,
    open_queue,
    positive,
    view_of,
    write_jobs,
)
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import submitter_of
from codeflash_parallel.queue.jobs import FINAL, JobState, JobStatus, QueuePlace, WaitReason
from codeflash_parallel.report.queue.queue_document import (
    JobView,
    health_document,
    health_rows,
    queue_document,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from codeflash_parallel.queue.daemon_protocol import DaemonInfo
    from codeflash_parallel.queue.metrics import QueueHealth
    from codeflash_parallel.queue.sync_client import EvalQueueClient

#: States of which a row says more than the row itself holds: a place, or a verdict.
_TOLD = frozenset({JobState.QUEUED, JobState.DONE})
#: Jobs that the picture of the whole queue names.
_ROWS = 20
#: Seconds from one look to the next; a view is read by people.
PAUSE_S = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _QueueView:
    """Content of a view: some jobs, and perhaps the figures of the whole queue."""

    views: Sequence[JobView]
    health: QueueHealth | None = None


def _show(
    args: argparse.Namespace, output: Output, client: EvalQueueClient, look: Callable[[], _QueueView]
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


def _write(output: Output, picture: _QueueView, daemon: DaemonInfo | None) -> None:
    if output.form.is_text:
        output.write_report(lambda stream: _print(picture, daemon, stream))
    else:
        output.write_values(_document(picture, daemon))


def _document(picture: _QueueView, daemon: DaemonInfo | None) -> Mapping[str, Any]:
    health = None if picture.health is None else health_document(picture.health, daemon)
    word = "none" if daemon is None else "running"
    return queue_document(picture.views, daemon=word, health=health)


def _print(picture: _QueueView, daemon: DaemonInfo | None, stream: TextIO) -> None:
    from codeflash_parallel.report.console import make_console

    make_console(stream).print(_drawn(picture, daemon))


def _drawn(picture: _QueueView, daemon: DaemonInfo | None, limit: int = 0) -> RenderableType:
    from rich.console import Group

    from codeflash_parallel.report.queue.job_table import figures_table, jobs_table

    table = jobs_table(picture.views, limit=limit)
    if picture.health is None:
        return table
    figures = figures_table(health_rows(picture.health, daemon))
    return Group(figures, "", table) if picture.views else figures


def _watch(output: Output, client: EvalQueueClient, look: Callable[[], _QueueView], *, ends: bool) -> None:
    """Look again and again; a terminal is redrawn, elsewhere each picture that differs is written."""
    if output.form.is_text and sys.stdout.isatty():
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


def _is_over(picture: _QueueView) -> bool:
    return all(view.job.state in FINAL for view in picture.views)


def _essence(picture: _QueueView) -> Any:
    """Return what makes a picture worth showing again: not that time has passed."""
    jobs = [
        (v.job.job_id, v.job.state, v.job.progress, v.place.position, v.place.reason) for v in picture.views
    ]
    counts = picture.health and (picture.health.states, picture.health.paused)
    return jobs, counts


# --- the commands ------------------------------------------------------------------------------------------


def _add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose jobs."""
    parser.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=[state.value for state in JobState],
        default=[],
        help="Only jobs in this state. May be repeated.",
    )
    parser.add_argument(
        "--submitter", type=name_of, default="", metavar="NAME", help="Only jobs of this one."
    )
    parser.add_argument("--mine", action="store_true", help="Only those of who you are to the queue.")
    parser.add_argument("--run-of", type=name_of, default="", metavar="NAME", help="Only jobs of this run.")
    _add_limit(parser)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=positive, default=100, metavar="N", help="The latest so many. Default: 100."
    )


def _add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the option of the view that stays up to date."""
    parser.add_argument(
        "--watch", action="store_true", help="Stay, and show what changes; as JSON, a line a change."
    )


def _chosen_jobs(client: EvalQueueClient, args: argparse.Namespace) -> Sequence[JobView]:
    """Return the jobs that the options choose: those that run, those that wait in their order, the others."""
    submitter = submitter_of(args.submitter, os.environ) if args.mine else args.submitter
    states = [JobState(state) for state in args.states]
    jobs = client.list(states=states, submitter=submitter, run=args.run_of, limit=args.limit)
    nowhere = QueuePlace(position=0, reason=WaitReason.NEXT, wait_s=-1.0)
    found = (
        client.status(job.job_id) if job.state in _TOLD else JobStatus(job=job, place=nowhere) for job in jobs
    )
    return sorted(map(view_of, found), key=_rank)


def _rank(view: JobView) -> tuple[int, int, int]:
    order = {JobState.RUNNING: 0, JobState.QUEUED: 1}
    return order.get(view.job.state, 2), view.place.position, -view.job.number


def _add_status(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser, nargs="*")
    _add_watch(parser)
    add_common(parser)


def _status(args: argparse.Namespace, output: Output) -> int:
    """Show jobs, or depth, waits, service times, slots and the holder of the benchmark token."""

    def look() -> _QueueView:
        if args.jobs:
            return _QueueView(views=[view_of(client.status(job_id)) for job_id in args.jobs])
        running = client.list(states=(JobState.RUNNING,), limit=_ROWS)
        views = [view_of(client.status(job.job_id)) for job in running]
        return _QueueView(views=views, health=client.health())

    with open_queue(args) as client:
        _show(args, output, client, look)
    return ExitCode.OK


def _add_list(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    _add_watch(parser)
    add_common(parser)


def _list(args: argparse.Namespace, output: Output) -> int:
    """List jobs; with `--watch`, until a signal ends it."""
    with open_queue(args) as client:
        _show(args, output, client, lambda: _QueueView(views=_chosen_jobs(client, args)))
    return ExitCode.OK


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    add_common(parser)


def _report(args: argparse.Namespace, output: Output) -> int:
    """Write the queue as a page for a browser: who waits and why, by submitter, what runs and has ended."""
    from codeflash_parallel.report.page.queue_page import queue_page

    output.must_be_writable()
    with open_queue(args) as client:
        picture = _QueueView(views=_chosen_jobs(client, args), health=client.health())
        daemon = client.daemon
    health = picture.health
    assert health is not None
    output.write_page(
        lambda: queue_page(picture.views, health_rows(health, daemon)), lambda: _document(picture, daemon)
    )
    return ExitCode.OK


def _add_dead(parser: argparse.ArgumentParser) -> None:
    _add_limit(parser)
    add_common(parser)


def _dead(args: argparse.Namespace, output: Output) -> int:
    """List dead jobs, the latest first."""
    with open_queue(args) as client:
        views = [view_of(client.status(job.job_id)) for job in reversed(client.dead(args.limit))]
        daemon = daemon_of(client)
    if not output.form.is_text:
        write_jobs(output, views, daemon, str)
        return ExitCode.OK

    def write(stream: TextIO) -> None:
        from codeflash_parallel.report.console import make_console
        from codeflash_parallel.report.queue.job_table import print_dead

        print_dead(views, make_console(stream))

    output.write_report(write)
    return ExitCode.OK


def _add_metrics(parser: argparse.ArgumentParser) -> None:
    options.add_settings(parser, (SETTINGS["queue_dir"],))


def _metrics(args: argparse.Namespace, output: Output) -> int:
    """Write the figures; a file appears whole, as a textfile collector needs it."""
    with open_queue(args) as client:
        text = client.metrics()
    if output.form.is_text:
        output.write(text)
    else:
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        output.write_values({name: float(value) for name, _, value in samples})
    return ExitCode.OK


COMMANDS = {
    "queue status": Command(_add_status, _status),
    "queue list": Command(_add_list, _list),
    "queue report": Command(_add_report, _report),
    "queue dead": Command(_add_dead, _dead),
    "queue metrics": Command(_add_metrics, _metrics),
}
