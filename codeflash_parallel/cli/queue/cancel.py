"""`queue cancel`: a job that waits never starts, one that runs is ended with all its processes."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import act_on_jobs, add_common, add_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the jobs."""
    add_jobs(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Cancel jobs; one that is final already stays what it is, and the answer says what."""
    return act_on_jobs(args, output, lambda client, job_id: client.cancel(job_id))
