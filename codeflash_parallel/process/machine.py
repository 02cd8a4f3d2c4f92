"""The machine: its cores, memory, load and limits, and the id of its boot."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from codeflash_parallel.result.errors import EnvironmentFault

#: Python's words where a thread cannot be started; that error has no class or number of its own.
_NO_THREAD = "can't start new thread"
#: With 64 no child can be started (`process.supervisor.spawner` moves descriptors above that); with 128 a
#: run of one slot comes to its end (measured: `benchmarks/exhausted.py`).
LEAST_DESCRIPTORS = 128

#: What one slot needs at least: an interpreter, a test suite, its page cache.
SLOT_BYTES = 1 << 30
#: More slots than this help no race, and fill caches and disks.
MOST_SLOTS = 8

_CGROUPS = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
#: Control groups of version 1 that limit what we look at; the others' folders would be read in vain.
_LIMITING = frozenset({"cpu", "memory"})
#: cgroup v1 writes "no limit" as a number near 2^63.
_NO_LIMIT = 1 << 60


def shortage_of(error: BaseException) -> EnvironmentFault | None:
    """Return the shortage behind an error; `None` where it is something else."""
    match error:
        case MemoryError():
            return _no_memory()
        case RuntimeError() if _NO_THREAD in str(error):
            return too_few_processes(str(error))
        case OSError():
            return _of_system(error)
        case ImportError(__cause__=OSError() as cause):  # a package that starts programs while it is imported
            return _of_system(cause)
    return None


def _of_system(error: OSError) -> EnvironmentFault | None:
    match error.errno:
        case errno.EMFILE | errno.ENFILE:
            return too_few_descriptors(str(error.strerror))
        case errno.ENOMEM:
            return _no_memory()
        case errno.EAGAIN if error.filename is None:  # what fork says
            return too_few_processes(str(error.strerror))
        case errno.ENOSPC | errno.EDQUOT:
            where = f": {error.filename}" if error.filename else ""
            return EnvironmentFault("DISK_FULL", f"No space is left on the disk{where}.", "Free some space.")
        case errno.EFBIG:
            return EnvironmentFault(
                "DISK_FULL", "No file may become as large as is needed.", "Raise the limit: `ulimit -f`."
            )
    return None


def too_few_descriptors(why: str) -> EnvironmentFault:
    """Return the fault of a limit of open files that is too low."""
    return EnvironmentFault(
        "TOO_FEW_DESCRIPTORS",
        f"Too few files may be open at once: {why}.",
        f"Raise the limit: `ulimit -n 1024`; at least {LEAST_DESCRIPTORS} are asked for.",
    )


def too_few_processes(why: str) -> EnvironmentFault:
    """Return the fault of a limit of processes that is too low."""
    return EnvironmentFault(
        "TOO_FEW_PROCESSES",
        f"No more processes or threads can be started: {why}.",
        "Raise the limit (`ulimit -u`, or that of the container), give more memory, or lower -j.",
    )


def _no_memory() -> EnvironmentFault:
    return EnvironmentFault(
        "NO_MEMORY", "There is no memory left for the evaluator.", "Give it more (`ulimit -v`), or lower -j."
    )


class Machine(NamedTuple):
    """Resources that this process may use.

    Attributes:
        cores: logical cores we may run on.
        quota_cores: cores' worth of CPU time that the control groups grant; `cores` where they grant all.
        memory_bytes: memory that can be taken now without anybody suffering.
        load: runnable processes, average of the last minute.
    """

    cores: int
    quota_cores: float
    memory_bytes: int
    load: float


def auto_slots(machine: Machine) -> int:
    """Return how many slots the cores and the memory allow."""
    cores = min(machine.cores, int(machine.quota_cores))
    return max(1, min(cores, machine.memory_bytes // SLOT_BYTES, MOST_SLOTS))


def read_machine() -> Machine:
    """Read the kernel's accounts of this process's machine and control groups."""
    cores = len(os.sched_getaffinity(0))
    folders = tuple(_group_folders(text_of(_PROC / "self/cgroup")))
    available = _available_bytes(text_of(_PROC / "meminfo"))
    rooms = [room for folder in folders if (room := _memory_room(folder)) is not None]
    quotas = [quota for folder in folders if (quota := _quota(folder)) is not None]
    return Machine(
        cores=cores,
        quota_cores=min([float(cores), *quotas]),
        memory_bytes=max(0, min([available, *rooms])),
        load=os.getloadavg()[0],
    )


@cache
def boot_id() -> str:
    """Return the name of this boot of this host; empty where the kernel gives none."""
    return text_of(_BOOT_ID).strip()


def text_of(path: Path) -> str:
    """Return the text of a file of the kernel; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _group_folders(membership: str) -> Iterator[Path]:
    """Yield the folders of our control groups and of all above them: each may set a limit."""
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and _LIMITING.isdisjoint(controllers.split(",")):
            continue
        mount = _CGROUPS / controllers if controllers else _CGROUPS
        here = PurePosixPath(path.lstrip("/"))
        # In a container the path may be the host's, and the mount ours alone: the root is always tried.
        for part in (here, *here.parents):
            yield mount / part


def _available_bytes(meminfo: str) -> int:
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return SLOT_BYTES


def _memory_room(folder: Path) -> int | None:
    """Return what a control group leaves: limit less what is used and cannot be dropped."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit = text_of(folder / limit_name).strip()
        if limit.isdecimal() and int(limit) < _NO_LIMIT:
            used = text_of(folder / used_name).strip()
            return int(limit) - int(used or 0) + _droppable_bytes(text_of(folder / "memory.stat"))
    return None


def _droppable_bytes(memory_stat: str) -> int:
    """Return the page cache that the kernel gives back first."""
    names = dict(line.split(" ", 1) for line in memory_stat.splitlines() if " " in line)
    return int(names.get("total_inactive_file", names.get("inactive_file", "0")))


def _quota(folder: Path) -> float | None:
    quota, _, period = text_of(folder / "cpu.max").strip().partition(" ")
    if not period:
        quota = text_of(folder / "cpu.cfs_quota_us").strip()
        period = text_of(folder / "cpu.cfs_period_us").strip()
    if quota.isdecimal() and period.isdecimal() and int(period):
        return int(quota) / int(period)
    return None
