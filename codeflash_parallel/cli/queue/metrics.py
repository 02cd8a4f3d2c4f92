"""`queue metrics`: the queue's figures, as Prometheus reads them."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import add_settings
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import open_queue
from codeflash_parallel.config.settings import SETTINGS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which queue, and where the text goes."""
    add_settings(parser, (SETTINGS["queue_dir"],))
    parser.add_argument("--output", metavar="PATH", default="", help="Write the text to a file instead.")


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the figures; a file appears whole, as a textfile collector needs it."""
    with open_queue(args) as client:
        output.write(client.metrics())
    return ExitCode.OK
