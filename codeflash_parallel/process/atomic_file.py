"""Files of our own, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def _leave_it_to_the_kernel(_handle: int) -> None:
    """Wait for nothing: what the kernel has survives a kill, though not a power cut."""


def write_atomically(
    path: Path, data: bytes, *, sync: Callable[[int], None] = _leave_it_to_the_kernel
) -> None:
    """Write a file so that a reader, or a kill, never sees half of it; its folder is made if needed.

    Args:
        sync: called with the descriptor of what is written, before it gets its name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(handle, 0o644)
            file.flush()
            sync(handle)
        os.replace(draft, path)  # noqa: PTH105 - every check writes some
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_durably(path: Path, data: bytes) -> None:
    """Write a file as `write_atomically` does, and wait for the disk: it survives a power cut, too."""
    write_atomically(path, data, sync=os.fsync)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_once(path: Path, data: bytes) -> None:
    """Write a file that nobody reads before this returns, unless it is there already with this content.

    What else may stand there, a link to somewhere or half a file, is replaced.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o644)
    except OSError:
        if path.is_symlink() or not path.is_file() or path.read_bytes() != data:
            write_atomically(path, data)
        return
    with os.fdopen(handle, "wb") as file:
        file.write(data)
