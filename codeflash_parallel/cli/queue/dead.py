"""`queue dead`: jobs whose attempts are used up, and what they printed last."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TextIO

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    daemon_of,
    open_queue,
    positive,
    view_of,
)
from codeflash_parallel.report.queue.json_document import JobView, queue_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how many."""
    parser.add_argument(
        "--limit", type=positive, default=100, metavar="N", help="The latest so many. Default: 100."
    )
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """List dead jobs, the latest first."""
    with open_queue(args) as client:
        views = [view_of(client.status(job.job_id)) for job in reversed(client.dead(args.limit))]
        daemon = daemon_of(client)
    if output.form == Format.TEXT:
        output.write_report(lambda stream: _print(views, stream))
    else:
        output.write_values(queue_document(views, daemon=daemon))
    return ExitCode.OK


def _print(views: Sequence[JobView], stream: TextIO) -> None:
    from codeflash_parallel.report.console import make_console
    from codeflash_parallel.report.queue.job_table import print_dead

    print_dead(views, make_console(stream))
