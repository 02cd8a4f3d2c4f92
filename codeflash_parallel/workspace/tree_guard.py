"""Know every file of a tree by its stat, tell what changed, and put it back.

A program cannot set a file's change time, and every change of bytes, mode, owner, name or links moves it:
equal stat values mean equal files. There is no cheaper exact way. A folder's own times move when names come
and go, but not when a file in it is written, so that each file is asked; watching (inotify) misses what is
written through a mapping or another link. What is left is the grain of the clock, see `wait_past`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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


#: Restoring may uncover more (a folder that could not be listed); this often it is looked at again.
_MOST_PASSES = 4
#: Originals that are held in memory at once.
_AT_ONCE = 500
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


#: Linux' number of the clock that stamps files; Python has no name for it.
_COARSE_CLOCK = 5
#: The slowest kernels tick a hundred times a second. Other clocks (a server's) are not waited for longer.
_LONGEST_TICK_S = 0.01
_POLL_S = 0.0005


@dataclass(frozen=True, kw_only=True, slots=True)
class OriginalFile:
    """Expected content of a path.

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


def write_file(path: Path, original: OriginalFile) -> None:
    """Make a new file or link; an old one is removed first, as ext4 flushes what is renamed over another."""
    path.unlink(missing_ok=True)
    if stat.S_ISLNK(original.mode):
        path.symlink_to(os.fsdecode(original.data))
        return
    with open(os.open(path, _NEW, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(original.data)
        os.fchmod(file.fileno(), stat.S_IMODE(original.mode))
    if original.mtime_ns:
        os.utime(path, ns=(original.mtime_ns, original.mtime_ns))


def wait_past(newest_ns: int) -> None:
    """Wait until a change gets a later time than this one: a tick at most, mostly not at all.

    Kernels stamp files with a clock that moves 100 to 1,000 times a second: two changes within a tick may
    leave the same time.
    """
    deadline = time.monotonic() + _LONGEST_TICK_S
    while time.clock_gettime_ns(_COARSE_CLOCK) <= newest_ns and time.monotonic() < deadline:
        time.sleep(_POLL_S)


class TreeGuard:
    """Watches one tree.

    Args:
        root: the tree.
        originals: returns what paths held when the watch began; `NotRestored` if it cannot.
        drop: makes a path free.

    Attributes:
        blocks: disk blocks of 512 bytes that the tree had when the watch began; `files` those of its files.
    """

    def __init__(
        self,
        root: Path,
        originals: Callable[[Sequence[str]], Mapping[str, OriginalFile]],
        drop: Callable[[Path], None],
    ) -> None:
        self.root = root
        self.blocks = self.files = 0
        self._originals = originals
        self._drop = drop
        self._expected: dict[str, Seen | None] = {}
        self._staged: dict[str, bytes] = {}
        self._held: dict[str, OriginalFile] = {}
        self._known = self._first_look()
        self._newest_ns = max((seen[3] for seen in self._known.values()), default=0)

    @property
    def known(self) -> Mapping[str, Seen]:
        """Content of the tree when nothing is expected to differ."""
        return self._known

    @property
    def is_expecting(self) -> bool:
        """Whether anything is expected to differ."""
        return bool(self._expected)

    def expects(self, path: str) -> bool:
        """Say whether something at a path, below it or above it is expected to differ."""
        return any(
            other == path or other.startswith(f"{path}/") or path.startswith(f"{other}/")
            for other in self._expected
        )

    @property
    def newest_ns(self) -> int:
        """The latest change time of a file that is known."""
        return self._newest_ns

    def hold(self, path: str, data: bytes) -> None:
        """Keep what a known regular file holds, so that it can be put back without asking for it."""
        seen = self._known[path]
        self._held[path] = OriginalFile(data=data, mode=seen[0], mtime_ns=seen[2])

    def expect(self, paths: Iterable[str], staged: Mapping[str, bytes]) -> None:
        """Take these paths as they are now for what they should be until the next `restore`.

        Args:
            staged: what regular files among them were given a moment ago; their bytes are compared, too,
                for the next change may come within the same tick of the clock.
        """
        for path in paths:
            self._expected[path] = look(self.root / path)
        self._staged |= staged

    def adopt(self, paths: Iterable[str]) -> None:
        """Take these paths as they are now for what they should be from now on."""
        for path in paths:
            self._relearn(path)

    def changes(self) -> tuple[str, ...]:
        """Return the paths that are not as expected, sorted; the root itself is ``""``."""
        changed = set(self._differing({**self._known, **self._expected}))
        changed |= {path for path, data in self._staged.items() if not holds(self.root / path, data)}
        return tuple(sorted(changed))

    def restore(self) -> tuple[str, ...]:
        """Put everything back, what was expected to differ at once; verify it; return what else differed.

        Raises:
            NotRestored: something is still not what it was.
        """
        found = {path for path, data in self._staged.items() if not holds(self.root / path, data)}
        try:
            self._undo()
            for _ in range(_MOST_PASSES):
                differing = sorted(self._differing(self._known))
                found.update(differing)
                if differing:
                    self._put_back(differing)
                if not differing or self._is_certain(differing):
                    return tuple(sorted(found))
        except (OSError, RecursionError) as error:
            raise NotRestored(f"{self.root}: {error}") from error
        raise NotRestored(f"{self.root}: {differing[0]} does not stay as it was")

    def _is_certain(self, paths: Sequence[str]) -> bool:
        """Say whether what was put back is right and hid nothing; the rest was right, and nobody runs."""
        wanted = {path: self._known.get(path) for path in paths}
        folders = any(seen is not None and stat.S_ISDIR(seen[0]) for seen in wanted.values())
        return not folders and all(look(self.root / path) == seen for path, seen in wanted.items())

    def _undo(self) -> None:
        """Put back what was staged: a few files, known by name, whose old bytes are at hand.

        The folders above them come first: one may be a link to somewhere else by now.
        """
        above = {parent for path in self._expected for parent in parents(path)}
        with suppress(OSError):  # the look at everything, which follows, has more means
            self._put_back(sorted({*self._expected, *above}))
        self._expected.clear()
        self._staged.clear()
        self._held.clear()

    def _first_look(self) -> dict[str, Seen]:
        known = {"": status_of(os.lstat(self.root))}
        for path, status in scan(self.root):
            seen = known[path] = status_of(status)
            self.blocks += status.st_blocks
            if not stat.S_ISDIR(seen[0]):
                self.files += status.st_blocks
        return known

    def _differing(self, expected: Mapping[str, Seen | None]) -> list[str]:
        """Return the paths that are not as they should be."""
        left = dict(expected)
        root = look(self.root)
        changed = [] if left.pop("") == root else [""]
        if root is not None and stat.S_ISDIR(root[0]):
            changed += [path for path, status in scan(self.root) if left.pop(path, None) != status_of(status)]
        return changed + [path for path, seen in left.items() if seen is not None]

    def _put_back(self, paths: Sequence[str]) -> None:
        """Put paths back, folders before what is in them."""
        files = []
        for path in paths:
            wanted, place = self._known.get(path), self.root / path
            if wanted is None:
                self._drop(place)
            elif stat.S_ISDIR(wanted[0]):
                self._make_folder(place, wanted[0])
            elif look(place) != wanted:
                files.append(path)
        for start in range(0, len(files), _AT_ONCE):
            self._rewrite(files[start : start + _AT_ONCE])

    def _rewrite(self, paths: Sequence[str]) -> None:
        held = {path: self._held[path] for path in paths if path in self._held}
        others = [path for path in paths if path not in held]
        for path, original in {**held, **(self._originals(others) if others else {})}.items():
            place = self.root / path
            found = look(place)
            if found is not None and stat.S_ISDIR(found[0]):
                self._drop(place)
            write_file(place, original)
            self._relearn(path)

    def _make_folder(self, place: Path, mode: int) -> None:
        found = look(place)
        if found is None or not stat.S_ISDIR(found[0]):
            self._drop(place)
            place.mkdir()
            found = None
        if found is None or found[0] != mode:
            place.chmod(stat.S_IMODE(mode))

    def _relearn(self, path: str) -> None:
        seen = look(self.root / path)
        if seen is None:
            self._known.pop(path, None)
        else:
            self._known[path] = seen
            self._newest_ns = max(self._newest_ns, seen[3])


def holds(path: Path, data: bytes) -> bool:
    """Say whether a path is a regular file, no link to one, with these bytes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
        return stat.S_ISREG(os.fstat(fd).st_mode) and file.read(len(data) + 1) == data
