"""`apply`, `show`, `report`, `list` and `clean`: commands on earlier runs; reports and exit codes of runs.

`apply` is the only command that writes into the user's tree.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel.cli import options
from codeflash_parallel.cli.exit_codes import BY_FAMILY, BY_SIGNAL, ExitCode
from codeflash_parallel.cli.options import Command
from codeflash_parallel.cli.output import Format, Output
from codeflash_parallel.config.settings_reader import read_settings
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.result.result_model import CandidateResult, RunResult
    from codeflash_parallel.workspace.git.git_client import Repository

#: Verdict → exit code; by value, for most commands end without a verdict and do not load the codes.
BY_VERDICT = MappingProxyType(
    {
        "winner": ExitCode.OK,
        "tie": ExitCode.OK,
        "checked": ExitCode.OK,
        "nothing_faster": ExitCode.NO_WINNER,
        "none_correct": ExitCode.NO_WINNER,
        "suspect": ExitCode.NO_WINNER,
        "budget_too_small": ExitCode.UNFIT,
        "too_noisy": ExitCode.UNFIT,
    }
)


def report(
    result: RunResult, output: Output, *, quiet: bool = False, verbose: bool = False, timings: bool = False
) -> None:
    """Write a result in the form that was asked for."""
    if output.form == Format.BRIEF:
        from codeflash_parallel.report.brief import brief

        output.write(brief(result))
        return
    if not output.form.is_text:
        from codeflash_parallel.result.result_document import document

        output.write_document(document(result))
        return
    from codeflash_parallel.report.console import Detail, make_console, print_report
    from codeflash_parallel.report.timing_table import run_timings

    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL

    def draw(stream: TextIO) -> None:
        appendix = run_timings(result) if timings else ()
        print_report(result, make_console(stream), detail, appendix=appendix)

    output.write_report(draw)


def exit_code_of(result: RunResult) -> ExitCode:
    """Return the exit code of a run: by its error, by its verdict, or by what a check found."""
    if result.error is not None:
        interrupted = BY_SIGNAL.get(result.error.code, ExitCode.INTERRUPTED)
        return BY_FAMILY.get(result.error.family, interrupted)
    if result.verdict is None:
        return ExitCode.UNFIT
    not_held = any(candidate.code == "RACE_NOT_HELD" for candidate in result.candidates)
    if not_held and result.verdict == "too_noisy":
        return ExitCode.NOT_HELD
    return BY_VERDICT[result.verdict]


_DAY_S = 24 * 60 * 60


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names an earlier run."""
    parser.add_argument(
        "run_name", metavar="RUN", nargs="?", default="last",
        help="Id of the run, the beginning of it, or last. Default: last.",
    )  # fmt: skip


def find_places(args: argparse.Namespace) -> tuple[Repository, Path]:
    """Return the repository and the cache that holds its runs.

    Raises:
        UsageError: not a repository, or a bad setting.
    """
    from codeflash_parallel.config.settings_reader import cache_root
    from codeflash_parallel.workspace.git.git_client import find_repository

    project = Path(args.project)
    settings = read_settings(project, os.environ, vars(args)).settings
    return find_repository(project), cache_root(settings)


def _candidate_of(result: RunResult, name: str) -> CandidateResult:
    """Return a candidate of a run.

    Raises:
        UsageError: `NO_SUCH_CANDIDATE`.
    """
    found = result.candidate(name)
    if found is None:
        known = ", ".join(candidate.id for candidate in result.candidates)
        message = f"Run {result.run_id} has no candidate {name!r}."
        raise UsageError("NO_SUCH_CANDIDATE", message, f"It has: {known}.")
    return found


# --- apply -----------------------------------------------------------------------------------------------


def _add_apply(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--candidate", metavar="ID", default="", help="Apply this one. Default: the winner.")


def _apply(args: argparse.Namespace, output: Output) -> int:
    """Apply the winner, or the candidate that is named; all of its files or none."""
    from codeflash_parallel.result.outcome_codes import CandidateStatus
    from codeflash_parallel.result.safe_text import one_line
    from codeflash_parallel.run.run_folder import find_run, load_document, load_edits, stored_result
    from codeflash_parallel.workspace.tree_writer import write_edits

    repository, cache = find_places(args)
    run_dir = find_run(cache / repository.key, args.run_name, with_result=True)
    result = stored_result(load_document(run_dir))
    name = args.candidate or result.winner
    if name is None:
        message = f"Run {result.run_id} has no winner."
        raise UsageError("NO_WINNER", message, "Name a candidate with --candidate.")
    candidate = _candidate_of(result, name)
    lines = [one_line(line) for line in write_edits(repository.root, load_edits(run_dir, name))]
    if not output.form.is_text:
        told = {"candidate": candidate.id, "status": candidate.status, "code": candidate.code}
        output.write_values({"run_id": result.run_id, **told, "changes": lines})
        return ExitCode.OK
    if candidate.status in {CandidateStatus.REJECTED, CandidateStatus.LOST, CandidateStatus.UNDECIDED}:
        lines.append(one_line(f"{name} is {candidate.status} {candidate.code}: {candidate.reason}"))
    output.write("".join(f"{line}\n" for line in lines))
    return ExitCode.OK


# --- show ------------------------------------------------------------------------------------------------


def _add_show(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--candidate", metavar="ID", default="", help="Show this candidate only.")
    options.add_timings(parser)


def _show(args: argparse.Namespace, output: Output) -> int:
    """Show a run: first differing calls, failing tests' messages, commands that reproduce them."""
    from codeflash_parallel.run.run_folder import find_run, load_document, stored_result

    repository, cache = find_places(args)
    result = stored_result(load_document(find_run(cache / repository.key, args.run_name, with_result=False)))
    if args.candidate:
        _show_candidate(_candidate_of(result, args.candidate), output, timings=args.timings)
    else:
        report(result, output, verbose=True, timings=args.timings)
    return ExitCode.OK


def _show_candidate(candidate: CandidateResult, output: Output, *, timings: bool) -> None:
    if not output.form.is_text:
        from codeflash_parallel.result.result_document import candidate_document

        output.write_values(candidate_document(candidate))
        return
    if output.form == Format.BRIEF:
        from codeflash_parallel.report.brief import brief_candidate

        output.write(brief_candidate(candidate))
        return
    from codeflash_parallel.report.console import make_console, print_candidate
    from codeflash_parallel.report.timing_table import candidate_timings

    def draw(stream: TextIO) -> None:
        appendix = candidate_timings(candidate) if timings else ()
        print_candidate(candidate, make_console(stream), appendix=appendix)

    output.write_report(draw)


# --- report ----------------------------------------------------------------------------------------------


def _report_page(args: argparse.Namespace, output: Output) -> int:
    """Write a run as a page for a browser: verdict, plots, differences, tests, lineage, timeline, diffs."""
    from codeflash_parallel.report.page.run_page import page_document, run_page
    from codeflash_parallel.run.run_folder import find_run, load_document, stored_result
    from codeflash_parallel.run.run_trace import read_trace

    output.must_be_writable()
    repository, cache = find_places(args)
    run_dir = find_run(cache / repository.key, args.run_name, with_result=False)
    result, trace = stored_result(load_document(run_dir)), read_trace(run_dir)
    output.write_page(lambda: run_page(result, trace), lambda: page_document(result, trace))
    return ExitCode.OK


# --- list ------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, output: Output) -> int:
    """List the runs, the latest first."""
    from codeflash_parallel.run.run_folder import list_runs

    repository, cache = find_places(args)
    runs = [_summary(document) for document in list_runs(cache / repository.key)]
    if not output.form.is_text:
        output.write_values(runs)
        return ExitCode.OK

    def draw(stream: TextIO) -> None:
        from codeflash_parallel.report.console import make_console, print_rows

        rows = [(r["run_id"], r["outcome"], str(r["candidates"]), r["summary"]) for r in runs]
        print_rows(("run", "verdict", "candidates", ""), rows, make_console(stream), overflow="ellipsis")

    output.write_report(draw)
    return ExitCode.OK


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    run_id, error = document.get("run_id", ""), document.get("error") or {}
    # What can be done about a run that did not come to its end.
    has_ended = document.get("complete") or error
    hint = error.get("hint") if has_ended else f"Continue with: `codeflash-parallel resume {run_id}`."
    return {
        "run_id": run_id,
        "outcome": document.get("verdict") or error.get("code") or "incomplete",
        "winner": document.get("winner"),
        "candidates": len(document.get("candidates", ())),
        "summary": " ".join(filter(None, (document.get("summary") or error.get("message"), hint))),
    }


# --- clean -----------------------------------------------------------------------------------------------


def _add_clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="Only say what would be removed.")
    parser.add_argument(
        "--older-than",
        metavar="DAYS",
        type=options.argument(_days, "a number of days"),
        default=0.0,
        help="Only what is older. Default: everything.",
    )


def _days(text: str) -> float:
    if not 0 <= (days := float(text)) < float("inf"):
        raise ValueError(text)
    return days


def _clean(args: argparse.Namespace, output: Output) -> int:
    """Remove results, baselines, mirrors and slots of all repositories that are not in use."""
    from codeflash_parallel.cli.warm_client import end_daemon
    from codeflash_parallel.config.settings_reader import cache_root
    from codeflash_parallel.result.safe_text import one_line
    from codeflash_parallel.workspace.cleanup import CleanMode, clean

    settings = read_settings(Path(args.project), os.environ, vars(args)).settings
    cache = cache_root(settings)
    if not args.dry_run:
        end_daemon(cache)  # one that is idle needs nothing of what it has open
    mode = CleanMode.DRY_RUN if args.dry_run else CleanMode.REMOVE
    leftovers = clean(cache, mode, older_than_s=args.older_than * _DAY_S)
    named = [{"kind": leftover.kind, "path": one_line(str(leftover.path))} for leftover in leftovers]
    if not output.form.is_text:
        output.write_values({"cache": one_line(str(cache)), "dry_run": args.dry_run, "removed": named})
        return ExitCode.OK
    output.write("".join(f"{one['kind']}: {one['path']}\n" for one in named))
    word = "would be removed" if args.dry_run else "removed"
    sys.stderr.write(f"{len(named)} {word} from {one_line(str(cache))}\n")
    return ExitCode.OK


COMMANDS = {
    "apply": Command(_add_apply, _apply),
    "show": Command(_add_show, _show),
    "report": Command(add_run, _report_page),
    "list": Command(lambda _parser: None, _list),
    "clean": Command(_add_clean, _clean),
}
