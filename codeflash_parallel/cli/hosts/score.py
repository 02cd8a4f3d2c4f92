"""`score`: one program of an evolution loop in, its fitness out, in the form that the loop reads."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode, handling_signals
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Output, must_be_writable, write_file
from codeflash_parallel.cli.run import drive
from codeflash_parallel.cli.stored_runs import exit_code_of, report
from codeflash_parallel.config.settings import SETTINGS
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.hosts.scoring import (
    ScoreFormat,
    require_target,
    scores_of,
    submissions_of,
    texts_of,
)
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.config.settings import Settings
    from codeflash_parallel.result.candidate_model import Submission
    from codeflash_parallel.result.events import Observer
    from codeflash_parallel.result.result_model import RunResult
    from codeflash_parallel.run.evaluator import Evaluator


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} PROGRAM --target PATH [options]"
    parser.add_argument("program", metavar="PROGRAM", help="File with the new text of the target's file.")
    parser.add_argument(
        "--target", metavar="PATH", required=True, help="File of the repository that it stands for."
    )
    parser.add_argument(
        "--format",
        choices=[form.value for form in ScoreFormat],
        default=ScoreFormat.METRIC.value,
        help="Form of the score: lines METRIC name=value, or that of a host; with --json the score itself. "
        "Default: metric.",
    )
    parser.add_argument(
        "--results-dir",
        metavar="DIR",
        default="",
        help="Folder for the files of shinka (metrics.json, correct.json) and harbor (reward.json).",
    )
    group = parser.add_argument_group("settings", "Also in pyproject.toml, [tool.codeflash-parallel].")
    options.add_settings(group, (row for row in SETTINGS.values() if row not in options.SHARED))


def _score(args: argparse.Namespace, output: Output) -> int:
    """Score a program; return 0 whatever its score is, for the score says that."""
    with handling_signals(output) as interrupts:
        folder = _results_folder(args)
        settings = read_settings(Path(args.project), os.environ, vars(args)).settings
        submissions = _submissions(args, settings)
        output.must_be_writable()

        async def work(evaluator: Evaluator, observers: Sequence[Observer]) -> RunResult:
            return await evaluator.evaluate(submissions, observers=observers)

        result = drive(Path(args.project), settings, work, (), interrupts)
        if result.error is not None:
            report(result, output)
            return exit_code_of(result)
        _write(result, args.format, folder, output)
    return ExitCode.OK


def _results_folder(args: argparse.Namespace) -> Path:
    if ScoreFormat(args.format).has_files != bool(args.results_dir):
        known = " and ".join(form.value for form in ScoreFormat if form.has_files)
        raise UsageError("BAD_ARGUMENTS", f"--results-dir goes with --format {known}, and only with them.")
    folder = Path(args.results_dir)
    if args.results_dir:
        must_be_writable(folder / "score")
    return folder


def _submissions(args: argparse.Namespace, settings: Settings) -> list[Submission]:
    require_target(args.target, Path(args.project), settings)
    try:
        return submissions_of([Path(args.program)], args.target)
    except OSError as error:
        raise UsageError("BAD_CANDIDATES", f"{args.program}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError("BAD_CANDIDATES", f"{args.program} is no text in UTF-8.") from error


def _write(result: RunResult, form: str, folder: Path, output: Output) -> None:
    (score,) = scores_of(result)
    if not output.form.is_text:
        output.write_values(asdict(score))
    for name, text in texts_of(score, ScoreFormat(form)).items():
        if name == "-":
            if output.form.is_text:
                output.write(text)
        else:
            write_file(folder / name, text)


COMMANDS = {"score": Command(_add_arguments, _score)}
