"""The ways in which a slot's tree gets its files; which of them a machine allows is found out by doing it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.worktrees.guard import Guard
from codeflash_parallel.worktrees.overlay import UPPER, WORK, Overlay, probe_overlay
from codeflash_parallel.worktrees.seen import names_in, scan

#: Copying one tree; a hanging file system must not hang a run.
_DEADLINE_S = 600.0
_CLONE = ("cp", "--archive", "--reflink=always", "--")
#: A mount is state of the whole machine. A tree of fewer files is written in less than a second.
LEAST_FILES_OF_AN_OVERLAY = 2000


class SlotKind(StrEnum):
    """How the files of a slot's tree were made."""

    #: Written by git.
    WORKTREE = "worktree"
    #: Cloned from the first slot: their blocks are shared until one of them is written.
    REFLINK = "reflink"
    #: A view of one tree that all slots share.
    OVERLAY = "overlay"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotCost:
    """What a slot takes of the disk, as it was made; what it shares with others is not counted.

    Attributes:
        bytes: of blocks.
        inodes: files, links and folders.
    """

    bytes: int
    inodes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """How a slot was made.

    Attributes:
        lower: the tree that it is a view of, if it is an overlay.
    """

    kind: SlotKind
    cost: SlotCost
    lower: Path | None

    def overlay(self, folder: Path, tree: Path) -> Overlay | None:
        """Return the overlay of a slot that is one."""
        if self.kind is not SlotKind.OVERLAY or self.lower is None:
            return None
        return Overlay(lower=self.lower, folder=folder, tree=tree)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pristine:
    """A tree of the snapshot in which nothing has run, and git's index of it."""

    kind: SlotKind
    tree: Path
    index: Path


def overlays_pay(folder: Path, files: int) -> bool:
    """Find out whether slots of so many files below a folder should be overlays, by making one.

    Raises:
        OSError: nothing can be written there.
    """
    return files >= LEAST_FILES_OF_AN_OVERLAY and probe_overlay(folder)


def clones_work(folder: Path) -> bool:
    """Find out whether the file system lets files share blocks, by making two.

    Raises:
        OSError: nothing can be written there.
    """
    source = folder / "probe"
    source.write_bytes(b"x" * 8192)
    return _clone(str(source), folder / "copy")


def share(pristine: Pristine, tree: Path, folder: Path) -> bool:
    """Give a new tree its files in the way of the pristine one; say whether it could be done.

    Args:
        tree: an empty folder, but for what git put there.
        folder: of the slot.
    """
    match pristine.kind:
        case SlotKind.OVERLAY:
            return Overlay(lower=pristine.tree, folder=folder, tree=tree).mount()
        case SlotKind.REFLINK:
            return _clone(f"{pristine.tree}/.", tree)
        case SlotKind.WORKTREE:
            return False


def cost_of(kind: SlotKind, folder: Path, guards: Sequence[Guard]) -> SlotCost:
    """Return what a slot that was just made takes.

    Args:
        guards: of its tree, and of its folder in the mirror.
    """
    tree, admin = guards
    found = [status for name in ("private", UPPER, WORK) for _, status in scan(folder / name)]
    blocks = admin.blocks + sum(status.st_blocks for status in found)
    inodes = len(admin.known) + len(found) + len(names_in(folder))
    if kind is not SlotKind.OVERLAY:
        blocks += tree.blocks - (tree.files if kind is SlotKind.REFLINK else 0)
        inodes += len(tree.known)
    return SlotCost(bytes=512 * blocks, inodes=inodes)


def _clone(source: str, copy: Path) -> bool:
    command = (*_CLONE, source, str(copy))
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S, process_group=0)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
