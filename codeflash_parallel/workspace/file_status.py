"""Status of a path: the few values that tell one state from another."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: mode, size, mtime_ns, ctime_ns, inode; of a folder only the mode counts (the rest follows from its files).
Seen = tuple[int, int, int, int, int]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def scan(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what lies below a folder: relative path and status; what cannot be listed is left out.

    One short look-up a file, relative to its folder: this is what an audit costs (4 us a file).
    """
    try:
        top = os.open(root, _FOLDER)
    except OSError:
        return
    pending = [""]
    try:
        while pending:
            prefix = pending.pop()
            with suppress(OSError):  # vanished, or its mode says why
                yield from _list(top, prefix, pending)
    finally:
        os.close(top)


def _list(top: int, prefix: str, pending: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    folder = os.open(prefix or ".", _FOLDER, dir_fd=top)
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path + "/")
                yield path, entry.stat(follow_symlinks=False)
    finally:
        os.close(folder)


def look(path: Path) -> Seen | None:
    """Return what lies at one path, `None` when nothing does."""
    try:
        return status_of(os.lstat(path))
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
            return None
        raise


def status_of(status: os.stat_result) -> Seen:
    """Return what counts of a status."""
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        return (mode, 0, 0, 0, 0)
    return (mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def names_in(folder: Path) -> list[str]:
    """Return what lies in a folder, nothing when it is none."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are what is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []


def parents(path: str) -> list[str]:
    """Return the folders above a path, the outermost, which is the root, first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)] if path else []
