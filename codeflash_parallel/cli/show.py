"""`show`: an earlier run as it was reported, or one of its candidates in full."""

from __future__ import annotations

import argparse
from typing import TextIO

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.cli.run_support.evaluation import report
from codeflash_parallel.cli.run_support.run_finder import add_run, find_places
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.result_model import CandidateResult, RunResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `show`."""
    add_run(parser)
    parser.add_argument("--candidate", metavar="ID", default="", help="Show this candidate only.")
    options.add_timings(parser)
    options.add_output(parser)


def run(args: argparse.Namespace, output: Output) -> int:
    """Show a run: first differing calls, failing tests' messages, commands that reproduce them."""
    from codeflash_parallel.run.run_folder import load_document, stored_result

    result = stored_result(load_document(find_places(args).begun_run_dir(args.run_name)))
    if args.candidate:
        _show(candidate_of(result, args.candidate), output, timings=args.timings)
    else:
        report(result, output, quiet=False, verbose=True, timings=args.timings)
    return ExitCode.OK


def candidate_of(result: RunResult, name: str) -> CandidateResult:
    """Return a candidate of a run.

    Raises:
        UsageError: `NO_SUCH_CANDIDATE`.
    """
    found = result.candidate(name)
    if found is None:
        known = ", ".join(candidate.id for candidate in result.candidates)
        raise UsageError(
            "NO_SUCH_CANDIDATE", f"Run {result.run_id} has no candidate {name!r}.", f"It has: {known}."
        )
    return found


def _show(candidate: CandidateResult, output: Output, *, timings: bool) -> None:
    if output.form != Format.TEXT:
        from codeflash_parallel.result.result_document import candidate_document

        output.write_values(candidate_document(candidate))
        return
    from codeflash_parallel.report.terminal.console import make_console, print_candidate
    from codeflash_parallel.report.timing_table import candidate_timings

    def draw(stream: TextIO) -> None:
        console = make_console(stream)
        appendix = candidate_timings(candidate, console.width) if timings else ()
        print_candidate(candidate, console, appendix=appendix)

    output.write_report(draw)
