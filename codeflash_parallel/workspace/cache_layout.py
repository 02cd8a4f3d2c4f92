"""Layout of the cache, and messages for faults of its disk.

::

    <cache>/<repository key>/
      mirror.git            objects of every snapshot
      mirror.lock           held while a snapshot is taken or a worktree made or removed
      use.lock              shared by everyone who has the mirror open
      owners/<run id>.json  locked for the life of that run
      slots/<run id>/<n>/   one slot: the tree (named as the user's root), and `private`
      tmp/                  indexes of a moment
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from codeflash_parallel.process.files import FileLock, wait_for_lock
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.git.git_client import GitFailed

#: Longest wait for another process that creates or removes a worktree or takes a snapshot.
_LOCK_S = 300.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
#: Less than a few blocks of any file system: the next file cannot be written.
_LEAST_FREE_BYTES = 64 * 1024
#: A path that cannot be: there is nothing at it.
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
#: A path of this many of the longest names is still shorter than the longest path.
_DEEP = 8
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, *_ABSENT, errno.ELOOP)
_DENIED_WORDS = ("Permission denied", "Read-only file system", "Operation not permitted")


#: Folder of the snapshots' checkouts in the cache of a host.
CHECKOUTS = "checkouts"


def cache_of_host(cache: Path) -> Path:
    """Return this host's own folder of a cache, in which it works for runs of other hosts.

    Hosts may share a home: in one folder, each would take the others' runs for dead ones.
    """
    return cache / "hosts" / os.uname().nodename


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheHome:
    """The folder of one repository in the cache."""

    path: Path

    @property
    def mirror(self) -> Path:
        """The bare repository."""
        return self.path / "mirror.git"

    @property
    def mirror_lock(self) -> Path:
        """Serialises whoever changes the mirror."""
        return self.path / "mirror.lock"

    @property
    def use_lock(self) -> Path:
        """Tells whether anybody has the mirror open."""
        return self.path / "use.lock"

    @property
    def owners(self) -> Path:
        """Folder of owner files."""
        return self.path / "owners"

    @property
    def slots(self) -> Path:
        """Folder of the runs' slots."""
        return self.path / "slots"

    @property
    def mounted_slot(self) -> Path:
        """The place at which processes of a closed sandbox see their slot, whichever that is."""
        return self.path / "mounted" / "slot"

    @property
    def temporary(self) -> Path:
        """Folder of what lives for a moment."""
        return self.path / "tmp"

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a new folder, and remove it."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.temporary, ignore_cleanup_errors=True) as folder:
            yield Path(folder)


def locked(path: Path, kind: int = fcntl.LOCK_EX) -> FileLock:
    """Return a lock of the cache, for a block or until it is released; wait for it.

    Raises:
        EnvironmentFault: `CACHE_BUSY`, another process holds it for minutes.
    """
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # `clean` has removed the folder meanwhile
            lock = wait_for_lock(path, _LOCK_S, kind)
            break
    if lock is None:
        message = f"Another process holds {path} for more than {_LOCK_S:.0f} s."
        raise EnvironmentFault("CACHE_BUSY", message, "End it, then try again.")
    return lock


@contextlib.contextmanager
def cache_faults(cache: Path) -> Iterator[None]:
    """Turn what a full or unwritable cache does into one clear line.

    Raises:
        EnvironmentFault: `DISK_FULL`, `CACHE_UNWRITABLE` or `GIT_FAILED`.
    """
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in {None, str(cache)} else ""
        words = f"{error.strerror or error}{where}"
        raise _fault(error.errno in _FULL, error.errno in _DENIED, words, cache) from error
    except GitFailed as error:
        full = any(words in error.stderr for words in _FULL_WORDS) or _is_full(cache)
        denied = any(words in error.stderr for words in _DENIED_WORDS)
        words = f"git {error.arguments[0]} failed: {error.first_line}"
        raise _fault(full, denied, words, cache) from error


@contextlib.contextmanager
def disk_faults(cache: Path) -> Iterator[None]:
    """Turn errors of a full disk, alone or in groups, into one clear line; all others pass.

    Raises:
        EnvironmentFault: `DISK_FULL`.
    """
    try:
        yield
    except (OSError, BaseExceptionGroup) as error:
        if not _is_of_full_disk(error):
            raise
        raise _fault(True, False, "", cache) from error


def _is_of_full_disk(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_full_disk, error.exceptions))
    return isinstance(error, OSError) and error.errno in _FULL


def _is_full(cache: Path) -> bool:
    """Say whether the disk of the cache is full; a checkout that fails does not say why."""
    try:
        status = os.statvfs(cache)
    except OSError:
        return False
    no_inodes = status.f_files > 0 and status.f_favail == 0
    return no_inodes or status.f_bavail * status.f_frsize < _LEAST_FREE_BYTES


def is_trouble_of_the_disk(error: GitFailed) -> bool:
    """Say whether git failed because the cache is full or cannot be written."""
    return any(words in error.stderr for words in (*_FULL_WORDS, *_DENIED_WORDS))


def _fault(full: bool, denied: bool, words: str, cache: Path) -> EnvironmentFault:  # noqa: FBT001 - two findings
    if full:
        hint = "Free some space, run `codeflash-parallel clean`, or name another place with --cache-dir."
        return EnvironmentFault("DISK_FULL", f"No space is left for the cache in {cache}.", hint)
    if denied:
        hint = "Name another folder with --cache-dir, one that you may write to."
        return EnvironmentFault("CACHE_UNWRITABLE", f"The cache in {cache} cannot be written: {words}.", hint)
    return EnvironmentFault("GIT_FAILED", words)


def remove_tree(path: Path) -> None:
    """Remove a file, link or folder, read-only and very deep folders included; what is missing is fine.

    Raises:
        OSError: something cannot be removed all the same.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        if error.errno in _ABSENT:
            return
        raise
    if not stat.S_ISDIR(mode):
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path, onerror=_unlock_and_retry)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
            raise
        _flatten(path)
        shutil.rmtree(path, onerror=_unlock_and_retry)


def _flatten(path: Path) -> None:
    """Move folders from far below to the top, again and again, until none is deeper than a name can be."""
    serial = 0
    pending = [(path, 0)]
    while pending:
        folder, depth = pending.pop()
        for entry in list(os.scandir(folder)):
            if not entry.is_dir(follow_symlinks=False):
                continue
            below = Path(entry.path)
            if depth >= _DEEP:
                serial += 1
                below = below.rename(path / f".flat-{serial}")
            pending.append((below, 0 if depth >= _DEEP else depth + 1))


def _unlock_and_retry(function: Callable[..., Any], name: str, info: Any) -> None:
    """Make the folder of what could not be removed writable, and try again."""
    error = info[1]
    if isinstance(error, FileNotFoundError):
        return
    if not isinstance(error, PermissionError):
        raise error
    path = Path(name)
    for folder in (path.parent, path):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)
    if function in {os.unlink, os.rmdir}:
        function(name)
    else:  # a folder that could not be listed or opened
        shutil.rmtree(path)
