"""Files of our own, written whole or not at all, and locks between processes.

Locks are those of `flock`: the kernel gives them back when their holder dies, however it dies.
Lock files may be removed (`clean` does it, logind does it at the last logout of a user): a lock holds only
while its file has its name.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self


def _leave_it_to_the_kernel(_handle: int) -> None:
    """Wait for nothing: what the kernel has survives a kill, though not a power cut."""


def write_atomically(
    path: Path, data: bytes, *, sync: Callable[[int], None] = _leave_it_to_the_kernel
) -> None:
    """Write a file so that a reader, or a kill, never sees half of it; its folder is made if needed.

    Args:
        sync: called with the descriptor of what is written, before it gets its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(handle, 0o644)
            file.flush()
            sync(handle)
        os.replace(draft, path)  # noqa: PTH105 - every check writes some
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Write a file as `write_atomically` does, and wait for the disk: it survives a power cut, too."""
    write_atomically(path, data, sync=os.fsync)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_once(path: Path, data: bytes) -> None:
    """Write a file that nobody reads before this returns, unless it is there already with this content.

    What else may stand there, a link to somewhere or half a file, is replaced.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o644)
    except OSError:
        if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)
        return
    with os.fdopen(handle, "wb") as file:
        file.write(data)


#: `flock` has no deadline of its own, so a lock that is taken is tried again: first after so long …
_FIRST_PAUSE_S = 0.001
#: … and then ever later, up to this.
_LONGEST_PAUSE_S = 0.01
#: Whoever may read a file may lock it; on network file systems an exclusive lock takes a writable descriptor.
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileLock:
    """One lock that is held until `release`, or until the end of its block.

    Attributes:
        fd: the descriptor; a process that inherits it keeps the lock, too.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back; again is harmless."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def try_lock(path: Path, kind: int = fcntl.LOCK_EX) -> FileLock | None:
    """Take the lock of an existing file; `None` when it is held, or the file is gone."""
    try:
        return _locked(_open(path), path, kind)
    except FileNotFoundError:
        return None


def wait_for_lock(path: Path, deadline_s: float, kind: int = fcntl.LOCK_EX) -> FileLock | None:
    """Take the lock of a file, which is made if there is none; `None` when it is held for so long.

    Args:
        deadline_s: how long to wait for it; 0: try once.
    """
    until, pause_s = time.monotonic() + deadline_s, _FIRST_PAUSE_S
    while (lock := _locked(open_lock(path), path, kind)) is None and time.monotonic() < until:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return lock


def open_lock(path: Path) -> int:
    """Open a lock file, whichever user made it; make it if there is none."""
    while True:
        try:
            return _open(path)
        except FileNotFoundError:
            _make(path)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | _FLAGS)
    except PermissionError:  # it is another user's
        return os.open(path, os.O_RDONLY | _FLAGS)


def _make(path: Path) -> None:
    """Make a lock file, readable for all from the moment on at which it has its name."""
    # Without tempfile: `queue submit` is to load little.
    draft = path.with_name(f".{path.name}-{os.getpid()}-{time.monotonic_ns()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(handle, 0o644)
        with suppress(FileExistsError):  # another process was faster
            path.hardlink_to(draft)
    finally:
        os.close(handle)
        draft.unlink()


def _locked(fd: int, path: Path, kind: int) -> FileLock | None:
    """Return the lock of an open file; close it where another process has the lock, or the name."""
    lock = FileLock(fd)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), path.lstat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        lock.release()
        raise
    lock.release()
    return None
