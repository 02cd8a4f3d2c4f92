"""Common parts of the `queue` commands: options, the client of the queue, and the form of answers."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeflash_parallel.cli import options
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import must_be_there, read_settings, why_not_name
from codeflash_parallel.config.settings_table import span_s
from codeflash_parallel.queue.jobs import Receipt
from codeflash_parallel.queue.queue_settings import read_queue_settings
from codeflash_parallel.report.queue.queue_document import (
    JobView,
    Newness,
    job_words,
    queue_document,
    refusal_document,
)
from codeflash_parallel.result.errors import CodeflashParallelError, UsageError

if TYPE_CHECKING:
    from codeflash_parallel.queue.jobs import JobStatus
    from codeflash_parallel.queue.sync_client import EvalQueueClient

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


def shell_words(option: str, text: str) -> tuple[str, ...]:
    """Return the words of a command.

    Raises:
        UsageError: `BAD_ARGUMENTS`.
    """
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError("BAD_ARGUMENTS", f"{option} cannot be taken apart: {error}.") from error


# --- the queue -------------------------------------------------------------------------------------------


@contextmanager
def open_queue(args: argparse.Namespace) -> Iterator[EvalQueueClient]:
    """Give the client of the queue that the options name.

    Raises:
        UsageError, EnvironmentFault: what the queue says.
    """
    from codeflash_parallel.config.settings_reader import queue_folder
    from codeflash_parallel.queue.sync_client import EvalQueueClient

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


def daemon_of(client: EvalQueueClient) -> str:
    """Return whether somebody takes jobs, in the document's word: by the last call, without one more."""
    return "running" if client.is_served else "none"


def jobs_words(views: Iterable[JobView]) -> str:
    """Return a line for each job."""
    return "".join(f"{job_words(view.job, view.place)}\n" for view in views)


def write_jobs(output: Output, views: Sequence[JobView], daemon: str, say: Callable[[], str]) -> None:
    """Write what there is to say of some jobs: as a document, or for people."""
    if output.form.is_text:
        output.write(say())
    else:
        output.write_values(queue_document(views, daemon=daemon))
