"""`queue wait`: wait for jobs, for as long as is said. Shells of agents cut long commands off."""

from __future__ import annotations

import argparse
import time

from codeflash_parallel.cli.exit_codes import ExitCode, handling_signals
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue.result import exit_code_of_job, report_job
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    add_jobs,
    daemon_of,
    jobs_words,
    open_queue,
    span,
    view_of,
    write_jobs,
)
from codeflash_parallel.report.queue.json_document import JobView
from codeflash_parallel.report.queue.phrases import OPEN


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs, and the deadline."""
    add_jobs(parser)
    parser.add_argument(
        "--max",
        type=span,
        default=None,
        metavar="SPAN",
        dest="max_s",
        help="End with exit code 6 when the time is up, e.g. 100s; ask again then. Default: no end.",
    )
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Wait for all of the jobs; return the exit code of one, as `run` has it, or 6: they are not done."""
    with handling_signals(output), open_queue(args) as client:
        end_s = float("inf") if args.max_s is None else time.monotonic() + args.max_s
        for job_id in args.jobs:
            left_s = max(0.0, end_s - time.monotonic())
            try:
                client.wait(job_id, None if args.max_s is None else left_s)
            except TimeoutError:
                continue  # the others may be done all the same
        views = [view_of(client.status(job_id)) for job_id in args.jobs]
        daemon = daemon_of(client)
    if output.form == Format.TEXT and len(views) == 1 and views[0].job.state not in OPEN:
        return report_job(views[0].job, output)
    write_jobs(output, views, daemon, lambda: jobs_words(views))
    return _exit_code(views)


def _exit_code(views: list[JobView]) -> int:
    if any(view.job.state in OPEN for view in views):
        return ExitCode.STILL_WAITING
    return max(exit_code_of_job(view.job) for view in views)
