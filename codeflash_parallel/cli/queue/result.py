"""`queue result`: what became of a job, shown as `run` shows it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import BY_FAMILY, ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.queue_support.command_base import (
    add_common,
    add_job,
    daemon_of,
    jobs_words,
    open_queue,
    view_of,
    write_jobs,
)
from codeflash_parallel.queue.jobs import Job, JobState
from codeflash_parallel.report.queue.phrases import OPEN, result_of

if TYPE_CHECKING:
    from codeflash_parallel.result.result_model import RunResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the job, and how much is said."""
    add_job(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="Say every failure and difference.")
    options.add_timings(parser)
    add_common(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Show the result of a job; return its exit code as `run` has it, or 6: there is none yet."""
    with open_queue(args) as client:
        view = view_of(client.status(args.job))
        daemon = daemon_of(client)
    if view.job.state in OPEN:
        write_jobs(output, [view], daemon, lambda: jobs_words([view]))
        return ExitCode.STILL_WAITING
    return report_job(view.job, output, verbose=args.verbose, timings=args.timings)


def report_job(job: Job, output: Output, *, verbose: bool = False, timings: bool = False) -> int:
    """Write the result of a job that is final: a run's report or document, or a grader's scores.

    Raises:
        CodeflashParallelError: the error that is its result, or `JobEnded`: it ended without one.
    """
    from codeflash_parallel.cli.run_support.evaluation import report
    from codeflash_parallel.cli.run_support.verdict_exit_codes import exit_code_of
    from codeflash_parallel.queue.job_result import JobEnded, error_in

    if job.state != JobState.DONE:
        raise JobEnded(job)
    found = result_of(job)
    if found.get("document") is not None:
        result = _run_result(job)
        report(result, output, quiet=False, verbose=verbose, timings=timings)
        return exit_code_of(result)
    if (error := error_in(job)) is not None:
        raise error
    output.write_values(found.get("scores"))
    return ExitCode.OK


def _run_result(job: Job) -> RunResult:
    from codeflash_parallel.run.run_folder import stored_result

    return stored_result(dict(result_of(job)["document"]))


def exit_code_of_job(job: Job) -> int:
    """Return how `queue result` would end for a job that is final."""
    from codeflash_parallel.cli.run_support.verdict_exit_codes import exit_code_of

    if job.state != JobState.DONE:
        return ExitCode.UNFIT
    found = result_of(job)
    if found.get("document") is not None:
        return exit_code_of(_run_result(job))
    error = found.get("error")
    return BY_FAMILY.get(error["family"], ExitCode.INTERNAL) if error else ExitCode.OK
