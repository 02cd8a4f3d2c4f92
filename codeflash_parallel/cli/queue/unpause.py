"""`queue unpause`: jobs start again."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import add_common, daemon_of, open_queue, write_jobs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which queue."""
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Undo `queue pause`."""
    with open_queue(args) as client:
        client.unpause()
        daemon = daemon_of(client)
    nobody = "" if daemon == "running" else " No daemon is running: `codeflash-parallel serve` starts one."
    write_jobs(output, (), daemon, lambda: f"The queue is not paused.{nobody}\n")
    return ExitCode.OK
