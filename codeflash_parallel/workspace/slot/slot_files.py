"""Files of a slot's tree: content by the snapshot, copies of a tree by cloning its blocks, staged edits."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.candidates.path_policy import refuse_form
from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.workspace.cache_layout import remove_tree
from codeflash_parallel.workspace.git.git_client import Git, GitFailed, TreeEntry, blob_id, read_blobs
from codeflash_parallel.workspace.tree_guard import (
    NotRestored,
    OriginalFile,
    TreeGuard,
    look,
    names_in,
    parents,
    scan,
    wait_past,
    write_file,
)

#: Copying one tree; a hanging file system must not hang a run.
_DEADLINE_S = 600.0
_CLONE = ("cp", "--archive", "--reflink=always", "--")

#: Every file of the snapshot has this mtime in every slot, so that bytecode of one slot is good in all; a
#: staged file has the time of its staging, so that bytecode of the snapshot is never taken for it.
SNAPSHOT_MTIME_NS = 1_000_000_000 * 10**9


class SlotKind(StrEnum):
    """Way in which the files of a slot's tree were made."""

    #: Written by git.
    WORKTREE = "worktree"
    #: Cloned from the first slot: their blocks are shared until one of them is written.
    REFLINK = "reflink"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotCost:
    """Disk space of a slot when it was made; blocks that it shares with others are not counted.

    Attributes:
        bytes: of blocks.
        inodes: files, links and folders.
    """

    bytes: int
    inodes: int


def clones_work(folder: Path) -> bool:
    """Find out whether the file system lets files share blocks, by making two.

    Raises:
        OSError: nothing can be written there.
    """
    source = folder / "probe"
    source.write_bytes(b"x" * 8192)
    return _clone(str(source), folder / "copy")


def clone(pristine: Path, tree: Path) -> bool:
    """Give a new tree, in which only git's own file is, the files of another; say whether it worked."""
    return _clone(f"{pristine}/.", tree)


def cost_of(kind: SlotKind, folder: Path, guards: Sequence[TreeGuard]) -> SlotCost:
    """Return what a slot that was just made takes.

    Args:
        guards: of its tree, and of its folder in the mirror.
    """
    tree, admin = guards
    found = [status for _, status in scan(folder / "private")]
    shared = tree.files if kind is SlotKind.REFLINK else 0
    blocks = tree.blocks - shared + admin.blocks + sum(status.st_blocks for status in found)
    inodes = len(tree.known) + len(admin.known) + len(found) + len(names_in(folder))
    return SlotCost(bytes=512 * blocks, inodes=inodes)


def _clone(source: str, copy: Path) -> bool:
    command = (*_CLONE, source, str(copy))
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S, process_group=0)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotFiles:
    """Expected content of a slot's tree: blobs of the snapshot, and files of the slot's own."""

    git: Git
    entries: Mapping[str, TreeEntry]
    own: dict[str, OriginalFile]

    def __call__(self, paths: Sequence[str]) -> dict[str, OriginalFile]:
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
            found[path] = OriginalFile(data=data, mode=int(entry.mode, 8), mtime_ns=SNAPSHOT_MTIME_NS)
        return found


#: Its name, beside the tree. It is there while something is staged.
JOURNAL = "journal"
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def note_staging(folder: Path, paths: Sequence[str]) -> None:
    """Add a line to a slot's journal, before these paths are touched.

    Raises:
        OSError: the disk is full, or somebody put something else in its place.
    """
    fd = os.open(folder / JOURNAL, _APPEND, 0o600)
    try:
        os.write(fd, json.dumps({"staged": list(paths)}).encode() + b"\n")
    finally:
        os.close(fd)


def note_undone(folder: Path) -> None:
    """Remove a slot's journal: every file is what it was.

    Raises:
        OSError: it cannot be removed.
    """
    remove_tree(folder / JOURNAL)


def staged_in(folder: Path) -> tuple[str, ...]:
    """Return the paths that were staged in a slot and not undone, sorted; a torn line says nothing."""
    try:
        lines = (folder / JOURNAL).read_bytes().splitlines()
    except OSError:
        return ()
    return tuple(sorted({path for line in lines for path in _paths(line)}))


def _paths(line: bytes) -> Iterator[str]:
    try:
        found = json.loads(line)["staged"]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(found, list):
        yield from (path for path in found if isinstance(path, str))


class StageConflict(Exception):  # noqa: N818 - the candidate and the slot disagree; nobody is at fault yet
    """Edits do not fit the slot; nothing was written."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Stager:
    """Stages edits in one slot; all of it blocks.

    Attributes:
        tree: knows the tree, and is told what differs from now on.
        folder: of the slot.
    """

    tree: TreeGuard
    folder: Path

    def stage(self, edits: Sequence[Edit]) -> None:
        """Write edits.

        Raises:
            StageConflict: nothing was written.
            OSError: the disk is full; the guard puts back what was written.
        """
        removed = {edit.path for edit in edits if edit.new is None}
        old = {edit.path: self._check(edit, removed) for edit in edits}
        wait_past(self.tree.newest_ns)  # what changes from now on must be seen to have changed
        note_staging(self.folder, sorted(old))
        for path, data in old.items():
            self._hold(path, data)
        touched: set[str] = set()
        for edit in sorted(edits, key=lambda e: e.new is not None):  # a removed file may become a folder
            touched |= self._unlink_bytecode(edit.path)
            touched |= self._remove(edit.path) if edit.new is None else self._write(edit.path, edit)
        self.tree.expect(touched, {edit.path: edit.new for edit in edits if edit.new is not None})

    def _hold(self, path: str, data: bytes) -> None:
        """Remember the old bytes if they are the snapshot's; else the mirror has them."""
        seen = self.tree.known.get(path)
        if seen is not None and look(self._place(path)) == seen:
            self.tree.hold(path, data)

    def _check(self, edit: Edit, removed: set[str]) -> bytes:
        """Return the old bytes; raise `StageConflict` unless this edit fits what is on disk."""
        reason = refuse_form(edit.path)
        if reason:
            raise StageConflict(edit.path, reason)
        for parent in parents(edit.path)[1:]:
            seen = look(self._place(parent))
            if seen is not None and not stat.S_ISDIR(seen[0]) and parent not in removed:
                raise StageConflict(edit.path, f"{parent} is not a folder")
        seen = look(self._place(edit.path))
        if edit.old_digest is None and edit.new is None:
            raise StageConflict(edit.path, "a file that does not exist cannot be removed")
        if edit.old_digest is None and seen is not None and not self._becomes_free(edit.path, removed):
            raise StageConflict(edit.path, "it exists already")
        data = _read(self._place(edit.path))
        if edit.old_digest is not None and (data is None or digest_of(data) != edit.old_digest):
            raise StageConflict(edit.path, "it is not the file that the candidate was made for")
        return data or b""

    def _becomes_free(self, path: str, removed: set[str]) -> bool:
        """Say whether a folder vanishes with the files that are removed from it."""
        inside = {
            p
            for p, seen in self.tree.known.items()
            if p.startswith(f"{path}/") and not stat.S_ISDIR(seen[0]) and not is_bytecode(p)
        }
        return bool(inside) and inside <= removed

    def _write(self, path: str, edit: Edit) -> set[str]:
        place = self._place(path)
        made = [parent for parent in parents(path)[1:] if look(self._place(parent)) is None]
        place.parent.mkdir(parents=True, exist_ok=True)
        mode = stat.S_IFREG | (0o755 if edit.executable else 0o644)
        write_file(place, OriginalFile(data=edit.new or b"", mode=mode))
        return {path, *made}

    def _remove(self, path: str) -> set[str]:
        """Remove a file, and folders that become empty, as git does; bytecode alone keeps none."""
        self._place(path).unlink()
        gone = {path}
        for parent in reversed(parents(path)[1:]):
            for folder in (f"{parent}/__pycache__", parent):
                with suppress(OSError):  # not there, or not empty
                    self._place(folder).rmdir()
                    gone.add(folder)
            if parent not in gone:
                break
        return gone

    def _unlink_bytecode(self, path: str) -> set[str]:
        """Remove bytecode of a changed module: one of equal second and size would run in its place."""
        above, _, name = path.rpartition("/")
        cached = f"{above}/__pycache__" if above else "__pycache__"
        stem, _, suffix = name.rpartition(".")
        found = names_in(self._place(cached)) if suffix == "py" else []
        gone = {f"{cached}/{n}" for n in found if n.startswith(f"{stem}.") and n.endswith(".pyc")}
        for file in gone:
            self._place(file).unlink()
        return gone

    def _place(self, path: str) -> Path:
        return self.tree.root / path


def is_bytecode(path: str) -> bool:
    """Say whether a path is a bytecode cache, or a file in one."""
    folder, _, name = path.rpartition("/")
    if name == "__pycache__":
        return True
    return folder.rpartition("/")[2] == "__pycache__" and name.endswith(".pyc")


def _read(path: Path) -> bytes | None:
    """Return the bytes of a regular file, `None` when there is none."""
    seen = look(path)
    return path.read_bytes() if seen is not None and stat.S_ISREG(seen[0]) else None
