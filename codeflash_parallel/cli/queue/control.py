"""`queue cancel`, `queue retry`, `queue pause` and `queue unpause`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue.command_base import (
    Command,
    add_common,
    add_jobs,
    daemon_of,
    jobs_words,
    open_queue,
    view_of,
    write_jobs,
)

if TYPE_CHECKING:
    from codeflash_parallel.queue.sync_client import EvalQueueClient


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    add_jobs(parser)
    add_common(parser)


def _on_jobs(args: argparse.Namespace, output: Output, act: Callable[[EvalQueueClient, str], object]) -> int:
    """Do something to one job after the other; the first that refuses it ends the command.

    Nothing is done to any of them where one is not known at all.

    Raises:
        UsageError, EnvironmentFault: of the queue.
    """
    with open_queue(args) as client:
        for job_id in args.jobs:
            client.status(job_id)
        for job_id in args.jobs:
            act(client, job_id)
        views = [view_of(client.status(job_id)) for job_id in args.jobs]
        daemon = daemon_of(client)
    write_jobs(output, views, daemon, lambda: jobs_words(views))
    return ExitCode.OK


def _cancel(args: argparse.Namespace, output: Output) -> int:
    """Cancel jobs; one that is final already stays as it is, and the answer says so."""
    return _on_jobs(args, output, lambda client, job_id: client.cancel(job_id))


def _retry(args: argparse.Namespace, output: Output) -> int:
    """Send dead jobs back to the queue; one that is not dead is refused."""
    return _on_jobs(args, output, lambda client, job_id: client.retry(job_id))


def _pause(args: argparse.Namespace, output: Output) -> int:
    """Pause the queue; that holds until it is undone, also for a daemon that is started later."""
    with open_queue(args) as client:
        client.pause()
        daemon = daemon_of(client)
    write_jobs(output, (), daemon, lambda: "The queue is paused: jobs are taken in, and none starts.\n")
    return ExitCode.OK


def _unpause(args: argparse.Namespace, output: Output) -> int:
    """Undo `queue pause`."""
    with open_queue(args) as client:
        client.unpause()
        daemon = daemon_of(client)
    nobody = "" if daemon == "running" else " No daemon is running: `codeflash-parallel serve` starts one."
    write_jobs(output, (), daemon, lambda: f"The queue is not paused.{nobody}\n")
    return ExitCode.OK


COMMANDS = {
    "queue cancel": Command(_add_jobs, _cancel),
    "queue retry": Command(_add_jobs, _retry),
    "queue pause": Command(add_common, _pause),
    "queue unpause": Command(add_common, _unpause),
}
