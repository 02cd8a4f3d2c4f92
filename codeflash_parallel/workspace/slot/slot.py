"""One slot: a worktree that takes a candidate's edits, tells what else changed, and forgets."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.runtime_protocols import Workspace
from codeflash_parallel.workspace.cache_layout import cache_faults
from codeflash_parallel.workspace.file_status import look, names_in
from codeflash_parallel.workspace.slot.hidden_files import HiddenFiles
from codeflash_parallel.workspace.slot.slot_files import SNAPSHOT_MTIME_NS, SlotFiles
from codeflash_parallel.workspace.slot.slot_residue import SlotResidue
from codeflash_parallel.workspace.slot.staging import StageConflict, Stager, is_bytecode
from codeflash_parallel.workspace.slot.staging_journal import JOURNAL, note_undone, staged_in
from codeflash_parallel.workspace.slot.trash import SlotTrash
from codeflash_parallel.workspace.slot.tree_copy import SlotCost, SlotKind
from codeflash_parallel.workspace.slot.tree_guard import NotRestored, OriginalFile, TreeGuard, write_file

__all__ = ["KEPT_MARK", "SNAPSHOT_MTIME_NS", "Slot", "SlotBroken", "SlotFiles", "StageConflict"]


#: Marks a slot that was kept for a look; `recover` leaves it alone, `clean` removes it.
KEPT_MARK = "kept.json"


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
        self._broken = ""
        self._kept = False
        self.trace = SlotResidue()

    @property
    def number(self) -> int:
        """From 1; 0 is the baseline's own."""
        return self.workspace.number

    @property
    def broken(self) -> str:
        """Why it could not be made what it was; empty while it can."""
        return self._broken

    @property
    def kept(self) -> bool:
        """Whether it was put aside for a look."""
        return self._kept

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
        """Have some files and folders not there while something runs (see `WorkspaceTree`).

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

    async def take_bytecode(self, other: Slot) -> None:
        """Copy the bytecode that another slot has accepted."""
        await anyio.to_thread.run_sync(lambda: self._take_bytecode(other))

    async def keep(self) -> Path:
        """Put the slot aside for a look, as it is, and return its tree; the pool makes another."""
        await anyio.to_thread.run_sync(self._mark_kept)
        self._kept = True
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
        if self._kept:
            return
        if self._broken:
            raise SlotBroken(self._broken)
        try:
            self._restore()
        except (NotRestored, OSError) as error:
            self._broken = str(error)
            raise SlotBroken(self._broken) from error

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

    def _take_bytecode(self, other: Slot) -> None:
        for path, original in other._contents.own.items():
            # pytest's own bytecode names the slot it was made in; only the import system corrects that.
            if not is_bytecode(path) or "-pytest-" in path or path in self._tree.known:
                continue
            place = self.workspace.root / path
            if look(place.parent.parent) is None:
                continue
            place.parent.mkdir(exist_ok=True)
            write_file(place, original)
            self._contents.own[path] = original
            self._tree.adopt((str(Path(path).parent), path))


def _identity(folder: Path) -> tuple[int, int, int]:
    """Say which folder this is: it may be replaced by another one, or by a link to one."""
    status = os.lstat(folder)
    return (stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino)


def _folders(private: Path) -> tuple[Path, ...]:
    """Return the folders that a private folder is made of."""
    found: Iterable[Path] = (Path(entry.path) for entry in os.scandir(private) if entry.is_dir())
    return tuple(sorted(found))
