"""Whether a worker gets on with its job: alive is not enough. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: Less CPU time than this since the last look is no progress: an event loop that only turns uses as much.
_LEAST_CPU_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """What is seen of a worker at one moment.

    Attributes:
        told: how many times it has said that something happened.
        cpu_s: of its whole process tree since it started.
        waits: it has said that it waits for its turn on this machine; nothing else can happen then.
        stopped: it, or one of its descendants that has to work, cannot run (SIGSTOP, a debugger).
    """

    told: int
    cpu_s: float
    waits: bool = False
    stopped: bool = False


def gets_on(before: Sign, now: Sign) -> bool:
    """Say whether a worker has got on between two looks."""
    if now.stopped:
        return False
    return now.waits or now.told != before.told or now.cpu_s - before.cpu_s >= _LEAST_CPU_S
