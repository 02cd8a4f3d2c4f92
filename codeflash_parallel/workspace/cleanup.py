"""Owner files of slots, and removal of what dead runs left behind or, when asked, of what nobody needs."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio.to_thread

from codeflash_parallel.process.files import FileLock, try_lock
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.workspace.cache_layout import (
    CHECKOUTS,
    CacheHome,
    cache_faults,
    cache_of_host,
    locked,
    remove_tree,
)
from codeflash_parallel.workspace.slot.slot import KEPT_MARK


class SlotOwner:
    """The owner file of one run, locked until `release` or the end of the process.

    Args:
        home: folder of the repository in the cache.
        run_id: letters, digits, ``-``, ``_`` and ``.``.

    Raises:
        InternalError: `RUN_ID_TAKEN` or `BAD_RUN_ID`.
        OSError: the cache cannot be written.
    """

    def __init__(self, home: CacheHome, run_id: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", run_id):
            raise InternalError("BAD_RUN_ID", f"{run_id!r} cannot name a folder.")
        self.path = owner_path(home, run_id)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = self._create(run_id)
        except FileNotFoundError:  # a recovery took the draft for a dead one's, in the moment before its lock
            self._lock = self._create(run_id)

    def _create(self, run_id: str) -> FileLock:
        """Make the file under another name, lock it, then give it its own: nobody sees it unlocked."""
        if not is_free(self.path):
            raise InternalError("RUN_ID_TAKEN", f"Another process runs under the id {run_id}.")
        draft = self.path.with_name(f".{run_id}-{secrets.token_hex(4)}")
        draft.touch(mode=0o600, exist_ok=False)
        lock = try_lock(draft)
        if lock is None:
            raise FileNotFoundError(draft)
        try:
            os.write(lock.fd, json.dumps(_about_us()).encode())
            draft.rename(self.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            lock.release()
            raise
        return lock

    def release(self) -> None:
        """Remove the file: nothing is owned any more."""
        self.path.unlink(missing_ok=True)
        self._lock.release()


def owner_path(home: CacheHome, run_id: str) -> Path:
    """Return where the owner file of a run lies."""
    return home.owners / f"{run_id}.json"


def is_free(path: Path) -> bool:
    """Say whether nobody alive holds an owner file."""
    if not path.exists():
        return True
    lock = try_lock(path)
    if lock is None:
        return not path.exists()
    lock.release()
    return True


def _about_us() -> dict[str, str | int]:
    """Say who we are, for people who look into the cache."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return {"pid": os.getpid(), "start_time": int(fields[19]), "boot_id": boot_id()}


class CleanMode(StrEnum):
    """Action of `clean` on a thing in the cache."""

    #: Say what would be removed.
    DRY_RUN = "dry-run"
    #: Remove it.
    REMOVE = "remove"


class Leftover(NamedTuple):
    """Something in the cache that nobody needs now; the kind is a word or two for people and programs."""

    kind: str
    path: Path


async def recover(cache: Path) -> tuple[Path, ...]:
    """Remove what dead runs left behind, and return it. Living runs and kept slots are not touched.

    Raises:
        EnvironmentFault: the cache cannot be written.
    """
    return await anyio.to_thread.run_sync(partial(_recover, cache))


def _recover(cache: Path) -> tuple[Path, ...]:
    removed: list[Path] = []
    with cache_faults(cache):
        for home in _homes(cache):
            removed += _recover_home(home)
    return tuple(removed)


def _homes(cache: Path) -> Iterator[CacheHome]:
    for folder in (cache, cache_of_host(cache)):
        for path in sorted(folder.glob("*/use.lock")):
            yield CacheHome(path=path.parent)


def _recover_home(home: CacheHome) -> list[Path]:
    removed = []
    for folder in sorted(home.slots.glob("*")):
        if is_free(owner_path(home, folder.name)):
            removed += remove_run(home, folder.name)
    for owner in (*home.owners.glob("*"), *home.owners.glob(".*")):  # drafts included
        lock = try_lock(owner)
        if lock is not None:
            owner.unlink(missing_ok=True)
            lock.release()
    with locked(home.mirror_lock):
        drop_worktrees(home, lambda tree: not tree.exists())
    _remove_temporary(home)
    return removed


def _remove_temporary(home: CacheHome) -> None:
    """Remove indexes of a moment, unless somebody may be using one at this moment."""
    lock = try_lock(home.use_lock)
    if lock is not None:
        remove_tree(home.temporary)
        lock.release()


def remove_run(home: CacheHome, run_id: str) -> list[Path]:
    """Remove the slots of a run and their worktrees, kept ones excepted; return their folders.

    Raises:
        OSError: something cannot be removed.
    """
    folder = home.slots / run_id
    going = unkept(folder)
    for slot in going:
        remove_tree(slot)
    with locked(home.mirror_lock):
        drop_worktrees(home, lambda tree: tree.parent in going or not tree.parent.exists())
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    return going


def unkept(run_folder: Path) -> list[Path]:
    """Return the slots of a run that nobody wants to look at."""
    return [slot for slot in sorted(run_folder.glob("*")) if not (slot / KEPT_MARK).exists()]


def removable(run_folder: Path) -> list[Path]:
    """Return what of a run's slots can be removed at once: what is in their trees and beside them.

    Links are not followed: tests may have put them anywhere.
    """
    return [part for slot in unkept(run_folder) for folder in _inside(slot) for part in _inside(folder)]


def _inside(folder: Path) -> list[Path]:
    with suppress(OSError):  # without rights
        if stat.S_ISDIR(os.lstat(folder).st_mode):
            return list(folder.iterdir())
    return []


def drop_worktrees(home: CacheHome, is_gone: Callable[[Path], bool]) -> None:
    """Remove the mirror's record of worktrees that are gone, and of broken ones.

    The caller holds the mirror's lock, so that no worktree is half made by anybody alive: one without a
    readable place, or still locked as "initializing", is what a kill left behind, which git never prunes.
    """
    for admin in (home.mirror / "worktrees").glob("*"):
        tree = _tree_of(admin)
        if tree is None or (admin / "locked").exists() or is_gone(tree):
            remove_tree(admin)


def _tree_of(admin: Path) -> Path | None:
    """Return the tree that a record is of, `None` if it does not say."""
    try:
        text = (admin / "gitdir").read_bytes()
    except OSError:
        return None
    return Path(os.fsdecode(text.rstrip(b"\n"))).parent if text.strip() else None


def clean(cache: Path, mode: CleanMode, *, older_than_s: float = 0.0) -> tuple[Leftover, ...]:
    """Remove everything that no living run needs: dead runs, kept slots, mirrors, results, baselines.

    Args:
        mode: whether it is done, or only told.
        older_than_s: only what was last changed that long ago.

    Returns:
        What was removed, or would be.

    Raises:
        EnvironmentFault: the cache cannot be written.
    """
    found: list[Leftover] = []
    homes, used = list(_homes(cache)), 0
    before = time.time() - older_than_s
    with cache_faults(cache):
        for home in homes:
            lock = try_lock(home.use_lock)
            used += lock is None
            found += _clean_home(home, lock, before, mode)
        if not used:
            folders = (cache, cache_of_host(cache))
            runners = [Leftover("runner", p) for folder in folders for p in sorted(folder.glob("runner-*"))]
            found += _sweep(runners, before, mode)
        found += _clean_checkouts(cache, before, mode)
    return tuple(found)


def _clean_checkouts(cache: Path, before: float, mode: CleanMode) -> list[Leftover]:
    """Remove the checkouts that this host has made for runs of others, but for those that a job uses."""
    found = []
    for lock_file in sorted((cache_of_host(cache) / CHECKOUTS).glob("*/use.lock")):
        lock = try_lock(lock_file)
        if lock is not None:
            with lock:
                found += _sweep([Leftover("checkout", lock_file.parent)], before, mode)
    return found


def _clean_home(home: CacheHome, lock: FileLock | None, before: float, mode: CleanMode) -> list[Leftover]:
    """Clean one repository's folder; `lock` is held alone, or `None` when somebody uses the mirror."""
    try:
        swept = _sweep(_unneeded(home, is_used=lock is None), before, mode)
        if mode is CleanMode.REMOVE:
            with locked(home.mirror_lock):
                drop_worktrees(home, lambda tree: not tree.exists())
            _remove_empty(home, lock)
        return swept
    finally:
        if lock is not None:
            lock.release()


def _unneeded(home: CacheHome, *, is_used: bool) -> Iterator[Leftover]:
    for run in sorted(home.slots.glob("*")):
        if not is_free(owner_path(home, run.name)):
            continue
        for slot in sorted(run.glob("*")):
            yield Leftover("kept slot" if (slot / KEPT_MARK).exists() else "dead run", slot)
    if is_used:
        return
    for kind in ("run", "baseline"):
        for path in sorted((home.path / f"{kind}s").glob("*")):
            yield Leftover(kind, path)
    if home.mirror.exists():
        yield Leftover("mirror", home.mirror)


def _sweep(leftovers: Iterable[Leftover], before: float, mode: CleanMode) -> list[Leftover]:
    old = [leftover for leftover in leftovers if leftover.path.lstat().st_mtime <= before]
    if mode is CleanMode.REMOVE:
        for leftover in old:
            remove_tree(leftover.path)
    return old


def _remove_empty(home: CacheHome, lock: FileLock | None) -> None:
    """Remove folders that hold nothing any more; the whole home once there is no mirror, and nobody waits."""
    for folder in (
        *home.slots.glob("*"),
        home.slots,
        home.owners,
        home.path / "runs",
        home.path / "baselines",
    ):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    if lock is None or home.mirror.exists():
        return
    for folder in (home.temporary, home.mounted_slot.parent):
        remove_tree(folder)
    home.mirror_lock.unlink(missing_ok=True)
    home.use_lock.unlink(missing_ok=True)
    if not any(home.path.iterdir()):
        home.path.rmdir()
