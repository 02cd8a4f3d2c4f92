"""Get what candidates left out of the way at once, and remove it later.

Renaming a folder takes microseconds, however much is in it. Removing one waits for the journal of the file
system (ext4: milliseconds for each folder), which the next candidate need not.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections import deque
from pathlib import Path

from codeflash_parallel.workspace.cache_layout import remove_tree


class SlotTrash:
    """What is to be removed from one slot; `drop` and `sweep` may run in different threads.

    Args:
        folder: on the file system of the slot; what is dropped lies there under a random name until `sweep`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting: deque[Path] = deque()
        self._names: set[str] = set()

    @property
    def names(self) -> frozenset[str]:
        """What in the folder is waste that has not been removed yet."""
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
