"""`queue wait`, `result`, `cancel`, `retry`, `pause` and `unpause`.

Shells of agents cut long commands off, so `wait` has a deadline.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue.command_base import (
    add_common,
    add_job,
    add_jobs,
    daemon_of,
    jobs_words,
    open_queue,
    span,
    view_of,
    write_jobs,
)
from codeflash_parallel.queue.jobs import FINAL, Job, result_of
from codeflash_parallel.report.queue.queue_document import JobView
from codeflash_parallel.result.errors import CodeflashParallelError

if TYPE_CHECKING:
    from codeflash_parallel.queue.sync_client import EvalQueueClient
    from codeflash_parallel.result.result_model import RunResult


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


def _add_wait(parser: argparse.ArgumentParser) -> None:
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


def _wait(args: argparse.Namespace, output: Output) -> int:
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
    if output.form.is_text and len(views) == 1 and views[0].job.state in FINAL:
        return _report_job(views[0].job, output)
    write_jobs(output, views, daemon, lambda: jobs_words(views))
    return _exit_code(views)


def _exit_code(views: list[JobView]) -> int:
    if any(view.job.state not in FINAL for view in views):
        return ExitCode.STILL_WAITING
    return max(_exit_code_of_job(view.job) for view in views)


def _add_result(parser: argparse.ArgumentParser) -> None:
    """Add the job, and how much is said."""
    add_job(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="Say every failure and difference.")
    options.add_timings(parser)
    add_common(parser)


def _result(args: argparse.Namespace, output: Output) -> int:
    """Show the result of a job; return its exit code as `run` has it, or 6: there is none yet."""
    with open_queue(args) as client:
        view = view_of(client.status(args.job))
        daemon = daemon_of(client)
    if view.job.state not in FINAL:
        write_jobs(output, [view], daemon, lambda: jobs_words([view]))
        return ExitCode.STILL_WAITING
    return _report_job(view.job, output, verbose=args.verbose, timings=args.timings)


def _report_job(job: Job, output: Output, *, verbose: bool = False, timings: bool = False) -> int:
    """Write the result of a job that is final: a run's report or document, or a grader's scores.

    Raises:
        CodeflashParallelError: the error that is its result, or `JobEnded`: it ended without one.
    """
    from codeflash_parallel.cli.stored_runs import exit_code_of, report

    found = result_of(job)
    if found["document"] is None:
        output.write_values(found["scores"])
        return ExitCode.OK
    result = _run_result(found["document"])
    report(result, output, quiet=False, verbose=verbose, timings=timings)
    return exit_code_of(result)


def _run_result(document: dict[str, Any]) -> RunResult:
    from codeflash_parallel.run.run_folder import stored_result

    return stored_result(document)


def _exit_code_of_job(job: Job) -> int:
    """Return how `queue result` would end for a job that is final."""
    from codeflash_parallel.cli.stored_runs import exit_code_of

    try:
        found = result_of(job)
    except CodeflashParallelError as error:
        return error.exit_code
    return exit_code_of(_run_result(found["document"])) if found["document"] is not None else ExitCode.OK


COMMANDS = {
    "queue wait": Command(_add_wait, _wait),
    "queue result": Command(_add_result, _result),
    "queue cancel": Command(_add_jobs, _cancel),
    "queue retry": Command(_add_jobs, _retry),
    "queue pause": Command(add_common, _pause),
    "queue unpause": Command(add_common, _unpause),
}
