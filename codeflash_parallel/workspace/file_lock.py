"""Locks between processes, by `flock`: the kernel gives them back when their holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from codeflash_parallel.result.errors import EnvironmentFault

#: Longest wait for another process that creates or removes a worktree or takes a snapshot.
_DEADLINE_S = 300.0
#: `flock` has no deadline of its own; this is how often a taken lock is tried again.
_POLL_S = 0.01


class FileLock:
    """One lock that is held until `release`."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def fd(self) -> int:
        """The descriptor; whoever inherits it keeps the lock, too."""
        return self._fd

    def release(self) -> None:
        """Give the lock back; again is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def share(self) -> None:
        """Turn an exclusive lock into a shared one."""
        fcntl.flock(self._fd, fcntl.LOCK_SH)


def try_lock(path: Path) -> FileLock | None:
    """Take the lock of an existing file alone; `None` when it is held, or the file is gone."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if _flock(fd, fcntl.LOCK_EX) and _is_still(fd, path):
        return FileLock(fd)
    os.close(fd)
    return None


def lock_shared(path: Path) -> FileLock:
    """Take a lock that others may share; wait for one who holds it alone."""
    return _wait(path, fcntl.LOCK_SH)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[FileLock]:
    """Hold a lock alone, waiting for it.

    Raises:
        EnvironmentFault: `CACHE_BUSY`, another process holds it for minutes.
    """
    lock = _wait(path, fcntl.LOCK_EX)
    try:
        yield lock
    finally:
        lock.release()


def _wait(path: Path, kind: int) -> FileLock:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        path.parent.mkdir(parents=True, exist_ok=True)  # `clean` may have removed it a moment ago
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _flock(fd, kind) and _is_still(fd, path):
            return FileLock(fd)
        os.close(fd)
        time.sleep(_POLL_S)
    message = f"Another process holds {path} for more than {_DEADLINE_S:.0f} s."
    raise EnvironmentFault("CACHE_BUSY", message, "End it, then try again.")


def _flock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(fd: int, path: Path) -> bool:
    """Say whether the locked file is the one at the path: it may have been removed while we waited."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
