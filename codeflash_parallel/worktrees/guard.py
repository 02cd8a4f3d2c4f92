"""Know every file of a tree by its stat, tell what changed, and put it back.

A file's change time cannot be set by a program, so that equal stat values mean equal bytes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.worktrees.layout import remove_tree

#: mode, size, mtime_ns, ctime_ns, inode; of a folder only the mode counts (the rest follows from its files).
Seen = tuple[int, int, int, int, int]
#: Restoring may uncover more (a folder that could not be listed); this often it is looked at again.
_MOST_PASSES = 4
#: Originals that are held in memory at once.
_AT_ONCE = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Original:
    """What a path must hold.

    Attributes:
        data: bytes of a file, or the target of a link.
        mode: as `stat` gives it, kind included.
        mtime_ns: 0: the time of writing.
    """

    data: bytes
    mode: int
    mtime_ns: int = 0


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
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG}:
            return None
        raise


def _seen(status: os.stat_result) -> Seen:
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode, 0, 0, 0, 0)
    return (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def write_file(path: Path, original: Original, spare: Path) -> None:
    """Write a file or link in one step, through a spare name on the same file system."""
    spare.unlink(missing_ok=True)
    if stat.S_ISLNK(original.mode):
        spare.symlink_to(os.fsdecode(original.data))
    else:
        spare.write_bytes(original.data)
        spare.chmod(stat.S_IMODE(original.mode))
        if original.mtime_ns:
            os.utime(spare, ns=(original.mtime_ns, original.mtime_ns))
    spare.replace(path)


class Guard:
    """Watches one tree.

    Args:
        root: the tree.
        spare: a name on the same file system for files in the making.
        originals: returns what paths held when the watch began; `NotRestored` if it cannot.
    """

    def __init__(
        self, root: Path, spare: Path, originals: Callable[[Sequence[str]], Mapping[str, Original]]
    ) -> None:
        self.root = root
        self._spare = spare
        self._originals = originals
        self._known = self._scan()
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

    def changes(self) -> tuple[str, ...]:
        """Return the paths that are not as expected, sorted; the root itself is ``""``."""
        return tuple(sorted(_differing({**self._known, **self._expected}, self._scan())))

    def restore(self) -> None:
        """Put everything back and look again.

        Raises:
            NotRestored: something is still not what it was.
        """
        self._expected.clear()
        for _ in range(_MOST_PASSES):
            differing = sorted(_differing(self._known, self._scan()))
            if not differing:
                return
            try:
                self._put_back(differing)
            except (OSError, RecursionError) as error:
                raise NotRestored(f"{self.root}: {error}") from error
        raise NotRestored(f"{self.root}: {differing[0]} does not stay as it was")

    def _scan(self) -> dict[str, Seen]:
        root = look(self.root)
        if root is None or not stat.S_ISDIR(root[0]):
            return {} if root is None else {"": root}
        return {"": root, **scan(self.root)}

    def _put_back(self, paths: Sequence[str]) -> None:
        """Put paths back, folders before what is in them."""
        files = []
        for path in paths:
            wanted, place = self._known.get(path), self.root / path
            if wanted is None:
                remove_tree(place)
            elif stat.S_ISDIR(wanted[0]):
                _make_folder(place, wanted[0])
            elif look(place) != wanted:
                files.append(path)
        for start in range(0, len(files), _AT_ONCE):
            self._rewrite(files[start : start + _AT_ONCE])

    def _rewrite(self, paths: Sequence[str]) -> None:
        for path, original in self._originals(paths).items():
            place = self.root / path
            found = look(place)
            if found is not None and stat.S_ISDIR(found[0]):
                remove_tree(place)
            write_file(place, original, self._spare)
            self._relearn(path)

    def _relearn(self, path: str) -> None:
        seen = look(self.root / path)
        if seen is None:
            self._known.pop(path, None)
        else:
            self._known[path] = seen


def _make_folder(place: Path, mode: int) -> None:
    found = look(place)
    if found is None or not stat.S_ISDIR(found[0]):
        remove_tree(place)
        place.mkdir()
    place.chmod(stat.S_IMODE(mode))


def _differing(expected: Mapping[str, Seen | None], found: Mapping[str, Seen]) -> set[str]:
    changed = {path for path, seen in expected.items() if found.get(path) != seen}
    return changed | (found.keys() - expected.keys())
