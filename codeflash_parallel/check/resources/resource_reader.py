"""Read what the machine has left, and what a check wrote into its slot."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from codeflash_parallel.check.resources.shortage_attribution import Supply
from codeflash_parallel.process.machine import read_machine

#: st_blocks counts these, whatever the file system's own blocks are.
_BLOCK_BYTES = 512


def read_supply(folder: Path, since_ns: int, needed_bytes: int) -> Supply:
    """Return what is left for a check.

    Args:
        folder: the slot's.
        since_ns: when the candidate was staged, in the clock of the file system (`time.time_ns`).
        needed_bytes: memory that a check of the baseline needs; 0: unknown.

    Raises:
        OSError: the folder is gone.
    """
    disk = os.statvfs(folder)
    taken = [status.st_blocks * _BLOCK_BYTES for status in _changed(folder, since_ns)]
    return Supply(
        disk_bytes=disk.f_bavail * disk.f_frsize,
        # Some file systems have no table of inodes: they say 0 of 0.
        files=disk.f_favail if disk.f_files else sys.maxsize,
        taken_bytes=sum(taken),
        taken_files=len(taken),
        memory_bytes=read_machine().memory_bytes,
        needed_bytes=needed_bytes,
    )


def _changed(folder: Path, since_ns: int) -> Iterator[os.stat_result]:
    """Yield everything below a folder that was changed since; a candidate cannot set that time."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            try:
                status = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - as many files as there are
            except OSError:  # removed meanwhile
                continue
            if status.st_ctime_ns >= since_ns:
                yield status
