"""`queue retry`: dead jobs get their attempts back."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exits import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queueing import add_common, add_jobs, daemon_of, open_queue, view_of, write_jobs
from codeflash_parallel.report.queue_words import job_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs."""
    add_jobs(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Send dead jobs back to the queue; one that is not dead is refused."""
    with open_queue(args) as client:
        for job_id in args.jobs:
            client.retry(job_id)
        views = [view_of(client.status(job_id)) for job_id in args.jobs]
        daemon = daemon_of(client)
    write_jobs(output, views, daemon, lambda: "".join(f"{job_words(v.job, v.place)}\n" for v in views))
    return ExitCode.OK
