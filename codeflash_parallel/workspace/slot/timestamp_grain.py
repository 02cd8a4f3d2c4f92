"""The grain of the clock that stamps files: two changes within a tick leave the same time.

Kernels before 6.13 stamp with a clock that moves 100 to 1,000 times a second. Newer ones, on most file
systems, give a time of its own to each change that somebody may tell apart.
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path

#: Linux' number of the clock that stamps files; Python has no name for it.
_COARSE_CLOCK = 5
#: The slowest kernels tick a hundred times a second. Other clocks (a server's) are not waited for longer.
_LONGEST_TICK_S = 0.01
_POLL_S = 0.0005
#: Two writes in a row cross a tick once in a hundred times at most; so many times in a row they do not.
_TRIES = 4


class TimestampGrain(StrEnum):
    """How exactly changes of files are stamped."""

    #: Each change has a time of its own.
    FINE = "fine"
    #: Changes within a tick of the kernel's clock have one time.
    TICK = "tick"


def find_grain(folder: Path) -> TimestampGrain:
    """Find out how the files of a folder are stamped, by doing it.

    Raises:
        OSError: nothing can be written there.
    """
    probe = folder / "probe"
    try:
        return TimestampGrain.FINE if all(_differ(probe) for _ in range(_TRIES)) else TimestampGrain.TICK
    finally:
        probe.unlink(missing_ok=True)


def _differ(probe: Path) -> bool:
    probe.write_bytes(b"1")
    before = probe.stat().st_ctime_ns
    probe.write_bytes(b"2")
    return probe.stat().st_ctime_ns != before


def wait_past(newest_ns: int) -> None:
    """Wait until a change gets a later time than this one: a tick at most, mostly not at all."""
    deadline = time.monotonic() + _LONGEST_TICK_S
    while time.clock_gettime_ns(_COARSE_CLOCK) <= newest_ns and time.monotonic() < deadline:
        time.sleep(_POLL_S)
