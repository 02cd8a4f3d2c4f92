"""Whose fault it is that a job did not come to a verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, InternalError
from codeflash_parallel.result.outcome_codes import Code, Trait


class FaultOwner(StrEnum):
    """Whom an error is charged to."""

    #: The job's: trying again leads to the same, so the error is its result.
    JOB = "job"
    #: The machine's: it is tried again after a pause, and nobody is charged.
    MACHINE = "machine"
    #: Ours: the attempt counts as crashed.
    US = "us"


#: Faults of the machine that may be gone in a minute. All other environment faults are the project's.
_PASSING: Final = frozenset(
    {
        *("DISK_FULL", "NO_MEMORY", "TOO_MANY_FILES", "TOO_FEW_PROCESSES", "CANNOT_START_PROCESS"),
        *("CACHE_BUSY", "CACHE_UNWRITABLE", "GIT_HANGS", "GIT_FAILED", "MIRROR_DAMAGED", "NO_SLOT"),
        *("BENCHMARK_TOKEN_BUSY", "QUIET_UNUSABLE"),
    }
)

#: Codes of a candidate's result that say something about the machine, and nothing about the candidate.
_OF_THE_MACHINE: Final = frozenset(code for code in Code if Trait.INFRA in code.traits) | {Code.RACE_NOT_HELD}


def blame(error: CodeflashParallelError) -> FaultOwner:
    """Say whom an error is charged to."""
    if isinstance(error, InternalError):
        return FaultOwner.US
    passing = isinstance(error, EnvironmentFault) and error.code in _PASSING
    return FaultOwner.MACHINE if passing else FaultOwner.JOB


def machine_fault(document: Mapping[str, Any]) -> str:
    """Return the code of the first candidate that the machine has failed; empty: it has failed none."""
    codes = (candidate.get("code", "") for candidate in document.get("candidates", ()))
    return next((code for code in codes if code in _OF_THE_MACHINE), "")


def has_verdicts(document: Mapping[str, Any]) -> bool:
    """Say whether the machine has failed some candidates only: the others' verdicts are not to be lost."""
    codes = [candidate.get("code", "") for candidate in document.get("candidates", ())]
    return Code.RACE_NOT_HELD not in codes and any(code not in _OF_THE_MACHINE for code in codes)
