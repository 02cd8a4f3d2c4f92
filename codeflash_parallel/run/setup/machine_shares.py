"""What of the machine the checks of one evaluator get: slots, cores, memory. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from codeflash_parallel.check.baseline_model import Baseline
from codeflash_parallel.check.dispatch.step_times import ProcessUsage
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.machine import Machine, auto_slots
from codeflash_parallel.result.errors import UsageError

#: Memory that is never given to checks: for the evaluator, git and the page cache.
_RESERVED_BYTES = 512 * 1024 * 1024
#: No check is given less: an interpreter with a scientific stack needs that much.
_LEAST_BYTES = 512 * 1024 * 1024
_MIB = 1 << 20
#: No check is given less than this many times what the baseline takes: it replays calls besides, in a fork
#: whose template's pages count in full.
_LEAST_FACTOR = 1.25
#: A share is not less than this many times what the baseline takes, either: a candidate may take more.
_SHARE_FACTOR = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Shares:
    """What may be used.

    Attributes:
        slots: how many candidates are evaluated at once.
        cores: cores' worth of CPU time that checks may use.
        free_bytes: what all checks and servers together may hold.
        memory_bytes: the memory limit of one check, as long as nothing is known of the baseline.
    """

    slots: int
    cores: float
    free_bytes: int
    memory_bytes: int


def shares_of(machine: Machine, settings: Settings, sharers: int = 1) -> Shares:
    """Return what the settings ask for, else a fair share of what is available.

    Args:
        sharers: how many evaluators share the machine's memory: a daemon's workers.
    """
    wanted = settings.parallel_candidates
    slots = auto_slots(machine) if wanted == "auto" else wanted
    free_bytes = max(0, machine.memory_bytes - _RESERVED_BYTES) // sharers
    fair_bytes = max(free_bytes // (slots + 1), _LEAST_BYTES)
    return Shares(
        slots=slots,
        cores=min(float(machine.cores), machine.quota_cores),
        free_bytes=free_bytes,
        memory_bytes=settings.memory_limit * _MIB if settings.memory_limit else fair_bytes,
    )


def memory_limit_of(shares: Shares, settings: Settings, baseline_bytes: int) -> int:
    """Return the memory limit of one check, in bytes, when it is known what the baseline takes.

    Args:
        baseline_bytes: largest resident size of the baseline's run.

    Raises:
        UsageError: `BAD_SETTING`, a limit was asked for that the baseline itself would not keep.
    """
    if not settings.memory_limit:
        return max(shares.memory_bytes, _SHARE_FACTOR * baseline_bytes)
    least_mib = ceil(_LEAST_FACTOR * baseline_bytes / _MIB)
    if settings.memory_limit < least_mib:
        raise UsageError(
            "BAD_SETTING",
            f"memory_limit is {settings.memory_limit} MiB, and the baseline's own tests take "
            f"{ceil(baseline_bytes / _MIB)} MiB.",
            f"A check takes up to a quarter more: give at least {least_mib}, or 0 for a fair share.",
        )
    return shares.memory_bytes


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
