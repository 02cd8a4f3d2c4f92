"""`apply`: write a candidate of an earlier run into the user's tree. Nothing else of ours writes there."""

from __future__ import annotations

import argparse

from codeflash_parallel.cli.exit_codes import ExitCode
from codeflash_parallel.cli.output import Output
from codeflash_parallel.cli.run_support.run_finder import add_run, find_places
from codeflash_parallel.cli.show import candidate_of
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.outcome_codes import CandidateStatus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `apply`."""
    add_run(parser)
    parser.add_argument("--candidate", metavar="ID", default="", help="Apply this one. Default: the winner.")


def run(args: argparse.Namespace, output: Output) -> int:
    """Apply the winner, or the candidate that is named; all of its files or none."""
    from codeflash_parallel.report.safe_text import one_line
    from codeflash_parallel.run.run_folder import load_document, load_edits, stored_result
    from codeflash_parallel.workspace.apply.tree_writer import write_edits

    places = find_places(args)
    run_dir = places.run_dir(args.run_name)
    result = stored_result(load_document(run_dir))
    name = args.candidate or result.winner
    if name is None:
        raise UsageError(
            "NO_WINNER", f"Run {result.run_id} has no winner.", "Name a candidate with --candidate."
        )
    candidate = candidate_of(result, name)
    lines = write_edits(places.repository.root, load_edits(run_dir, name))
    output.write("".join(f"{one_line(line)}\n" for line in lines))
    if candidate.status in {CandidateStatus.REJECTED, CandidateStatus.LOST, CandidateStatus.UNDECIDED}:
        output.write(
            one_line(f"{name} is {candidate.status.value} {candidate.code.value}: {candidate.reason}") + "\n"
        )
    return ExitCode.OK
