"""The one write into the user's tree: put a candidate's edits there, all of them or none."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.model.candidate import Edit, digest_of
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.paths import refuse_form

_NEW_MODE = 0o644
_EXECUTE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


@dataclass(frozen=True, kw_only=True, slots=True)
class _Planned:
    """One file: what is there now, and the draft of what will be."""

    path: Path
    edit: Edit
    old: bytes | None
    old_mode: int

    @property
    def mode(self) -> int:
        """The old mode, with the executable bits that the edit wants (for whoever may read it)."""
        if not self.edit.executable:
            return self.old_mode & ~_EXECUTE
        return self.old_mode if self.old_mode & _EXECUTE else self.old_mode | ((self.old_mode & 0o444) >> 2)


def apply_edits(root: Path, edits: Sequence[Edit]) -> tuple[Path, ...]:
    """Put edits into the user's tree. Blocking.

    Every file must still be what it was when the snapshot was taken. Each file is replaced in one step, its
    mode is kept; if anything fails, what was written is taken back.

    Args:
        root: of the user's work tree.

    Returns:
        The files that were changed.

    Raises:
        EnvironmentFault: `FILE_CHANGED` or `NOT_APPLIED`; nothing has been changed.
    """
    planned = [_plan(root, edit) for edit in edits]
    done: list[_Planned] = []
    with contextlib.ExitStack() as drafts:
        ready = [(plan, drafts.enter_context(_draft(plan))) for plan in planned]
        try:
            for plan, draft in ready:
                done.append(plan)
                _put(plan, draft)
        except OSError as error:
            _take_back(done)
            raise _not_applied(error) from error
    return tuple(plan.path for plan in planned)


def _plan(root: Path, edit: Edit) -> _Planned:
    path = root / edit.path
    if refuse_form(edit.path) or any(parent.is_symlink() for parent in _above(root, path)):
        raise EnvironmentFault("FILE_CHANGED", f"{path} does not lie in the repository any more.", _HINT)
    status = os.lstat(path) if os.path.lexists(path) else None
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise EnvironmentFault("FILE_CHANGED", f"{path} is not a regular file any more.", _HINT)
    try:
        old = None if status is None else path.read_bytes()
    except OSError as error:
        raise _not_applied(error) from error
    if (None if old is None else digest_of(old)) != edit.old_digest:
        what = "has changed since the snapshot" if edit.old_digest and status else "was made or removed since"
        raise EnvironmentFault("FILE_CHANGED", f"{path} {what}; nothing was written.", _HINT)
    mode = _NEW_MODE if status is None else stat.S_IMODE(status.st_mode)
    return _Planned(path=path, edit=edit, old=old, old_mode=mode)


_HINT = "Run again on the tree as it is now."


def _above(root: Path, path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent == root:
            return
        yield parent


@contextlib.contextmanager
def _draft(plan: _Planned) -> Iterator[Path | None]:
    """Write the new bytes beside their place, so that taking it is one step; remove what is not taken."""
    if plan.edit.new is None:
        yield None
        return
    made = [parent for parent in reversed(list(plan.path.parents)) if not parent.exists()]
    draft: Path | None = None
    try:
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".codeflash-", dir=plan.path.parent)
        draft = Path(name)
        with os.fdopen(handle, "wb") as file:
            file.write(plan.edit.new)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(plan.mode)
    except OSError as error:
        _remove(draft, made)
        raise _not_applied(error) from error
    try:
        yield draft
    finally:
        _remove(draft, made)


def _remove(draft: Path | None, folders: Sequence[Path]) -> None:
    """Remove a draft that was not taken, and folders made for it that are still empty."""
    if draft is not None:
        draft.unlink(missing_ok=True)
    for folder in reversed(folders):
        with contextlib.suppress(OSError):  # not empty: the draft was taken
            folder.rmdir()


def _put(plan: _Planned, draft: Path | None) -> None:
    if draft is None:
        plan.path.unlink()
    else:
        draft.replace(plan.path)


def _take_back(done: Sequence[_Planned]) -> None:
    """Restore files after a failure; the last one may not have been touched at all."""
    for plan in done:
        with contextlib.suppress(OSError):  # the error that led here is the one to tell
            if plan.old is None:
                plan.path.unlink(missing_ok=True)
            elif not plan.path.exists() or plan.path.read_bytes() != plan.old:
                plan.path.write_bytes(plan.old)
                plan.path.chmod(plan.old_mode)


def _not_applied(error: OSError) -> EnvironmentFault:
    return EnvironmentFault("NOT_APPLIED", f"The edits cannot be written: {error}; nothing was changed.")
