"""How many checks run at once, by the cores and the memory that each takes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.dispatch.step_times import ProcessUsage

#: Checks that the measured CPU use is taken from: enough for a mean, few enough to follow a change.
RECENT = 16
#: What a check takes where nothing was measured: one core.
_ONE_CORE = 1.0
#: Shorter checks tell nothing: their clocks are rounded.
_SHORTEST_NS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckCapacity:
    """What there is to share.

    Attributes:
        slots: that exist.
        cores: cores' worth of CPU time that we may use.
        memory_bytes: what all checks and servers together may hold.
    """

    slots: int
    cores: float
    memory_bytes: int


def cores_of_a_check(alone: ProcessUsage, recent: Iterable[ProcessUsage]) -> float:
    """Return how many cores one check keeps busy.

    The baseline ran alone, so that its figure is exact; what ran beside others shows too little, and counts
    only where it shows more (a candidate may be busy where the baseline slept).
    """
    last = tuple(recent)[-RECENT:]
    among = ProcessUsage(cpu_ns=sum(u.cpu_ns for u in last), wall_ns=sum(u.wall_ns for u in last))
    return max(_share(alone), _share(among)) or _ONE_CORE


def _share(used: ProcessUsage) -> float:
    return used.cpu_ns / used.wall_ns if used.wall_ns >= _SHORTEST_NS else 0.0


def at_once(room: CheckCapacity, *, cores_each: float, bytes_each: int) -> int:
    """Return how many checks may run at the same time: at least one, at most one a slot.

    Args:
        room: what there is to share.
        cores_each: cores that one check keeps busy, more than 0.
        bytes_each: resident memory of one check and of its slot's servers; 0: unknown.
    """
    by_cores = math.floor(room.cores / cores_each + 0.5)
    by_memory = room.memory_bytes // bytes_each if bytes_each else room.slots
    return max(1, min(room.slots, by_cores, by_memory))


def slots_used(room: CheckCapacity, baseline: Baseline, candidates: int) -> int:
    """Return how many slots get a candidate, as far as the baseline tells: others need no servers.

    Args:
        room: what there is to share.
        baseline: a draft will do.
        candidates: how many are known to come.
    """
    alone = ProcessUsage(cpu_ns=baseline.cpu_ns, wall_ns=baseline.wall_ns, rss_bytes=baseline.rss_bytes)
    cores_each = cores_of_a_check(alone, ())
    return min(candidates, at_once(room, cores_each=cores_each, bytes_each=alone.rss_bytes))
