"""`queue list`: the jobs that run, those that wait in their order, and the latest of the others."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    add_filters,
    add_watch,
    open_queue,
    views_of,
)
from codeflash_parallel.cli.queue_support.live_view import QueueView, show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which jobs."""
    add_filters(parser)
    add_watch(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """List jobs; with `--watch`, until a signal ends it."""
    with open_queue(args) as client:
        show(args, output, client, lambda: QueueView(views=views_of(client, args)))
    return ExitCode.OK
