"""Files of a tree that lie elsewhere for a while, so that nobody finds them, and come back as they were.

A candidate that is right only while a test lies beside it must not find one. Covering files by mounts leaves
something to be seen, and needs namespaces; here they are gone, at every isolation level. Renaming a file
moves its change time, which is how a tree is known: what was right before, and was not touched meanwhile, is
learned anew, and everything else is left for the guard to find.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.workspace.file_status import Seen, look, names_in, parents
from codeflash_parallel.workspace.slot.tree_guard import TreeGuard, wait_past

#: Beside the tree of a slot.
ASIDE = "aside"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Away:
    """Something that lies elsewhere.

    Attributes:
        path: where it belongs, relative to the tree.
        place: where it is.
        right: what was as it should be, by path, as it is now; of a folder nothing, for what is in one
            does not change with its name.
    """

    path: str
    place: Path
    right: Mapping[str, Seen]


class HiddenFiles:
    """Puts files of one tree aside and back; all of it blocks.

    Args:
        tree: knows the tree.
        folder: of the slot; no candidate can name it at `landlock` and `sandbox`.
        drop: makes a path free.
    """

    def __init__(self, *, tree: TreeGuard, folder: Path, drop: Callable[[Path], None]) -> None:
        self._tree, self._folder, self._drop = tree, folder / ASIDE, drop
        self._away: list[_Away] = []

    def put(self, paths: Iterable[str]) -> None:
        """Put files and folders aside, and the bytecode of modules with them; what is staged stays.

        Raises:
            OSError: something cannot be moved; `back` brings back what could.
        """
        self.back()
        self._drop(self._folder)  # there is none, unless somebody has made it
        self._folder.mkdir(mode=0o700)
        for path in paths:
            for one in (path, *self._bytecode(path)):
                self._put(one)
        # What changes from now on must be seen to have changed.
        wait_past(max((seen[3] for away in self._away for seen in away.right.values()), default=0))

    def back(self) -> None:
        """Put everything back where it was; what cannot be is left for the guard to find.

        Raises:
            OSError: the disk is full.
        """
        while self._away:
            away = self._away.pop()
            now = self._looks(away.path, away.place)
            right = [path for path, seen in away.right.items() if now.get(path) == seen]
            if self._return(away):
                self._tree.adopt(right)
        with suppress(OSError):  # not there; or not empty, and then it goes with what lies beside the tree
            self._folder.rmdir()

    def _put(self, path: str) -> None:
        place, there = self._tree.root / path, self._folder / str(len(self._away))
        if look(place) is None or self._tree.expects(path):
            return
        known = self._tree.known
        right = [name for name, seen in self._looks(path, place).items() if known.get(name) == seen]
        if not _moved(place, there):
            return
        now = self._looks(path, there)
        self._away.append(_Away(path=path, place=there, right={n: now[n] for n in right if n in now}))

    def _return(self, away: _Away) -> bool:
        """Put one thing back; say whether it could be done."""
        root, target = self._tree.root, self._tree.root / away.path
        if not all(_is_folder(root / above) for above in parents(away.path)):
            return False  # one may be a link to somewhere else by now
        if look(target) is not None:  # somebody has put another one there
            self._drop(target)
        return look(away.place) is not None and _moved(away.place, target)

    def _looks(self, path: str, place: Path) -> dict[str, Seen]:
        """Return what is to be learned anew when something is moved, by path in the tree."""
        seen = look(place)
        return {} if seen is None or _is_folder(place) else {path: seen}

    def _bytecode(self, path: str) -> list[str]:
        """Return the bytecode of a module."""
        above, _, name = path.rpartition("/")
        stem, _, suffix = name.rpartition(".")
        if suffix != "py":
            return []
        folder = f"{above}/__pycache__" if above else "__pycache__"
        found = names_in(self._tree.root / folder)
        return [f"{folder}/{n}" for n in found if n.startswith(f"{stem}.") and n.endswith(".pyc")]


def _is_folder(path: Path) -> bool:
    seen = look(path)
    return seen is not None and stat.S_ISDIR(seen[0])


def _moved(source: Path, target: Path) -> bool:
    """Move something; say whether that is allowed: whoever may not write to a folder cannot move it."""
    try:
        source.rename(target)
    except PermissionError:
        return False
    return True
