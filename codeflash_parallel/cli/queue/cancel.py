"""`queue cancel`: a job that waits never starts, one that runs is ended with all its processes."""

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
    """Cancel jobs; one that is final already stays what it is, and the answer says what."""
    with open_queue(args) as client:
        for job_id in args.jobs:
            client.cancel(job_id)
        views = [view_of(client.status(job_id)) for job_id in args.jobs]
        daemon = daemon_of(client)
    write_jobs(output, views, daemon, lambda: "".join(f"{job_words(v.job, v.place)}\n" for v in views))
    return ExitCode.OK
