"""Why an arm of a race can no longer be timed."""

from __future__ import annotations

from codeflash_parallel.model.outcome import Ended
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


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
