"""The report of a run in the form that was asked for, and its exit code."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

from codeflash_parallel.cli.exit_codes import BY_FAMILY, BY_SIGNAL, ExitCode
from codeflash_parallel.cli.output import Format, Output

if TYPE_CHECKING:
    from codeflash_parallel.result.result_model import RunResult

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
    if output.form != Format.TEXT:
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
