"""What is staged in a slot, on disk: it outlives a process that is killed.

The slot itself does not rely on it, for tests can write there; it tells the next process, and people who look
at a slot that was kept, what was changed on purpose.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from codeflash_parallel.workspace.cache_layout import remove_tree

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
