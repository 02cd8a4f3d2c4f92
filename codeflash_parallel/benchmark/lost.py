"""Why an arm of a race can no longer be timed."""

from __future__ import annotations

from codeflash_parallel.benchmark.raced import Out
from codeflash_parallel.model.outcome import Code, Ended, Status
from codeflash_parallel.model.workspace import (
    Exit,
)
from codeflash_parallel.process.guest import parse_records

#: How much of a failed arm's own words is kept.
SAID_CHARS = 300


class ArmLost(Exception):  # noqa: N818 - a state of one arm, not an error of ours
    """An arm can no longer be timed; the reason is one clause about it.

    Never leaves this package.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ArmLate(ArmLost):
    """The arm did not answer in time."""


class ArmSlow(ArmLost):
    """The arm's calls were not done in time."""


class OutOfTime(Exception):  # noqa: N818 - the end of a race, not an error
    """The budget was spent before all arms were ready; none of them is to blame.

    Never leaves this package.
    """


class ArmNotStarted(ArmLost):
    """The machinery could not start the arm's process, or keep it."""


class ArmStarved(ArmNotStarted):
    """The kernel killed the arm's process: the machine had no memory left."""


class ArmTooLarge(ArmLost):
    """The arm's process reached its memory limit."""


def explained(lost: ArmLost, ended: Exit) -> ArmLost:
    """Return why an arm was lost, with what its process said and how it ended."""
    if ended.ended is Ended.NOT_STARTED:
        return ArmNotStarted(f"could not be started: {ended.message}")
    if ended.ended is Ended.OOM_KILLED:
        return ArmStarved("was killed: the machine had no memory left")
    if ended.ended is Ended.MEMORY_LIMIT:
        return ArmTooLarge(f"reached its memory limit: {ended.message}")
    errors = [str(r.get("message", "")) for r in parse_records(ended.records) if r.get("t") == "error"]
    said = errors[-1] if errors else _last_line(ended.stderr)
    if isinstance(lost, ArmLate | ArmSlow) or not said:
        return lost
    return ArmLost(f"{lost.reason}: {said[:SAID_CHARS]}")


def code_of(lost: ArmLost) -> Code:
    """Return the code of the machinery's failure, as checks have it."""
    return Code.INFRA_MEMORY if isinstance(lost, ArmStarved) else Code.INFRA_SLOT


def out_of(lost: ArmLost) -> Out:
    """Return what is said of a candidate that could not be timed."""
    match lost:
        case ArmNotStarted():
            return Out(status=Status.INFRA, code=code_of(lost), reason=lost.reason)
        case ArmTooLarge():
            return Out(status=Status.REJECTED, code=Code.OUT_OF_MEMORY, reason=lost.reason)
        case ArmSlow():
            return Out(status=Status.LOST, code=Code.NOT_FASTER, reason=lost.reason)
        case _:
            return Out(status=Status.UNDECIDED, code=Code.NOT_CONFIRMED, reason=f"not timed: {lost.reason}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
