"""Process trees of workers: what they use, and their end, nobody left."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from codeflash_parallel.process import process_table
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.process.supervisor.spawner import adopt_no_more_orphans, adopt_orphans

#: A worker's launcher kills its jobs by itself once the worker is gone, which takes it 2 s at most.
_GRACE_S = 3.0
#: How long it is tried to kill what is left after that.
_KILL_S = 5.0
_LOOK_S = 0.02


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Be, inside the block, the parent of whatever a dead worker leaves behind."""
    adopt_orphans()
    try:
        yield
    finally:
        adopt_no_more_orphans()


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, its descendants, and those of them that ended and were reaped."""
    own = process_table.process(pid)
    return sum((proc.cpu_s for proc in process_table.descendants(pid)), own.cpu_s if own else 0.0)


def is_stopped(pid: int) -> bool:
    """Say whether a process is stopped."""
    stat = process_table.read(f"/proc/{pid}/stat", 512)
    return stat.rpartition(b") ")[2][:1] in {b"T", b"t"}


def end_orphans(look: Callable[[], list[ProcessEntry]]) -> list[str]:
    """Wait until no orphans are left, killing what does not go by itself; return who would not.

    Blocks for as long as that takes, 8 s at most.

    Args:
        look: returns those that are left, see `orphans`.
    """
    begun = time.monotonic()
    while left := look():
        waited = time.monotonic() - begun
        if waited > _GRACE_S + _KILL_S:
            return [str(proc) for proc in left]
        if waited > _GRACE_S:
            _kill(left)
        time.sleep(_LOOK_S)
    return []


def orphans(known: Collection[int]) -> list[ProcessEntry]:
    """Return what descends from us and from no child that we know; the dead among our own are reaped."""
    found = [proc for proc in process_table.descendants(os.getpid()) if proc.head not in known]
    for proc in found:
        if proc.gone and proc.pid == proc.head:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(proc.pid, os.WNOHANG)
    return [proc for proc in found if not proc.gone]


def _kill(procs: Collection[ProcessEntry]) -> None:
    for proc in procs:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(proc.pid, signal.SIGKILL)
