"""The kernel's accounts of a unit's process, read from outside: the unit's own word is never used.

Every figure is 0 where the kernel does not say, except the CPU clock: without it there is no race.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

#: Longest of the files read here, in bytes: `status` of a process, with room.
_FILE_BYTES = 8192

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class ProcessEnded(Exception):  # noqa: N818 - a state of the unit, not an error of ours
    """The process has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ResidentMemory:
    """Resident memory of a process, in bytes.

    Attributes:
        peak: the most that it ever held.
    """

    now: int = 0
    peak: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessCounters:
    """Activity of a process so far, apart from using its core.

    Attributes:
        queued_ns: waiting for a core.
        reads: read calls on files, pipes and the like.
    """

    queued_ns: int = 0
    reads: int = 0


class ProcessAccounting:
    """Reads the accounts of one process."""

    def __init__(self, pid: int) -> None:
        self._clock = cpu_clock(pid)
        self._folder = f"/proc/{pid}"

    def cpu_ns(self) -> int:
        """Return the CPU time of the process, all its threads.

        Raises:
            ProcessEnded: it has ended.
        """
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            raise ProcessEnded from None

    def counts(self) -> ProcessCounters:
        """Return what it has done so far."""
        schedstat = self._read("schedstat").split()
        return ProcessCounters(
            queued_ns=int(schedstat[1]) if len(schedstat) > 1 else 0,
            reads=field_of(self._read("io"), b"syscr:"),
        )

    def memory(self) -> ResidentMemory:
        """Return its resident memory."""
        status = self._read("status")
        return ResidentMemory(now=field_of(status, b"VmRSS:") * 1024, peak=field_of(status, b"VmHWM:") * 1024)

    def children(self) -> int:
        """Return how many processes it has started and not reaped, dead ones included."""
        try:
            threads = [thread.name for thread in Path(self._folder, "task").iterdir()]
        except OSError:
            return 0
        return sum(len(self._read(f"task/{thread}/children").split()) for thread in threads)

    def _read(self, name: str) -> bytes:
        try:
            file = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            return os.read(file, _FILE_BYTES)
        except OSError:
            return b""
        finally:
            os.close(file)


def own_queued_ns() -> int:
    """Return for how long this thread has waited for a core."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def field_of(text: bytes, name: bytes) -> int:
    """Return the number that follows a name in a file of `/proc`; 0 where there is none."""
    _, found, rest = text.partition(name)
    return int(rest.split(None, 1)[0]) if found else 0


def cpu_clock(pid: int) -> int:
    """Return the id of the CPU clock of a process and all its threads (linux/posix-timers.h)."""
    return (~pid << 3) | 2


def cpu_with_children_ns(pid: int) -> int:
    """Return the CPU time of a process and of the children that it has reaped, to the tick."""
    fields = _stat(pid)
    return _TICK_NS * sum(map(int, fields[11:15])) if fields else 0


def reaped_children_ns(pid: int) -> int:
    """Return the CPU time of the children that a process has reaped and of all that those reaped."""
    fields = _stat(pid)
    return _TICK_NS * sum(map(int, fields[13:15])) if fields else 0


def _stat(pid: int) -> list[bytes]:
    """Return the fields of a process's line in the process table from its state on; empty if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    # The name may hold anything, also spaces and parentheses; the fields follow its last parenthesis.
    return stat.rpartition(b")")[2].split()
