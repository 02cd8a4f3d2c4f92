"""Owner files: who uses which slots, told by a lock that the kernel gives back when its holder dies."""

from __future__ import annotations

import json
import os
import re
import secrets
from pathlib import Path

from codeflash_parallel.process.file_lock import FileLock, try_lock
from codeflash_parallel.process.machine import boot_id
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.workspace.cache_layout import CacheHome


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
