"""`queue pause`: no job starts until `queue unpause`."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import add_common, daemon_of, open_queue, write_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which queue."""
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Pause the queue; that holds until it is undone, also for a daemon that is started later."""
    with open_queue(args) as client:
        client.pause()
        daemon = daemon_of(client)
    write_jobs(output, (), daemon, lambda: "The queue is paused: jobs are taken in, and none starts.\n")
    return ExitCode.OK
