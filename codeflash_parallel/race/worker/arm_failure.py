"""Reasons why an arm of a race can no longer be timed."""

from __future__ import annotations

from codeflash_parallel.race.race_result import Disqualification
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit
from codeflash_parallel.sandbox.runner_command import parse_records

#: How much of a failed arm's own words is kept.
SAID_CHARS = 300


class ArmFailure(Exception):  # noqa: N818 - a state of one arm, not an error of ours
    """An arm can no longer be timed; the reason is one clause about it.

    Never leaves this package.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ArmResponseTimeout(ArmFailure):
    """The arm did not answer in time."""


class ArmWorkTimeout(ArmFailure):
    """The arm's calls were not done in time."""


class RaceBudgetExceeded(Exception):  # noqa: N818 - the end of a race, not an error
    """The budget was spent before all arms were ready; none of them is to blame.

    Never leaves this package.
    """


class ArmStartFailure(ArmFailure):
    """The machinery could not start the arm's process, or keep it."""


class ArmOutOfMemory(ArmStartFailure):
    """The kernel killed the arm's process: the machine had no memory left."""


class ArmMemoryLimitExceeded(ArmFailure):
    """The arm's process reached its memory limit."""


def explained(lost: ArmFailure, ended: ProcessExit) -> ArmFailure:
    """Return why an arm was lost, with what its process said and how it ended."""
    if ended.ended is ExitKind.NOT_STARTED:
        return ArmStartFailure(f"could not be started: {ended.message}")
    if ended.ended is ExitKind.OOM_KILLED:
        return ArmOutOfMemory("was killed: the machine had no memory left")
    if ended.ended is ExitKind.MEMORY_LIMIT:
        return ArmMemoryLimitExceeded(f"reached its memory limit: {ended.message}")
    errors = [str(r.get("message", "")) for r in parse_records(ended.records) if r.get("t") == "error"]
    said = errors[-1] if errors else _last_line(ended.stderr)
    if isinstance(lost, ArmResponseTimeout | ArmWorkTimeout) or not said:
        return lost
    return ArmFailure(f"{lost.reason}: {said[:SAID_CHARS]}")


def code_of(lost: ArmFailure) -> Code:
    """Return the code of the machinery's failure, as checks have it."""
    return Code.INFRA_MEMORY if isinstance(lost, ArmOutOfMemory) else Code.INFRA_SLOT


def out_of(lost: ArmFailure) -> Disqualification:
    """Return what is said of a candidate that could not be timed."""
    match lost:
        case ArmStartFailure():
            return Disqualification(status=CandidateStatus.INFRA, code=code_of(lost), reason=lost.reason)
        case ArmMemoryLimitExceeded():
            return Disqualification(
                status=CandidateStatus.REJECTED, code=Code.OUT_OF_MEMORY, reason=lost.reason
            )
        case ArmWorkTimeout():
            return Disqualification(status=CandidateStatus.LOST, code=Code.NOT_FASTER, reason=lost.reason)
        case _:
            return Disqualification(
                status=CandidateStatus.UNDECIDED, code=Code.NOT_CONFIRMED, reason=f"not timed: {lost.reason}"
            )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
