"""The machine's clocks."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

from codeflash_parallel.queue.jobs import Instant


def now() -> Instant:
    """Return the present moment by the boot clock and by the wall clock."""
    return Instant(wall_s=time.time(), boot_s=time.clock_gettime(time.CLOCK_BOOTTIME), boot_id=_boot_id())


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
