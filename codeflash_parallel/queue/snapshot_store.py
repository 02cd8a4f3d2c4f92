"""Snapshots of submitted jobs, in mirrors of their own in the queue's folder. Light.

::

    <queue>/snapshots/<day>/<repository>/mirror.git

A snapshot is named by its content and taken into the mirror of the day of its submission. The mirror of an
earlier day is removed when no job needs it any more. So submitters may edit their trees while they wait,
`clean` of a cache takes nothing away from a job, and what is stored stays within what waits and two days.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.process.file_lock import wait_for_lock
from codeflash_parallel.workspace.cache_layout import CacheHome, remove_tree
from codeflash_parallel.workspace.git.repository import Repository
from codeflash_parallel.workspace.snapshot.mirror import take_durable_snapshot
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest

_DAY_S = 86_400


class StoredSnapshot(NamedTuple):
    """A snapshot in the queue's folder.

    Attributes:
        place: folder of its mirror, relative to the folder of all snapshots: `<day>/<repository>`.
    """

    place: str
    snapshot: Snapshot


def take_snapshot(folder: Path, repository: Repository, request: SnapshotRequest) -> StoredSnapshot:
    """Take a snapshot into the queue of a folder; it is on the disk when this returns.

    Raises:
        UsageError, EnvironmentFault: as `workspace.snapshot.mirror.Mirror.snapshot`.
    """
    day = _day(time.time())
    snapshot = take_durable_snapshot(folder / "snapshots" / day, repository, request)
    return StoredSnapshot(place=f"{day}/{repository.key}", snapshot=snapshot)


def mirror_of(folder: Path, place: str) -> Path:
    """Return the git directory of the mirror at a place."""
    return CacheHome(path=folder / "snapshots" / place).mirror


def remove_unneeded(folder: Path, needed: Collection[str]) -> None:
    """Remove the mirrors that no job needs; those of today and yesterday may be of a submission in progress.

    Args:
        needed: places of the snapshots of jobs that have not ended.
    """
    yesterday = _day(time.time() - _DAY_S)
    for day in sorted((folder / "snapshots").glob("*")):
        if day.name >= yesterday:
            continue
        for path in sorted(day.glob("*")):
            if f"{day.name}/{path.name}" in needed:
                continue
            lock = wait_for_lock(CacheHome(path=path).use_lock, 0.0)
            if lock is not None:
                with lock:
                    remove_tree(path)
        if not any(day.iterdir()):
            day.rmdir()


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
