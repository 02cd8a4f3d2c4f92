"""Do something to the jobs that are named, and say how they are then: `queue cancel` and `queue retry`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    add_jobs,
    daemon_of,
    jobs_words,
    open_queue,
    view_of,
    write_jobs,
)

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs."""
    add_jobs(parser)
    add_common(parser)


def act_on_jobs(
    args: argparse.Namespace, output: Output, act: Callable[[EvalQueueClient, str], object]
) -> int:
    """Do something to one job after the other; the first that refuses it ends the command.

    Nothing is done to any of them while one is not known at all: a slip of the pen.

    Raises:
        UsageError, EnvironmentFault: what the queue says.
    """
    with open_queue(args) as client:
        for job_id in args.jobs:
            client.status(job_id)
        for job_id in args.jobs:
            act(client, job_id)
        views = [view_of(client.status(job_id)) for job_id in args.jobs]
        daemon = daemon_of(client)
    write_jobs(output, views, daemon, lambda: jobs_words(views))
    return ExitCode.OK
