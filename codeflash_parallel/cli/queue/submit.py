"""`queue submit`: hand in candidates for a verdict, and learn at once where they stand."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from codeflash_parallel.candidates.submissions import read_submissions
from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.queue.command_base import (
    add_common,
    daemon_of,
    jobs_words,
    name_of,
    open_queue,
    positive,
    shell_words,
    span,
    view_of,
    write_jobs,
)
from codeflash_parallel.cli.run import in_repository
from codeflash_parallel.config.settings import SETTINGS, Settings
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.config.settings_table import SettingGroup
from codeflash_parallel.queue.jobs import Budget, JobKind, JobRequest, JobState, Priority
from codeflash_parallel.report.queue.queue_document import JobView, Newness
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.errors import UsageError


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the candidates as `run` takes them, whose they are, and how urgent."""
    parser.usage = f"{parser.prog} --candidates PATH [options]"  # the whole of it would fill a screen
    options.add_candidates(parser)
    _add_job(parser)
    group = parser.add_argument_group("settings", "Also in pyproject.toml, [tool.codeflash-parallel].")
    options.add_settings(group, (row for row in SETTINGS.values() if row.group != SettingGroup.PLACE))
    add_common(parser)


def _add_job(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("job")
    group.add_argument(
        "--kind",
        default=JobKind.EVALUATE.value,
        choices=[kind.value for kind in JobKind],
        help="What is done: evaluate as `run` does, check as `check` does, race without profile and "
        "refinement, or a command of your own. Default: evaluate.",
    )
    group.add_argument(
        "--command",
        default="",
        metavar="COMMAND",
        help="With --kind command: what is run in a slot that holds the candidate; it prints JSON.",
    )
    group.add_argument(
        "--priority",
        default=Priority.NORMAL.value,
        choices=[priority.value for priority in Priority],
        help="How urgent it is among your own jobs; with the strategy priority, among all. Default: normal.",
    )
    group.add_argument(
        "--submitter",
        type=name_of,
        default="",
        metavar="NAME",
        help="Who you are to the queue. Default: CODEFLASH_PARALLEL_SUBMITTER, else the user.",
    )
    group.add_argument(
        "--run-of",
        type=name_of,
        default="",
        metavar="NAME",
        help="The run you belong to; its submitters share one share. Default: CODEFLASH_PARALLEL_RUN_OF.",
    )
    group.add_argument(
        "--start-after", type=span, default=0.0, metavar="SPAN", help="Do not start before that, e.g. 10m."
    )
    _add_budget(group)


def _add_budget(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--budget-cpu", type=span, default=0.0, metavar="SPAN", help="CPU time of the run's jobs, e.g. 2h."
    )
    group.add_argument("--budget-jobs", type=positive, default=0, metavar="N", help="Jobs of the run.")
    group.add_argument(
        "--budget-wall",
        type=span,
        default=0.0,
        metavar="SPAN",
        help="Time from the run's first job to its last submission. What a run states first holds.",
    )


def _run(args: argparse.Namespace, output: Output) -> int:
    """Submit one job; return 0 when it is in the queue, or was known already."""
    settings = read_settings(Path(args.project), os.environ, vars(args)).settings
    submissions = _submissions(args, settings)
    request = _request(args, submissions, settings)
    with open_queue(args) as client:
        receipt = client.submit(request).receipt
        daemon = daemon_of(client)
    view = view_of(receipt, Newness.NEW if receipt.is_new else Newness.KNOWN)
    write_jobs(output, [view], daemon, lambda: jobs_words([view]))
    if output.form.is_text:
        sys.stderr.write(_next(view, output.form))
    return ExitCode.OK


def _submissions(args: argparse.Namespace, settings: Settings) -> list[Submission]:
    if (args.kind == JobKind.COMMAND) != bool(args.command):
        raise UsageError("BAD_ARGUMENTS", "--kind command and --command COMMAND go together.")
    if not args.sources:
        hint = "Give --candidates PATH or --candidate REF."
        raise UsageError("NO_CANDIDATES", "No candidates are named.", hint)
    submissions = read_submissions(args.sources, in_repository(args, settings))
    if not submissions:
        raise UsageError("NO_CANDIDATES", "There are no candidates in what was named.")
    return submissions


def _request(args: argparse.Namespace, submissions: Sequence[Submission], settings: Settings) -> JobRequest:
    from codeflash_parallel.queue.job_builder import job_request

    return job_request(
        JobKind(args.kind),
        Path(args.project),
        submissions,
        settings,
        submitter=args.submitter,
        run=args.run_of,
        priority=Priority(args.priority),
        command=shell_words("--command", args.command),
        start_after_s=args.start_after,
        budget=Budget(cpu_s=args.budget_cpu, jobs=args.budget_jobs, wall_s=args.budget_wall),
        refuses_inapplicable=True,
    )


def _next(view: JobView, form: Format) -> str:
    """Return what can be done next."""
    known = "The same was submitted before; this is its job. " if view.newness == Newness.KNOWN else ""
    if view.job.state == JobState.DONE:
        return f"{known}See it: codeflash-parallel queue result {view.job.job_id}\n"
    how = "--max 25s --output-format brief" if form == Format.BRIEF else "--max 100s"
    return f"{known}Wait for it: codeflash-parallel queue wait {view.job.job_id} {how}\n"


COMMANDS = {"queue submit": Command(_add_arguments, _run)}
