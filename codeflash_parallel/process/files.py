"""Files of our own, written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, never sees half of it; its folder is made if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(handle, 0o644)
        os.replace(draft, path)  # noqa: PTH105 - every check writes some
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


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
