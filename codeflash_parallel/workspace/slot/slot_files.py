"""Files of a slot's tree: their content by the snapshot, and copies of a whole tree by cloning its blocks."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.workspace.file_status import names_in, scan
from codeflash_parallel.workspace.git.git_client import Git, GitFailed, TreeEntry, blob_id, read_blobs
from codeflash_parallel.workspace.slot.tree_guard import NotRestored, OriginalFile, TreeGuard

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
