"""Whose fault it is that a job has no verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, InternalError
from codeflash_parallel.result.outcome_codes import Code


class FaultOwner(StrEnum):
    """Owner of an error."""

    #: The job's: another attempt would fail too, so the error is its result.
    JOB = "job"
    #: The machine's: the job is tried again after a pause, and not charged.
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

#: Codes of candidates that are faults of the machine.
_OF_THE_MACHINE: Final = frozenset(
    {Code.INFRA_SLOT, Code.INFRA_DISK, Code.INFRA_MEMORY, Code.INFRA_KILLED, Code.RACE_NOT_HELD}
)


def blame(error: CodeflashParallelError) -> FaultOwner:
    """Return the owner of an error."""
    if isinstance(error, InternalError):
        return FaultOwner.US
    passing = isinstance(error, EnvironmentFault) and error.code in _PASSING
    return FaultOwner.MACHINE if passing else FaultOwner.JOB


def machine_fault(document: Mapping[str, Any]) -> str:
    """Return the first code that is a fault of the machine; empty if none is."""
    codes = (candidate.get("code", "") for candidate in document.get("candidates", ()))
    return next((code for code in codes if code in _OF_THE_MACHINE), "")


def has_verdicts(document: Mapping[str, Any]) -> bool:
    """Return whether some candidates have verdicts that must not be lost."""
    codes = [candidate.get("code", "") for candidate in document.get("candidates", ())]
    return Code.RACE_NOT_HELD not in codes and any(code not in _OF_THE_MACHINE for code in codes)
