"""What units leave behind in the folders that are theirs alone, and its removal.

A unit that finds what an earlier one has written can be faster than the candidate is. So whatever appears in
an arm's private folders while its units run is removed after each round. What can be seen and not be undone
(a file from before that was changed, something new in the host's shared memory) is said instead. Files that
are written anywhere else are not seen here; reading them is (`Block.reads`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from codeflash_parallel.model.workspace import Workspace

#: Where processes share memory by name.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only looked at

#: What tells whether a file is as it was: inode, size, time of the last change (which nobody can set).
_State = tuple[int, int, int]


def private_folders(workspace: Workspace) -> frozenset[Path]:
    """Return home, temporary folder and the like, as far as they lie in the workspace's private one."""
    named = {Path(value) for value in workspace.environment.values() if value.startswith("/")}
    return frozenset(path for path in named if workspace.private in path.parents and path.is_dir())


class Leftovers:
    """Some folders as they are now, to be brought back to that after every round."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._before = self._look()

    def remove(self) -> bool:
        """Remove what is new; return whether everything is as it was, as far as can be told."""
        now = self._look()
        for path in now.keys() - self._before.keys():
            # What lies in a folder that is new itself is gone with it.
            _remove(path)
        return self._look() == self._before

    def _look(self) -> Mapping[Path, _State]:
        return {path: state for folder in self._folders for path, state in _below(folder)}


def _below(folder: Path) -> Iterator[tuple[Path, _State]]:
    """Yield everything below a folder; links are not followed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if S_ISDIR(status.st_mode):
                    yield Path(entry.path), (status.st_ino, 0, 0)
                    yield from _below(Path(entry.path))
                else:
                    yield Path(entry.path), (status.st_ino, status.st_size, status.st_ctime_ns)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


class SharedMemory:
    """Who left something in the host's shared memory; it is not removed, for it may be somebody else's.

    Args:
        read: returns the names of what lies there.
    """

    def __init__(self, read: Callable[[], frozenset[str]]) -> None:
        self._read = read
        self._before = read()
        self._by: dict[str, str] = {}

    def note(self, arm: str) -> None:
        """Attribute what is new to an arm, which has just run."""
        for name in self._read() - self._before - self._by.keys():
            self._by[name] = arm

    def unclean(self) -> frozenset[str]:
        """Return the arms of which something still lies there."""
        left = self._read()
        return frozenset(arm for name, arm in self._by.items() if name in left)


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
