"""Writing a candidate into the user's tree: only onto the files it was made for, all of them or none."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

_EXECUTABLE = 0o111


@dataclass(frozen=True, kw_only=True, slots=True)
class _Change:
    """One file before and after; `None` is a file that is not there."""

    path: Path
    edit: Edit
    old: bytes | None
    mode: int


def write_edits(root: Path, edits: Sequence[Edit]) -> list[str]:
    """Write the edits and return a line for each.

    Raises:
        UsageError: `FILE_CHANGED`: a file is not what the candidate was made for; nothing is written then.
        EnvironmentFault: `NOT_WRITTEN`: a file cannot be written; those that were are as before again.
    """
    changes = [_examined(root, edit) for edit in edits]
    done: list[_Change] = []
    try:
        for change in changes:
            if change.old != change.edit.new:
                done.append(change)
                _write(change.path, change.edit.new, _new_mode(change))
    except BaseException as error:
        _undo(done)
        if not isinstance(error, OSError):
            raise  # Ctrl-C half way
        raise EnvironmentFault(
            "NOT_WRITTEN", f"{error.filename} cannot be written: {error.strerror}.", "Nothing was changed."
        ) from error
    return [_line(change) for change in changes]


def _undo(done: Sequence[_Change]) -> None:
    for change in reversed(done):
        with suppress(OSError):
            _write(change.path, change.old, change.mode)


def _examined(root: Path, edit: Edit) -> _Change:
    """Look at the file that an edit is for.

    Raises:
        UsageError: it is not what the candidate was made for, or lies outside the repository.
    """
    path = root / edit.path
    parts = PurePosixPath(edit.path).parts
    escapes = ".." in parts or ".git" in parts or not path.parent.resolve().is_relative_to(root.resolve())
    if escapes or path.is_symlink():
        raise UsageError("PATH_NOT_ALLOWED", f"{edit.path} is a link or leads out of the repository.")
    old = path.read_bytes() if path.is_file() else None
    found = None if old is None else digest_of(old)
    if old != edit.new and found != edit.old_digest:
        raise UsageError(
            "FILE_CHANGED",
            f"{edit.path} is no longer what the candidate was made for.",
            "Undo the change, or evaluate again.",
        )
    mode = stat.S_IMODE(path.stat().st_mode) if old is not None else 0o666 & ~_umask()
    return _Change(path=path, edit=edit, old=old, mode=mode)


def _new_mode(change: _Change) -> int:
    """Return the mode as it was, with the executable bits that the candidate asks for."""
    if change.edit.executable == bool(change.mode & stat.S_IXUSR):
        return change.mode
    readable = (change.mode & 0o444) >> 2  # whoever may read it may run it, as git does it
    return change.mode | readable if change.edit.executable else change.mode & ~_EXECUTABLE


def _write(path: Path, data: bytes | None, mode: int) -> None:
    """Put bytes in the place of a file in one step, or remove it."""
    if data is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            _keep_owner(path, file.fileno())
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _keep_owner(path: Path, handle: int) -> None:
    """Give the new file to the owner of the old one, where we may (root working in a user's tree)."""
    with suppress(FileNotFoundError, PermissionError):
        before = path.stat()
        os.fchown(handle, before.st_uid, before.st_gid)


def _umask() -> int:
    """Return the umask; there is no way to read it without setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _line(change: _Change) -> str:
    if change.old == change.edit.new:
        word = "already there"
    elif change.edit.new is None:
        word = "removed"
    else:
        word = "new" if change.old is None else "changed"
    return f"{word}: {change.edit.path}"
