"""The machine that a race runs on: its clocks, and a thread of ours kept out of the way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from codeflash_parallel.race.statistics.round_validity import MachineReading

_CPU_DEVICES = Path("/sys/devices/system/cpu")
#: Clocks read within this time are read at once; tried so many times.
_AT_ONCE_NS = 1_000_000
_TRIES = 20

#: Reads the machine's clocks.
ReadMachine = Callable[[], MachineReading]


def read_machine() -> MachineReading:
    """Read the clocks as of one moment; on a busy machine we may lose the core between two of them."""
    clocks = (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME, time.CLOCK_REALTIME, time.CLOCK_MONOTONIC)
    for _ in range(_TRIES):
        first, boot, real, last = map(time.clock_gettime_ns, clocks)
        if last - first < _AT_ONCE_NS:
            break
    return MachineReading(monotonic_ns=first, boot_ns=boot, real_ns=real)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""


@contextmanager
def stand_aside(core: int, devices: Path = _CPU_DEVICES) -> Iterator[None]:
    """Keep this thread off the cores that share execution units with a round's core, if others are left.

    The core itself is free whenever this thread has something to do.

    Args:
        core: -1 for none in particular.
        devices: where the kernel shows the topology.
    """
    allowed = os.sched_getaffinity(0)
    elsewhere = allowed - siblings(core, devices)
    if core < 0 or elsewhere == allowed or not elsewhere:
        yield
        return
    os.sched_setaffinity(0, elsewhere)
    try:
        yield
    finally:
        # A core of the set may have been taken away meanwhile.
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def siblings(core: int, devices: Path = _CPU_DEVICES) -> frozenset[int]:
    """Return the other cores that share a core's execution units, as far as the kernel shows them."""
    shown = _text(devices / f"cpu{core}/topology/thread_siblings_list").strip()
    return frozenset(_numbers(shown)) - {core}


def _numbers(cpu_list: str) -> Iterator[int]:
    """Yield the numbers of a list as the kernel writes it, such as ``0-2,5``."""
    for part in filter(None, cpu_list.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
