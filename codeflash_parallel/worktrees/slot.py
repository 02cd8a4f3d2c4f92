"""One slot: a worktree that takes a candidate's edits, tells what else changed, and forgets."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio.to_thread

from codeflash_parallel.model.candidate import Edit, digest_of
from codeflash_parallel.model.paths import refuse_form
from codeflash_parallel.model.workspace import Workspace
from codeflash_parallel.worktrees.git import Git, GitFailed, TreeEntry, blob_id, read_blobs
from codeflash_parallel.worktrees.guard import Guard, NotRestored, Original, look, write_file
from codeflash_parallel.worktrees.layout import cache_faults, remove_tree

_T = TypeVar("_T")

#: Every file of the snapshot has this mtime in every slot, so that bytecode of one slot is good in all; a
#: staged file has the time of its staging, so that bytecode of the snapshot is never taken for it.
SNAPSHOT_MTIME_NS = 1_000_000_000 * 10**9
#: Marks a slot that was kept for a look; `recover` leaves it alone, `clean` removes it.
KEPT_MARK = "kept.json"


class StageConflict(Exception):  # noqa: N818 - the candidate and the slot disagree; nobody is at fault yet
    """Edits do not fit the slot; nothing was written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SlotBroken(Exception):  # noqa: N818 - a state of the machinery
    """A slot cannot be made what it was; it is never given to a candidate again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """What the files of a slot's tree are by right: blobs of the snapshot, and files of the slot's own."""

    git: Git
    entries: Mapping[str, TreeEntry]
    own: dict[str, Original]

    def __call__(self, paths: Sequence[str]) -> dict[str, Original]:
        """Return what these paths must hold.

        Raises:
            NotRestored: the mirror does not have them any more.
        """
        found = {path: self.own[path] for path in paths if path in self.own}
        wanted = {path: self.entries[path] for path in paths if path not in found}
        try:
            blobs = read_blobs(self.git, [entry.blob for entry in wanted.values()])
        except GitFailed as error:
            raise NotRestored(str(error)) from error
        for path, entry in wanted.items():
            data = blobs[entry.blob]
            if blob_id(data) != entry.blob:
                raise NotRestored(f"the mirror's copy of {path} was changed")
            found[path] = Original(data=data, mode=int(entry.mode, 8), mtime_ns=SNAPSHOT_MTIME_NS)
        return found


class Slot:
    """A worktree of the snapshot; made by the pool.

    Attributes:
        workspace: where the project can be run.
        folder: what belongs to the slot: the tree and, beside it, its private folder.
    """

    def __init__(
        self, workspace: Workspace, folder: Path, tree: Guard, admin: Guard, contents: Contents
    ) -> None:
        self.workspace = workspace
        self.folder = folder
        self._tree = tree
        self._admin = admin
        self._contents = contents
        self._private = _folders(workspace.private)
        self._broken = ""
        self._kept = False

    @property
    def number(self) -> int:
        """From 1; 0 is the baseline's own."""
        return self.workspace.number

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
        await self._in_thread(lambda: self._stage(edits))

    async def audit(self) -> tuple[str, ...]:
        """Return the paths that changed besides the staged edits, new bytecode apart."""
        return await self._in_thread(self._audit)

    async def discard(self) -> None:
        """Make the tree and the private folder what they were, and verify it.

        Raises:
            SlotBroken: it cannot be done; the pool replaces the slot.
        """
        await self._in_thread(self._discard)

    async def accept_bytecode(self) -> None:
        """Let the bytecode that lies in the tree now be part of it. Only after a run of the baseline."""
        await self._in_thread(self._accept_bytecode)

    async def take_bytecode(self, other: Slot) -> None:
        """Copy the bytecode that another slot has accepted."""
        await self._in_thread(lambda: self._take_bytecode(other))

    async def keep(self) -> Path:
        """Put the slot aside for a look, as it is, and return its tree; the pool makes another."""
        mark = {"tree": str(self.workspace.root), "slot": self.number}
        text = json.dumps(mark)
        await self._in_thread(lambda: (self.folder / KEPT_MARK).write_text(text, encoding="utf-8"))
        self._kept = True
        return self.workspace.root

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await anyio.to_thread.run_sync(work)

    def _stage(self, edits: Sequence[Edit]) -> None:
        removed = {edit.path for edit in edits if edit.new is None}
        for edit in edits:
            self._check(edit, removed)
        touched: set[str] = set()
        with cache_faults(self.folder):
            for edit in sorted(
                edits, key=lambda e: e.new is not None
            ):  # removals first: a file may become a folder
                touched |= self._remove(edit.path) if edit.new is None else self._write(edit.path, edit)
                touched |= self._unlink_bytecode(edit.path)
            self._tree.expect(touched)

    def _check(self, edit: Edit, removed: set[str]) -> None:
        """Raise `StageConflict` unless this edit fits what is on disk."""
        reason = refuse_form(edit.path)
        if reason:
            raise StageConflict(edit.path, reason)
        for parent in _parents(edit.path):
            seen = look(self.workspace.root / parent)
            if seen is not None and not stat.S_ISDIR(seen[0]) and parent not in removed:
                raise StageConflict(edit.path, f"{parent} is not a folder")
        seen = look(self.workspace.root / edit.path)
        if edit.old_digest is None and edit.new is None:
            raise StageConflict(edit.path, "a file that does not exist cannot be removed")
        if edit.old_digest is None and seen is not None and not self._becomes_free(edit.path, removed):
            raise StageConflict(edit.path, "it exists already")
        if edit.old_digest is not None and _digest(self.workspace.root / edit.path) != edit.old_digest:
            raise StageConflict(edit.path, "it is not the file that the candidate was made for")

    def _becomes_free(self, path: str, removed: set[str]) -> bool:
        """Say whether a folder vanishes with the files that are removed from it."""
        inside = [
            p
            for p, seen in self._tree.known.items()
            if p.startswith(f"{path}/") and not stat.S_ISDIR(seen[0])
        ]
        return bool(inside) and removed.issuperset(inside)

    def _write(self, path: str, edit: Edit) -> set[str]:
        place = self.workspace.root / path
        made = [parent for parent in _parents(path) if look(self.workspace.root / parent) is None]
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IFREG | (0o755 if edit.executable else 0o644)
        write_file(place, Original(data=edit.new or b"", mode=mode), self.folder / "spare")
        return {path, *made}

    def _remove(self, path: str) -> set[str]:
        """Remove a file, and folders that become empty, as git does."""
        place = self.workspace.root / path
        place.unlink()
        gone = {path}
        for parent in reversed(_parents(path)):
            try:
                (self.workspace.root / parent).rmdir()
            except OSError:  # not empty
                break
            gone.add(parent)
        return gone

    def _unlink_bytecode(self, path: str) -> set[str]:
        """Remove bytecode of a changed module: one of equal second and size would run in its place."""
        source = Path(path)
        cached = self.workspace.root / source.parent / "__pycache__"
        found = list(cached.glob(f"{_escape(source.stem)}.*.pyc")) if source.suffix == ".py" else []
        for file in found:
            file.unlink(missing_ok=True)
        return {str(file.relative_to(self.workspace.root)) for file in found}

    def _audit(self) -> tuple[str, ...]:
        known = self._tree.known
        return tuple(p or "." for p in self._tree.changes() if p in known or not _is_bytecode(p))

    def _discard(self) -> None:
        if self._kept:
            return
        if self._broken:
            raise SlotBroken(self._broken)
        try:
            self._tree.restore()
            self._admin.restore()
            self._wipe_private()
            self._wipe_beside()
        except (NotRestored, OSError) as error:
            self._broken = str(error)
            raise SlotBroken(self._broken) from error

    def _wipe_private(self) -> None:
        private = self.workspace.private
        private.mkdir(exist_ok=True, mode=0o700)
        private.chmod(0o700)
        for entry in list(private.iterdir()):
            remove_tree(entry)
        for folder in self._private:
            folder.mkdir(mode=0o700)

    def _wipe_beside(self) -> None:
        """Remove what a candidate left above its tree: the next one would find it."""
        for entry in set(self.folder.iterdir()) - {self.workspace.root, self.workspace.private}:
            remove_tree(entry)

    def _accept_bytecode(self) -> None:
        accepted = [path for path in self._tree.changes() if _is_bytecode(path)]
        for path in accepted:
            place = self.workspace.root / path
            if place.is_file() and not place.is_symlink():
                data, status = place.read_bytes(), place.stat()
                self._contents.own[path] = Original(data=data, mode=status.st_mode)
        self._tree.adopt(accepted)

    def _take_bytecode(self, other: Slot) -> None:
        for path, original in other._contents.own.items():
            # pytest's own bytecode names the slot it was made in; only the import system corrects that.
            if not _is_bytecode(path) or "-pytest-" in path or path in self._tree.known:
                continue
            place = self.workspace.root / path
            if look(place.parent.parent) is None:
                continue
            place.parent.mkdir(exist_ok=True)
            write_file(place, original, self.folder / "spare")
            self._contents.own[path] = original
            self._tree.adopt((str(Path(path).parent), path))


def _digest(path: Path) -> str | None:
    seen = look(path)
    if seen is None or not stat.S_ISREG(seen[0]):
        return None
    return digest_of(path.read_bytes())


def _parents(path: str) -> list[str]:
    """Return the folders above a path, the outermost first, without the root."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _escape(stem: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in stem)


def _is_bytecode(path: str) -> bool:
    """Say whether a path is a bytecode cache, or a file in one."""
    folder, _, name = path.rpartition("/")
    if name == "__pycache__":
        return True
    return folder.rpartition("/")[2] == "__pycache__" and name.endswith(".pyc")


def _folders(private: Path) -> tuple[Path, ...]:
    """Return the folders that a private folder is made of."""
    found: Iterable[Path] = (Path(entry.path) for entry in os.scandir(private) if entry.is_dir())
    return tuple(sorted(found))
