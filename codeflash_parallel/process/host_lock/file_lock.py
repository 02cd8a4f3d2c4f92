"""Locks of files that every user of a host may take; the kernel gives them back when their holder dies.

Somebody may remove the files (logind does at the last logout of a user, with what is his): a lock holds only
while its file has its name.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import anyio

from codeflash_parallel.config.environment_allowlist import QUIET_VARIABLE
from codeflash_parallel.result.errors import EnvironmentFault

#: `flock` cannot be waited for and cancelled, so a lock that is taken is tried again: first after so long …
_FIRST_PAUSE_S = 0.002
#: … and then ever later, up to this. Whoever is being timed is disturbed ten times a second by some 20 µs.
_LONGEST_PAUSE_S = 0.1

#: What to do where locks cannot be had.
QUIET_HINT = f"Name a folder that is there and that you may write, or unset {QUIET_VARIABLE}."


async def wait_for_lock(path: Path, kind: int) -> int:
    """Return a descriptor that has the lock, as soon as nobody else has it.

    Raises:
        EnvironmentFault: `QUIET_UNUSABLE`.
    """
    pause_s = _FIRST_PAUSE_S
    while (handle := try_lock(path, kind)) is None:
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return handle


def try_lock(path: Path, kind: int) -> int | None:
    """Return a descriptor that has the lock, `None` where somebody else has it.

    Raises:
        EnvironmentFault: `QUIET_UNUSABLE`.
    """
    try:
        return _tried(path, kind)
    except OSError as error:
        what = "the lock that keeps checks away from what is timed"
        raise EnvironmentFault(
            "QUIET_UNUSABLE", f"{path}, {what}, cannot be used: {error.strerror}.", QUIET_HINT
        ) from error


def _tried(path: Path, kind: int) -> int | None:
    handle = open_lock(path)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
        if _has_name(handle, path):
            return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _has_name(handle: int, path: Path) -> bool:
    """Say whether a file that is open still has its name: another one may have been made since."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def open_lock(path: Path) -> int:
    """Open a lock file, whoever made it: who may read a file may lock it. It is made if there is none."""
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            _make(path)


def _make(path: Path) -> None:
    """Make a lock file, readable for all from the moment on at which it has its name."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        os.fchmod(handle, 0o644)
        with suppress(FileExistsError):  # somebody else was faster
            path.hardlink_to(draft)
    finally:
        os.close(handle)
        Path(draft).unlink()
