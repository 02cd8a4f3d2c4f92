"""Attribute a shortage of disk or memory to the candidate or to the machine.

A process that is refused disk or memory says so in the words of the kernel. Only the machine can tell why:
it has room (then it was the candidate's limit), or has none (then nothing is known about the candidate).
A candidate that merely says these words is rejected as before, under another code.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.check.check_plan import CheckOutcome
from codeflash_parallel.process.machine import read_machine
from codeflash_parallel.result.outcome_codes import Code, Trait

#: The kernel's words for ENOSPC, EDQUOT and EFBIG (a limit of a file's size), and the numbers in Python's.
_DISK = re.compile(r"\[Errno (?:28|122|27)\]|No space left on device|Disk quota exceeded|File too large")
_MEMORY = re.compile(
    r"^(?:E\s+)?(?:\w+\.)*_?\w*MemoryError\b|\[Errno 12\]|Cannot allocate memory", re.MULTILINE
)

#: A disk with less than this, or than so many inodes, is full.
ROOM_BYTES = 16 << 20
ROOM_FILES = 64


class ResourceShortage(StrEnum):
    """A resource that a check says it was refused."""

    DISK = "disk"
    MEMORY = "memory"


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Resources that the machine has left after a check, and that the check took.

    Attributes:
        disk_bytes, files: free bytes and inodes where the slot lies.
        taken_bytes, taken_files: what was written into the slot since the candidate was staged.
        memory_bytes: memory that can be taken now.
        needed_bytes: memory that a check of the baseline needs; 0: unknown.
    """

    disk_bytes: int
    files: int
    taken_bytes: int
    taken_files: int
    memory_bytes: int
    needed_bytes: int = 0


def short_of(outcome: CheckOutcome) -> ResourceShortage | None:
    """Return what a check says it got no more of; `None` if it says nothing like that."""
    if Trait.SHORTAGE not in outcome.code.traits:
        return None
    for words in _words(outcome):
        if _DISK.search(words):
            return ResourceShortage.DISK
        if _MEMORY.search(words):
            return ResourceShortage.MEMORY
    return None


def _words(outcome: CheckOutcome) -> Iterator[str]:
    yield outcome.reason
    yield from (failed.message for failed in outcome.failures)
    if outcome.difference is not None:
        yield outcome.difference.got


def shared(outcome: CheckOutcome, short: ResourceShortage) -> CheckOutcome:
    """Return the outcome of a check that was not alone: others may have taken what it did not get."""
    code = Code.INFRA_DISK if short is ResourceShortage.DISK else Code.INFRA_MEMORY
    return replace(outcome, code=code, reason=f"The machine gave it no more {short}: {outcome.reason}")


def killed_by_itself(outcome: CheckOutcome, supply: Supply, attempts: int) -> CheckOutcome:
    """Return the outcome of a check that was killed each time, alone at last.

    The kernel counts whom it kills for want of memory, and that was not so here. Other guards of the memory
    kill before there is none left: with plenty of it there was no reason for them, either.

    Args:
        outcome: of the last attempt.
        supply: what the machine has left after it.
        attempts: how many there were.
    """
    plenty = 2 * max(supply.needed_bytes, outcome.used.rss_bytes)
    if supply.memory_bytes < plenty:
        return outcome
    why = (
        f"So it was in each of {attempts} attempts, alone at last, with {supply.memory_bytes >> 20} MiB left"
    )
    return replace(outcome, code=Code.CRASHED, reason=f"{outcome.reason} {why}: it does so itself.")


def charged(outcome: CheckOutcome, short: ResourceShortage, supply: Supply) -> CheckOutcome:
    """Return the outcome of a check that was alone: the candidate's limit, or a machine without room."""
    if short is ResourceShortage.DISK:
        return _disk(outcome, supply)
    if supply.memory_bytes < supply.needed_bytes:
        return shared(outcome, short)
    return replace(outcome, code=Code.OUT_OF_MEMORY, reason=f"It was refused more memory: {outcome.reason}")


def _disk(outcome: CheckOutcome, supply: Supply) -> CheckOutcome:
    full = supply.disk_bytes < ROOM_BYTES or supply.files < ROOM_FILES
    # Without what it wrote itself there would have been room: then it is the candidate who filled the disk.
    own = supply.disk_bytes + supply.taken_bytes >= 2 * ROOM_BYTES and (
        supply.files + supply.taken_files >= 2 * ROOM_FILES
    )
    if full and not own:
        return shared(outcome, ResourceShortage.DISK)
    wrote = f" It wrote {supply.taken_bytes >> 20} MiB into its slot." if full else ""
    reason = f"It was refused more disk: {outcome.reason}{wrote}"
    return replace(outcome, code=Code.DISK_LIMIT, reason=reason)


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
