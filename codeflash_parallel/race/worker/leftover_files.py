"""Files that units leave in the folders that are theirs alone, and their removal.

A unit that finds what an earlier one has written can be faster than the candidate is. So whatever appears in
an arm's private folders while its units run is removed after each round. What can be seen and not be undone
(a file from before that was changed, something new in the host's shared memory) is said instead. Files that
are written anywhere else are not seen here; reading them is (`Block.reads`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR

from codeflash_parallel.result.runtime_protocols import Workspace

#: Where processes share memory by name.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only looked at

#: So many folders below each other are looked into; what is new is removed as a whole.
DEPTH = 64

#: What tells whether a file is as it was: inode, size, time of the last change (which nobody can set).
_State = tuple[int, int, int]


def private_folders(workspace: Workspace) -> frozenset[Path]:
    """Return home, temporary folder and the like, as far as they lie in the workspace's private one."""
    named = {Path(value) for value in workspace.environment.values() if value.startswith("/")}
    return frozenset(path for path in named if workspace.private in path.parents and path.is_dir())


class LeftoverFiles:
    """Some folders as they are now, to be brought back to that after every round.

    What lies in them is a candidate's, who may put a link in the place of anything: no link is followed, on
    no part of the way. Other file systems mounted below are left alone.

    Args:
        folders: absolute paths.
        view: where they are seen from; ``/proc/<pid>/root`` shows what a process sees.

    Attributes:
        had_some: something new was found.
    """

    def __init__(self, folders: Iterable[Path], view: Path = Path("/")) -> None:
        self._folders = tuple(folder.parent.resolve() / folder.name for folder in folders)
        self._view, self.had_some = view, False
        self._before = self._look()

    def remove(self) -> bool:
        """Remove what is new; return whether everything is as it was, as far as can be told."""
        new = self._look().keys() - self._before.keys()
        self.had_some |= bool(new)
        # What lies in a folder that is new itself is gone with it.
        for path in (path for path in new if path.parent not in new):
            # (Folders may be nested so deep that they cannot be removed: then they are said.)
            with suppress(OSError, RecursionError), self._opened(path.parent) as parent:
                _remove(path.name, parent)
        return self._look() == self._before

    def _look(self) -> Mapping[Path, _State]:
        found: dict[Path, _State] = {}
        for folder in self._folders:
            with suppress(OSError), self._opened(folder) as number:
                found[folder] = _folder_state(os.fstat(number))
                found.update(_below(number, folder))
        return found

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[int]:
        """Open a folder without following a link.

        Raises:
            OSError: there is none, or a link is in the way.
        """
        # The last step is a link in /proc, and the kernel's.
        number = os.open(self._view, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folder.parts[1:]:
                inner = os.open(part, _FOLDER, dir_fd=number)
                os.close(number)
                number = inner
            yield number
        finally:
            os.close(number)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _below(folder: int, path: Path, depth: int = DEPTH) -> Iterator[tuple[Path, _State]]:
    """Yield everything below an open folder, on its own file system and not too deep."""
    device = os.fstat(folder).st_dev
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if not S_ISDIR(status.st_mode):
                    yield path / entry.name, (status.st_ino, status.st_size, status.st_ctime_ns)
                    continue
                yield path / entry.name, _folder_state(status)
                if status.st_dev == device and depth:
                    inner = os.open(entry.name, _FOLDER, dir_fd=folder)
                    try:
                        yield from _below(inner, path / entry.name, depth - 1)
                    finally:
                        os.close(inner)


def _folder_state(status: os.stat_result) -> _State:
    """Return what tells whether a folder is the same; when it changed last is told by what lies in it."""
    return status.st_ino, 0, 0


def _remove(name: str, parent: int) -> None:
    """Remove a file, a link, or a folder with all that lies in it."""
    try:
        os.unlink(name, dir_fd=parent)
    except IsADirectoryError:
        shutil.rmtree(name, ignore_errors=True, dir_fd=parent)


class SharedMemoryLeftovers:
    """Arms that left something in the host's shared memory; it is not removed, it may be another program's.

    Args:
        read: returns the names of what lies there.
    """

    def __init__(self, read: Callable[[], frozenset[str]]) -> None:
        self._read = read
        self._before = read()
        self._by: dict[str, frozenset[str]] = {}

    def note(self, arms: Iterable[str]) -> None:
        """Attribute what is new to the arms that have just run."""
        ran = frozenset(arms)
        for name in self._read() - self._before - self._by.keys():
            self._by[name] = ran

    def unclean(self) -> frozenset[str]:
        """Return the arms of which something still lies there."""
        left = self._read()
        return frozenset[str]().union(*(arms for name, arms in self._by.items() if name in left))


def read_shared() -> frozenset[str]:
    """Return the names of what processes of this user have in shared memory."""
    with suppress(OSError), os.scandir(SHARED_MEMORY) as entries:
        return frozenset(entry.name for entry in entries if _is_ours(entry))
    return frozenset()


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_uid == os.getuid()
    except OSError:
        return False
