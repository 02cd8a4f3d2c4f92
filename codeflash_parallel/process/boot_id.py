"""Boot id: what happened before another boot, or on another host, is told by it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the name of this boot of this host; empty where the kernel gives none."""
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii").strip()
    return ""
