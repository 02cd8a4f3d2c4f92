"""What a run's verdict says to a shell; apart from `exits`, for most commands end without a verdict."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from codeflash_parallel.cli.exit_codes import BY_FAMILY, BY_SIGNAL, ExitCode
from codeflash_parallel.result.outcome_codes import Code, Verdict

if TYPE_CHECKING:
    from codeflash_parallel.result.result_model import RunResult

BY_VERDICT = MappingProxyType(
    {
        Verdict.WINNER: ExitCode.OK,
        Verdict.TIE: ExitCode.OK,
        Verdict.CHECKED: ExitCode.OK,
        Verdict.NOTHING_FASTER: ExitCode.NO_WINNER,
        Verdict.NONE_CORRECT: ExitCode.NO_WINNER,
        Verdict.SUSPECT: ExitCode.NO_WINNER,
        Verdict.BUDGET_TOO_SMALL: ExitCode.UNFIT,
        Verdict.TOO_NOISY: ExitCode.UNFIT,
    }
)


def exit_code_of(result: RunResult) -> ExitCode:
    """Return the exit code of a run: by its error, by its verdict, or by what a check found."""
    if result.error is not None:
        interrupted = BY_SIGNAL.get(result.error.code, ExitCode.INTERRUPTED)
        return BY_FAMILY.get(result.error.family, interrupted)
    if result.verdict is None:
        return ExitCode.UNFIT
    codes = {candidate.code for candidate in result.candidates}
    if Code.RACE_NOT_HELD in codes and result.verdict is Verdict.TOO_NOISY:
        return ExitCode.NOT_HELD
    return BY_VERDICT[result.verdict]
