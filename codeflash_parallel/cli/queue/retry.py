"""`queue retry`: dead jobs get their attempts back."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import act_on_jobs, add_common, add_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs."""
    add_jobs(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Send dead jobs back to the queue; one that is not dead is refused."""
    return act_on_jobs(args, output, lambda client, job_id: client.retry(job_id))
