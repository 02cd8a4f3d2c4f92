"""`queue metrics`: the queue's figures, as Prometheus reads them."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import add_settings
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue_support.command_base import open_queue
from codeflash_parallel.config.settings import SETTINGS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which queue."""
    add_settings(parser, (SETTINGS["queue_dir"],))


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the figures; a file appears whole, as a textfile collector needs it."""
    with open_queue(args) as client:
        text = client.metrics()
    if output.form == Format.TEXT:
        output.write(text)
    else:
        samples = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        output.write_values({name: float(value) for name, _, value in samples})
    return ExitCode.OK
