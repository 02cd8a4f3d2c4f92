"""`queue status`: one job, or how the whole queue is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    add_jobs,
    add_watch,
    open_queue,
    view_of,
)
from codeflash_parallel.cli.queue_support.live_view import QueueView, show
from codeflash_parallel.queue.jobs import JobState

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient

#: Jobs that the picture of the whole queue names.
_ROWS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs; none: the whole queue."""
    add_jobs(parser, nargs="*")
    add_watch(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Show jobs, or depth, waits, service times, slots and who holds the benchmark token."""
    with open_queue(args) as client:
        show(args, output, client, lambda: _picture(client, args.jobs))
    return ExitCode.OK


def _picture(client: EvalQueueClient, jobs: list[str]) -> QueueView:
    if jobs:
        return QueueView(views=[view_of(client.status(job_id)) for job_id in jobs])
    running = client.list(states=(JobState.RUNNING,), limit=_ROWS)
    views = [view_of(client.status(job.job_id)) for job in running]
    return QueueView(views=views, health=client.health())
