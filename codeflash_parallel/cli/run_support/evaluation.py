"""What `run` and `check` do: read what is asked for, let the engine work, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from codeflash_parallel.candidates.submissions import read_submissions
from codeflash_parallel.cli import options
from codeflash_parallel.cli.output import Format, Output, drop_stdout, must_be_writable, write_file
from codeflash_parallel.cli.run_support.verdict_exit_codes import exit_code_of
from codeflash_parallel.cli.signals import Interrupts, handling_signals
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.config.settings_table import SettingColumns, SettingGroup
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.result.candidate.candidate_model import Submission
    from codeflash_parallel.result.events import Observer
    from codeflash_parallel.result.result_model import RunResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add every option of an evaluation with a race."""
    _add(parser, settings=SETTINGS.values(), providers=("repairer", "refiner"))


def add_arguments_without_race(parser: argparse.ArgumentParser) -> None:
    """Add every option of an evaluation without one: what would be ignored is refused."""
    settings = [row for row in SETTINGS.values() if row.group != SettingGroup.RACE]
    _add(parser, settings=settings, providers=("repairer",))


def _add(
    parser: argparse.ArgumentParser, *, settings: Iterable[SettingColumns], providers: Sequence[str]
) -> None:
    parser.usage = f"{parser.prog} --candidates PATH [options]"  # the whole of it would fill a screen
    options.add_candidates(parser)
    group = parser.add_argument_group("settings", "Also in pyproject.toml, [tool.codeflash-parallel].")
    options.add_settings(group, (row for row in settings if row not in options.SHARED))
    options.add_providers(parser, providers)
    options.add_reports(parser)
    options.add_output(parser)


def evaluate(args: argparse.Namespace, output: Output, mode: str) -> int:
    """Evaluate candidates and report; return the exit code.

    Args:
        args: the parsed command line.
        output: where the result goes.
        mode: `race` or `check`.
    """
    with handling_signals(output) as interrupts:
        settings = read_settings(Path(args.project), os.environ, vars(args)).settings
        submissions = _submissions(args)
        look_at_reports(args, output)
        result = (
            _evaluated(args, output, mode, settings, submissions, interrupts)
            if submissions
            else _nothing_to_do()
        )
        try:
            report_all(result, args, output)
        except BrokenPipeError:
            drop_stdout()  # the reader has seen enough; the exit code is the verdict's all the same
    return exit_code_of(result)


def look_at_reports(args: argparse.Namespace, output: Output) -> None:
    """Notice before the run that a report cannot be written after it."""
    output.must_be_writable()
    for report_path in filter(None, (args.junit_xml, args.markdown)):
        must_be_writable(Path(report_path))


def _submissions(args: argparse.Namespace) -> list[Submission]:
    if not args.sources:
        raise UsageError(
            "NO_CANDIDATES", "No candidates are named.", "Give --candidates PATH or --candidate REF."
        )
    return read_submissions(args.sources)


def _evaluated(
    args: argparse.Namespace,
    output: Output,
    mode: str,
    settings: Settings,
    submissions: Sequence[Submission],
    interrupts: Interrupts,
) -> RunResult:
    from codeflash_parallel.cli.run_support.event_loop import EvaluationRequest, drive
    from codeflash_parallel.cli.run_support.providers import provided
    from codeflash_parallel.run.run_state import RaceMode

    providers = provided(args, settings)
    plan = EvaluationRequest(
        project=Path(args.project),
        settings=settings,
        submissions=submissions,
        mode=RaceMode(mode),
        repairer=providers.repairer,
        refiner=providers.refiner,
    )
    with observing(args, output) as observers:
        return drive(plan, observers, interrupts)


def _nothing_to_do() -> RunResult:
    """Return the result of an empty list: nothing is looked at, not even the repository."""
    from codeflash_parallel.result.outcome_codes import Verdict
    from codeflash_parallel.result.result_model import RunResult
    from codeflash_parallel.run.pipeline import new_run_id

    return RunResult(
        run_id=new_run_id(), complete=True, verdict=Verdict.NONE_CORRECT, summary="There are no candidates."
    )


@contextmanager
def observing(args: argparse.Namespace, output: Output) -> Iterator[list[Observer]]:
    """Give the observers of a run: the board on standard error, events as JSON lines."""
    from codeflash_parallel.report.terminal.progress_board import open_board

    events: list[Observer] = [output.events()] if output.form == Format.JSONL else []
    if args.quiet:
        yield events
        return
    with open_board(sys.stderr) as board:
        yield [board, *events]


def report_all(result: RunResult, args: argparse.Namespace, output: Output) -> None:
    """Write every report that was asked for."""
    if args.junit_xml:
        from codeflash_parallel.report.junit import junit_xml

        write_file(Path(args.junit_xml), junit_xml(result))
    if args.markdown:
        from codeflash_parallel.report.markdown import markdown, timings_markdown

        appendix = timings_markdown(result) if args.timings else ""
        write_file(Path(args.markdown), "\n".join(filter(None, (markdown(result), appendix))))
    report(result, output, quiet=args.quiet, verbose=args.verbose, timings=args.timings)


def report(result: RunResult, output: Output, *, quiet: bool, verbose: bool, timings: bool) -> None:
    """Write a result in the form that was asked for."""
    if output.form != Format.TEXT:
        from codeflash_parallel.result.result_document import document

        output.write_document(document(result))
        return
    from codeflash_parallel.report.terminal.console import Detail, make_console, print_report
    from codeflash_parallel.report.timing_table import run_timings

    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL

    def draw(stream: TextIO) -> None:
        console = make_console(stream)
        appendix = run_timings(result, console.width) if timings else ()
        print_report(result, console, detail, appendix=appendix)

    output.write_report(draw)
