"""One slot: a work tree that takes edits of a candidate, detects other changes, hides tests, is restored."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.workspace.cache_layout import cache_faults, remove_tree
from codeflash_parallel.workspace.slot.slot_files import (
    JOURNAL,
    SNAPSHOT_MTIME_NS,
    SlotCost,
    SlotFiles,
    SlotKind,
    StageConflict,
    Stager,
    is_bytecode,
    note_undone,
    staged_in,
)
from codeflash_parallel.workspace.tree_guard import (
    NotRestored,
    OriginalFile,
    Seen,
    TreeGuard,
    look,
    names_in,
    parents,
    wait_past,
    write_file,
)

#: Beside the tree of a slot.
ASIDE = "aside"

__all__ = ["KEPT_MARK", "SNAPSHOT_MTIME_NS", "Slot", "SlotBroken", "SlotFiles", "StageConflict"]


#: Marks a slot that was kept for a look; `recover` leaves it alone, `clean` removes it.
KEPT_MARK = "kept.json"


class SlotTrash:
    """Waste to be removed from one slot; `drop` and `sweep` may run in different threads.

    Args:
        folder: on the file system of the slot; what is dropped lies there under a random name until `sweep`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: deque[Path] = deque()
        self._names: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """Waste in the folder that has not been removed yet."""
        return frozenset(self._names)

    def drop(self, path: Path) -> None:
        """Make a path free; what is missing is fine.

        Raises:
            OSError: it can neither be moved nor removed.
        """
        try:
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
        except OSError:
            is_folder = False
        if not is_folder or not self._moved(path):
            remove_tree(path)

    def _moved(self, path: Path) -> bool:
        place = self._folder / f".{secrets.token_hex(8)}"
        self._names.add(place.name)
        try:
            path.rename(place)
        except OSError:  # a folder without rights cannot change its parent
            self._names.discard(place.name)
            return False
        self._waiting.append(place)
        return True

    def sweep(self) -> None:
        """Remove what was dropped.

        Raises:
            OSError: something cannot be removed; it goes with the slot.
        """
        while self._waiting:
            place = self._waiting.popleft()
            remove_tree(place)
            self._names.discard(place.name)


@dataclass(slots=True)
class SlotResidue:
    """Filled once, when the slot is given back.

    Attributes:
        changed: paths of the snapshot that were changed or removed, staged edits apart.
        added: new paths, bytecode apart.
        mirror: the mirror's own files that somebody changed while the slot was in use.
    """

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    mirror: tuple[str, ...] = ()


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


class SlotBroken(Exception):  # noqa: N818 - a state of the machinery
    """A slot cannot be made what it was; it is never given to a candidate again."""


class Slot:
    """A worktree of the snapshot; made by the pool.

    Attributes:
        workspace: where the project can be run.
        folder: what belongs to the slot: the tree and, beside it, its private folder and its journal.
        kind: how its tree was made.
        cost: what it takes of the disk, as it was made: tree, private folder, record in the mirror.
        trace: filled by the next `discard`, after which there is another one.
        broken: why it could not be made what it was; empty while it can.
        kept: it was put aside for a look.
    """

    def __init__(
        self,
        workspace: Workspace,
        folder: Path,
        guards: tuple[TreeGuard, TreeGuard],
        contents: SlotFiles,
        waste: SlotTrash,
        kind: SlotKind,
        cost: SlotCost,
    ) -> None:
        self.workspace = workspace
        self.folder = folder
        self._tree, self._admin = guards
        self._contents = contents
        self._waste = waste
        self.kind = kind
        self.cost = cost
        self._stager = Stager(tree=self._tree, folder=folder)
        self._aside = HiddenFiles(tree=self._tree, folder=folder, drop=waste.drop)
        self._identity = _identity(folder)
        self._device = os.lstat(workspace.root).st_dev
        self._private = _folders(workspace.private)
        self.broken = ""
        self.kept = False
        self.trace = SlotResidue()

    @property
    def number(self) -> int:
        """From 1; 0 where no candidate gets it."""
        return self.workspace.number

    @property
    def admin(self) -> Path:
        """Its folder in the mirror."""
        return self._admin.root

    async def stage(self, edits: Sequence[Edit]) -> None:
        """Write a candidate's edits.

        Raises:
            StageConflict: a path or an old digest does not fit; nothing was written.
            EnvironmentFault: the disk is full.
        """
        await anyio.to_thread.run_sync(lambda: self._stage(edits))

    @asynccontextmanager
    async def without(self, paths: Sequence[str]) -> AsyncIterator[None]:
        """Have some files and folders not there while something runs; afterwards they are as they were.

        Args:
            paths: relative to the root; of a module its bytecode goes with it, what is staged stays.

        Raises:
            EnvironmentFault: the disk is full.
        """
        await anyio.to_thread.run_sync(lambda: self._put_aside(paths))
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: self._put_aside(()))

    async def audit(self) -> tuple[str, ...]:
        """Return the paths that changed besides the staged edits, new bytecode apart."""
        return await anyio.to_thread.run_sync(self._audit)

    async def discard(self) -> None:
        """Make the tree and the private folder what they were, and verify it.

        Raises:
            SlotBroken: it cannot be done; the pool replaces the slot.
        """
        await anyio.to_thread.run_sync(self._discard)

    async def sweep(self) -> None:
        """Remove what `discard` has put out of the way; somebody else may use the slot by then."""
        if self._waste.names:
            with suppress(OSError):  # it goes with the slot
                await anyio.to_thread.run_sync(self._waste.sweep)

    async def accept_bytecode(self) -> None:
        """Let the bytecode that lies in the tree now be part of it, pytest's own included; again is cheap.

        Only after the snapshot's own code has run in a clean slot. A candidate's slot keeps it through
        every `discard`; of a staged module it is taken away, and put back with the module.

        Raises:
            InternalError: `BYTECODE_OF_CANDIDATE`, edits are staged.
        """
        await anyio.to_thread.run_sync(self._accept_bytecode)

    @property
    def bytecode(self) -> dict[str, OriginalFile]:
        """The bytecode that this slot has accepted, by path, which is good in any slot of the snapshot.

        pytest's own names the path at which it was made, which only the import system corrects: it is part of
        that where all slots are seen at one path.
        """
        own, is_one_path = self._contents.own.items(), self.workspace.mounted is not None
        return {p: made for p, made in own if is_bytecode(p) and (is_one_path or "-pytest-" not in p)}

    async def take_bytecode(self, bytecode: Mapping[str, OriginalFile]) -> None:
        """Copy the bytecode of another slot of the same snapshot."""
        await anyio.to_thread.run_sync(self._take_bytecode, bytecode)

    async def keep(self) -> Path:
        """Put the slot aside for a look, as it is, and return its tree; the pool makes another."""
        await anyio.to_thread.run_sync(self._mark_kept)
        self.kept = True
        return self.workspace.root

    def _mark_kept(self) -> None:
        self._aside.back()
        mark = {"tree": str(self.workspace.root), "slot": self.number, "staged": staged_in(self.folder)}
        (self.folder / KEPT_MARK).write_text(json.dumps(mark), encoding="utf-8")

    def _stage(self, edits: Sequence[Edit]) -> None:
        with cache_faults(self.folder):
            self._stager.stage(edits)

    def _put_aside(self, paths: Sequence[str]) -> None:
        with cache_faults(self.folder):
            if paths:
                self._aside.put(paths)
            else:
                self._aside.back()

    def _audit(self) -> tuple[str, ...]:
        known = self._tree.known
        return tuple(p or "." for p in self._tree.changes() if p in known or not is_bytecode(p))

    def _discard(self) -> None:
        if self.kept:
            return
        if self.broken:
            raise SlotBroken(self.broken)
        try:
            self._restore()
        except (NotRestored, OSError) as error:
            self.broken = str(error)
            raise SlotBroken(self.broken) from error

    def _restore(self) -> None:
        if _identity(self.folder) != self._identity:  # else we would clean up somewhere else
            raise NotRestored(f"{self.folder} was replaced")
        with suppress(FileNotFoundError):
            if os.lstat(self.workspace.root).st_dev != self._device:
                raise NotRestored(f"{self.workspace.root} was mounted or unmounted")
        self._aside.back()
        self._wipe_beside()
        self._note(self._tree.restore())
        self._admin.restore()
        self._wipe_private()
        note_undone(self.folder)

    def _note(self, found: Sequence[str]) -> None:
        trace, self.trace, known = self.trace, SlotResidue(), self._tree.known
        trace.changed = tuple(p or "." for p in found if p in known and not is_bytecode(p))
        trace.added = tuple(p for p in found if p not in known and not is_bytecode(p))

    def _wipe_private(self) -> None:
        """Empty the private folder; its own folders stay, for removing and making them would cost more."""
        folders = (self.workspace.private, *self._private)
        for folder in folders:
            self._make_private(folder)
            for name in names_in(folder):
                if folder / name not in folders:
                    self._waste.drop(folder / name)

    def _make_private(self, folder: Path) -> None:
        seen = look(folder)
        if seen is None or not stat.S_ISDIR(seen[0]):  # never through a link to somewhere else
            self._waste.drop(folder)
            folder.mkdir(mode=0o700)
        elif stat.S_IMODE(seen[0]) != 0o700:  # noqa: PLR2004
            folder.chmod(0o700)

    def _wipe_beside(self) -> None:
        """Remove what a candidate left above its tree: the next one would find it."""
        ours = {self.workspace.root.name, self.workspace.private.name, JOURNAL, *self._waste.names}
        for name in names_in(self.folder):
            if name not in ours:
                self._waste.drop(self.folder / name)

    def _accept_bytecode(self) -> None:
        if self._tree.is_expecting:
            words = f"Slot {self.number} holds a candidate, whose bytecode must go with it."
            raise InternalError("BYTECODE_OF_CANDIDATE", words)
        accepted = []
        for path in filter(is_bytecode, self._tree.changes()):
            place = self.workspace.root / path
            seen = look(place)
            if seen is not None and stat.S_ISREG(seen[0]):
                self._contents.own[path] = OriginalFile(data=place.read_bytes(), mode=seen[0])
            if seen is None or stat.S_ISREG(seen[0]) or stat.S_ISDIR(seen[0]):
                accepted.append(path)
        self._tree.adopt(accepted)

    def _take_bytecode(self, bytecode: Mapping[str, OriginalFile]) -> None:
        taken: dict[str, None] = {}
        for path, original in bytecode.items():
            place = self.workspace.root / path
            if path in self._tree.known or look(place.parent.parent) is None:
                continue
            place.parent.mkdir(exist_ok=True)
            write_file(place, original)
            self._contents.own[path] = original
            taken |= dict.fromkeys((str(Path(path).parent), path))
        self._tree.adopt(taken)  # all at once: it may wait for the clock of files to move


def _identity(folder: Path) -> tuple[int, int, int]:
    """Say which folder this is: it may be replaced by another one, or by a link to one."""
    status = os.lstat(folder)
    return (stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino)


def _folders(private: Path) -> tuple[Path, ...]:
    """Return the folders that a private folder is made of."""
    found: Iterable[Path] = (Path(entry.path) for entry in os.scandir(private) if entry.is_dir())
    return tuple(sorted(found))
