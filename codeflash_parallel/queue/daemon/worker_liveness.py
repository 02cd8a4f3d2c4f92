"""Whether a worker lives, and whether it gets on with its job: one is not enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Less CPU time than this since the last look is no progress: an event loop that only turns uses as much.
_LEAST_CPU_S: Final = 0.02
#: A worker that lives and has neither said anything nor used CPU time for so long is stuck. What it starts
#: has deadlines of its own, and those of checks are shorter: a candidate that hangs is no fault of ours.
STUCK_S: Final = 900.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSample:
    """What is seen of a worker at one moment.

    Attributes:
        answers: how many times its event loop has answered us.
        told: how many times it has said that something happened.
        cpu_s: of its whole process tree since it started.
        waits: it has said that it waits for its turn on this machine; nothing else can happen then.
        stopped: it cannot run (SIGSTOP, a debugger).
    """

    answers: int
    told: int
    cpu_s: float
    waits: bool = False
    stopped: bool = False


def lives(before: WorkerSample, now: WorkerSample) -> bool:
    """Say whether a worker has lived between two looks: it can run, and its event loop turns."""
    return not now.stopped and now.answers != before.answers


def gets_on(before: WorkerSample, now: WorkerSample) -> bool:
    """Say whether something has been done between two looks."""
    return now.waits or now.told != before.told or now.cpu_s - before.cpu_s >= _LEAST_CPU_S
