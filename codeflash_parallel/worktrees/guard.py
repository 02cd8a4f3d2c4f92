"""Know every file of a tree by its stat, tell what changed, and put it back.

A file's change time cannot be set by a program, so that equal stat values mean equal bytes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.worktrees.layout import remove_tree

#: mode, size, mtime_ns, ctime_ns, inode; of a folder only the mode counts (the rest follows from its files).
Seen = tuple[int, int, int, int, int]
#: Restoring may uncover more (a folder that could not be listed); this often it is looked at again.
_MOST_PASSES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """What a path must hold: bytes of a file, or the target of a link."""

    data: bytes
    mode: int


class NotRestored(Exception):  # noqa: N818 - a state of a slot, not an error of ours
    """A tree could not be made what it was."""


def scan(root: Path) -> dict[str, Seen]:
    """Return what lies below a folder, by relative path; what cannot be listed is absent."""
    found: dict[str, Seen] = {}
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            with os.scandir(os.path.join(root, prefix)) as entries:  # noqa: PTH118 - hot path
                for entry in entries:
                    path = prefix + entry.name
                    seen = found[path] = _seen(entry.stat(follow_symlinks=False))
                    if stat.S_ISDIR(seen[0]):
                        pending.append(path + "/")
        except OSError:  # vanished, or its mode says why
            continue
    return found


def look(path: Path) -> Seen | None:
    """Return what lies at one path, `None` when nothing does."""
    try:
        return _seen(os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _seen(status: os.stat_result) -> Seen:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode, 0, 0, 0, 0)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def write_file(path: Path, data: bytes, mode: int, spare: Path) -> None:
    """Write a file in one step, through a spare name on the same file system; its mtime is now."""
    spare.unlink(missing_ok=True)
    spare.write_bytes(data)
    spare.chmod(mode)
    spare.replace(path)


class Guard:
    """Watches one tree.

    Args:
        root: the tree.
        spare: a name on the same file system for files in the making.
        original: returns what a path held when the watch began.
    """

    def __init__(self, root: Path, spare: Path, original: Callable[[str], Original]) -> None:
        self.root = root
        self._spare = spare
        self._original = original
        self._known = scan(root)
        self._expected: dict[str, Seen | None] = {}

    @property
    def known(self) -> Mapping[str, Seen]:
        """What the tree holds when nothing is expected to differ."""
        return self._known

    def expect(self, paths: Iterable[str]) -> None:
        """Take these paths as they are now for what they should be until the next `restore`."""
        for path in paths:
            self._expected[path] = look(self.root / path)

    def adopt(self, paths: Iterable[str]) -> None:
        """Take these paths as they are now for what they should be from now on."""
        for path in paths:
            self._relearn(path)

    def forget(self, path: str) -> None:
        """Let a path be absent from now on."""
        self._known.pop(path, None)

    def changes(self) -> tuple[str, ...]:
        """Return the paths that are not as expected, sorted."""
        expected = {**self._known, **self._expected}
        return tuple(sorted(_differing(expected, scan(self.root))))

    def restore(self) -> None:
        """Put everything back and look again.

        Raises:
            NotRestored: something is still not what it was.
        """
        self._expected.clear()
        for _ in range(_MOST_PASSES):
            differing = sorted(_differing(self._known, scan(self.root)))
            if not differing:
                return
            try:
                for path in differing:
                    self._put_back(path)
            except (OSError, RecursionError) as error:
                raise NotRestored(f"{self.root}: {error}") from error
        raise NotRestored(f"{self.root}: {differing[0]} does not stay as it was")

    def _put_back(self, path: str) -> None:
        wanted, place = self._known.get(path), self.root / path
        found = look(place)
        if wanted is None:
            remove_tree(place)
        elif stat.S_ISDIR(wanted[0]):
            if found is None or not stat.S_ISDIR(found[0]):
                remove_tree(place)
                place.mkdir()
            place.chmod(stat.S_IMODE(wanted[0]))
        elif found != wanted:
            self._rewrite(path, place, found)

    def _rewrite(self, path: str, place: Path, found: Seen | None) -> None:
        original = self._original(path)
        if found is not None and not stat.S_ISREG(found[0]):
            remove_tree(place)
        if stat.S_ISLNK(original.mode):
            place.unlink(missing_ok=True)
            place.symlink_to(os.fsdecode(original.data))
        else:
            write_file(place, original.data, stat.S_IMODE(original.mode), self._spare)
        self._relearn(path)

    def _relearn(self, path: str) -> None:
        seen = look(self.root / path)
        if seen is None:
            self._known.pop(path, None)
        else:
            self._known[path] = seen


def _differing(expected: Mapping[str, Seen | None], found: Mapping[str, Seen]) -> set[str]:
    changed = {path for path, seen in expected.items() if found.get(path) != seen}
    return changed | (found.keys() - expected.keys())
