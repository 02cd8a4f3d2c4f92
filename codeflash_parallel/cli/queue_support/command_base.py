"""What the commands of the queue have in common: which queue, which jobs, and how an answer is written."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import must_be_there, read_settings
from codeflash_parallel.config.settings_table import span_s
from codeflash_parallel.config.user_context import submitter_of, why_not_name
from codeflash_parallel.queue.jobs import JobState, Receipt
from codeflash_parallel.queue.queue_settings import read_queue_settings
from codeflash_parallel.report.queue.json_document import JobView, Newness, queue_document, refusal_document
from codeflash_parallel.report.queue.phrases import job_words
from codeflash_parallel.result.errors import CodeflashParallelError

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient
    from codeflash_parallel.queue.jobs import JobStatus

#: States of which a row says more than the row itself holds: a place, or a verdict.
_TOLD = frozenset({JobState.QUEUED, JobState.DONE})

_JOB = "Id of the job, as `queue submit` says it."


# --- options ---------------------------------------------------------------------------------------------


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add what every command of the queue understands: which queue."""
    options.add_settings(parser, (SETTINGS["queue_dir"],))


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a job."""
    parser.add_argument("job", metavar="JOB", help=_JOB)


def add_jobs(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Add the argument that names jobs."""
    parser.add_argument("jobs", metavar="JOB", nargs=nargs, help=_JOB)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose jobs."""
    parser.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=[state.value for state in JobState],
        default=[],
        help="Only jobs in this state. May be repeated.",
    )
    parser.add_argument(
        "--submitter", type=name_of, default="", metavar="NAME", help="Only jobs of this one."
    )
    parser.add_argument("--mine", action="store_true", help="Only those of who you are to the queue.")
    parser.add_argument("--run-of", type=name_of, default="", metavar="NAME", help="Only jobs of this run.")
    parser.add_argument(
        "--limit", type=positive, default=100, metavar="N", help="The latest so many. Default: 100."
    )


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the option of the view that stays up to date."""
    parser.add_argument(
        "--watch", action="store_true", help="Stay, and show what changes; as JSON, a line a change."
    )


#: Reads the seconds of a span.
span = options.argument(span_s, "a span like 100s, 2m or 1h")


def positive(text: str) -> int:
    """Return a whole number of at least 1.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    with suppress(ValueError):
        if (number := int(text)) >= 1:
            return min(number, sys.maxsize)  # more is as good as all
    raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")


def name_of(text: str) -> str:
    """Return the name of a submitter or run; an empty one is as good as none, as with variables.

    Raises:
        argparse.ArgumentTypeError: it is no name.
    """
    if why := why_not_name(text):
        raise argparse.ArgumentTypeError(why)
    return text


# --- the queue -------------------------------------------------------------------------------------------


@contextmanager
def open_queue(args: argparse.Namespace) -> Iterator[EvalQueueClient]:
    """Give the client of the queue that the options name.

    Raises:
        UsageError, EnvironmentFault: what the queue says.
    """
    from codeflash_parallel.config.user_context import queue_folder
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient

    project = Path(args.project)
    must_be_there(project)
    settings = read_settings(project, os.environ, vars(args)).settings
    rules = read_queue_settings(project, os.environ, {}).settings
    with EvalQueueClient(queue_folder(settings), rules) as client:
        yield client


# --- answers ---------------------------------------------------------------------------------------------


class QueueOutput(Output):
    """Output of the `queue` commands: errors have the form of the queue's document, with their figures."""

    def write_error_document(self, error: CodeflashParallelError) -> None:
        """Write the document of an error."""
        self.write_values(refusal_document(error, figures_of(error)))


def figures_of(error: CodeflashParallelError) -> dict[str, Any]:
    """Return the figures of an error: `retry_after_s`, `limit` and the like."""
    return {
        name: value
        for name, value in vars(error).items()
        if name not in {"code", "message", "hint"} and isinstance(value, str | int | float)
    }


def view_of(status: JobStatus | Receipt, newness: Newness = Newness.NEW) -> JobView:
    """Return a job as it is shown."""
    from codeflash_parallel.queue.jobs import now

    return JobView(
        job=status.job, place=status.place, age_s=now().since(status.job.submitted), newness=newness
    )


def views_of(client: EvalQueueClient, args: argparse.Namespace) -> list[JobView]:
    """Return the jobs that the options choose: those that run, those that wait in their order, the others."""
    from codeflash_parallel.queue.jobs import JobStatus, QueuePlace, WaitReason

    submitter = submitter_of(args.submitter, os.environ) if args.mine else args.submitter
    states = [JobState(state) for state in args.states]
    jobs = client.list(states=states, submitter=submitter, run=args.run_of, limit=args.limit)
    nowhere = QueuePlace(position=0, reason=WaitReason.NEXT, wait_s=-1.0)
    found = (
        client.status(job.job_id) if job.state in _TOLD else JobStatus(job=job, place=nowhere) for job in jobs
    )
    return sorted(map(view_of, found), key=_rank)


def _rank(view: JobView) -> tuple[int, int, int]:
    order = {JobState.RUNNING: 0, JobState.QUEUED: 1}
    return order.get(view.job.state, 2), view.place.position, -view.job.number


def daemon_of(client: EvalQueueClient) -> str:
    """Return whether somebody takes jobs, in the document's word: by the last call, without one more."""
    return "running" if client.is_served else "none"


def jobs_words(views: Iterable[JobView]) -> str:
    """Return a line for each job."""
    return "".join(f"{job_words(view.job, view.place)}\n" for view in views)


def write_jobs(output: Output, views: Sequence[JobView], daemon: str, say: Callable[[], str]) -> None:
    """Write what there is to say of some jobs: as a document, or for people."""
    if output.form == Format.TEXT:
        output.write(say())
    else:
        output.write_values(queue_document(views, daemon=daemon))


def act_on_jobs(
    args: argparse.Namespace, output: Output, act: Callable[[EvalQueueClient, str], object]
) -> int:
    """Do something to one job after the other; the first that refuses it ends the command.

    Nothing is done to any of them while one is not known at all: a slip of the pen.

    Raises:
        UsageError, EnvironmentFault: what the queue says.
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
