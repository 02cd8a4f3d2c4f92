"""File systems that several machines share: locks, which SQLite needs, do not hold there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from codeflash_parallel.queue.errors import NetworkFileSystem

#: As the kernel names them in its table of mounts; `fuse` ones by what mounts them.
_SHARED = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs",
        "9p", "afs", "ceph", "gfs2", "ocfs2", "lustre",
        "beegfs", "glusterfs", "gpfs", "orangefs", "ncpfs", "coda",
        "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.juicefs",
        "fuse.ceph",
    }
)  # fmt: skip

#: Path of a folder → name of the file system it lies on.
NameOf = Callable[[Path], str]

_MOUNTS = Path("/proc/self/mountinfo")


def refuse_network(folder: Path, name_of: NameOf | None = None) -> None:
    """Refuse a folder that lies on a file system of several machines.

    Args:
        name_of: how its name is found out; the kernel's table of mounts where nothing is given.

    Raises:
        NetworkFileSystem: it does.
    """
    name = (name_of or file_system_of)(folder)
    if name in _SHARED:
        raise NetworkFileSystem(folder, name)


def file_system_of(folder: Path) -> str:
    """Return the kernel's name of the file system of a folder; empty where the kernel does not tell."""
    device = os.stat(folder).st_dev  # noqa: PTH116 - the same call for what is found in the table
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        table = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return next((name for where, name in map(_mount, table.splitlines()) if where == wanted), "")


def _mount(line: str) -> tuple[str, str]:
    """Return device and file system of a line of the table: see proc_pid_mountinfo(5)."""
    fields = line.split(" ")
    after = fields.index("-") if "-" in fields else len(fields) - 2
    return fields[2], fields[after + 1]
