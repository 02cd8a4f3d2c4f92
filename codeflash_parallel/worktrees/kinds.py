"""How a slot's tree comes to be: what is shared with another one, and what it costs.

Which way a machine allows is found out by doing it once. Why there is no overlay: docs/decisions/0010.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

#: Copying one tree; a hanging file system must not hang a run.
_DEADLINE_S = 600.0


class SlotKind(StrEnum):
    """How the files of a slot's tree were made."""

    #: Written by git.
    WORKTREE = "worktree"
    #: Cloned from the first slot: their blocks are shared until one of them is written.
    REFLINK = "reflink"


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotCost:
    """What a slot takes of the disk, as it was made; blocks shared with another slot are not counted.

    Attributes:
        bytes: of blocks.
        inodes: files, links and folders.
    """

    bytes: int
    inodes: int


def probe(folder: Path) -> SlotKind:
    """Find out how slots in a folder can be made.

    Raises:
        OSError: nothing can be written there.
    """
    source, copy = folder / "probe", folder / "probe-copy"
    source.write_bytes(b"x" * 8192)
    try:
        return SlotKind.REFLINK if _clone(str(source), copy) else SlotKind.WORKTREE
    finally:
        source.unlink(missing_ok=True)
        copy.unlink(missing_ok=True)


def clone_tree(tree: Path, copy: Path) -> bool:
    """Make a tree that shares its files' blocks with another, times and modes kept; say whether it did."""
    return _clone(f"{tree}/.", copy)


def _clone(source: str, copy: Path) -> bool:
    command = ("cp", "--archive", "--reflink=always", "--", source, str(copy))
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DEADLINE_S, process_group=0)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
