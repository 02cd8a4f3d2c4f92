"""Trees in the making: apply a patch or new files to a snapshot inside the mirror, and read off the edits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.workspace.cache_layout import is_trouble_of_the_disk
from codeflash_parallel.workspace.git.file_diff import ABSENT, file_diff
from codeflash_parallel.workspace.git.git_client import GITLINK, Git, GitFailed, TreeEntry, read_blobs
from codeflash_parallel.workspace.git.patch_forms import PatchForm, PatchRefused, apply_somehow, complaint
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

_PLAIN = "100644"
_EXECUTABLE = "100755"


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftChange:
    """One path that differs between the snapshot and a draft; modes are git's."""

    edit: Edit
    old_mode: str
    new_mode: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftTree:
    """What a candidate makes of the snapshot."""

    changes: tuple[DraftChange, ...]
    diff: str


def draft_of_patch(mirror: Mirror, snapshot: Snapshot, patch: bytes) -> DraftTree:
    """Apply a patch to a snapshot, as `git apply` does. Blocking.

    Raises:
        DoesNotApply: git refuses it.
        GitFailed: the mirror or its disk.
    """
    with mirror.home.scratch() as scratch:
        index = scratch / "index"
        index.write_bytes(mirror.index(snapshot))
        git = mirror.git.having(GIT_INDEX_FILE=index)
        project = str(mirror.repository.project)
        apply_somehow(patch, project, partial(_apply, git), partial(mirror.read, snapshot))
        return _read_off(git, snapshot.tree)


def draft_of_files(mirror: Mirror, snapshot: Snapshot, files: Mapping[str, bytes | None]) -> DraftTree:
    """Put whole files into a snapshot, or take them out (`None`); modes are kept. Blocking.

    Raises:
        DoesNotApply: a file that is to be taken out is not there, or a path is a folder.
        GitFailed: the mirror or its disk.
    """
    entries = mirror.entries(snapshot)
    _must_fit(files, entries)
    old = {path: mirror.read(snapshot, path) for path in files}
    changed = sorted(path for path, new in files.items() if new is None or new != old[path])
    modes = {path: entries[path].mode if path in entries else ABSENT for path in changed}
    return DraftTree(
        changes=tuple(_change(path, old[path], files[path], modes[path]) for path in changed),
        diff="".join(
            file_diff(path, old[path], files[path], modes[path], _mode_after(files[path], modes[path]))
            for path in changed
        ),
    )


def _change(path: str, old: bytes | None, new: bytes | None, mode: str) -> DraftChange:
    after = _mode_after(new, mode)
    old_digest = None if mode == ABSENT else digest_of(old or b"")
    edit = Edit(path=path, old_digest=old_digest, new=new, executable=after == _EXECUTABLE)
    return DraftChange(edit=edit, old_mode=mode, new_mode=after)


def _mode_after(new: bytes | None, mode: str) -> str:
    if new is None:
        return ABSENT
    return _PLAIN if mode == ABSENT else mode


def _must_fit(files: Mapping[str, bytes | None], entries: Mapping[str, TreeEntry]) -> None:
    """Refuse files that are not there to be removed, and files and folders of one name."""
    left = {path for path in entries if files.get(path, b"") is not None}
    folders = {parent for path in left for parent in _parents(path)}
    for path, data in files.items():
        if data is None and path not in entries:
            raise PatchRefused(f"{path} is to be removed, but there is no such file")
        if data is not None and path in folders:
            raise PatchRefused(f"{path} is a folder")
        blocking = left.intersection(_parents(path)) if data is not None else ()
        if blocking:
            raise PatchRefused(f"{min(blocking)} is a file, so {path} cannot be made")


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _apply(git: Git, form: PatchForm, patch: bytes) -> str:
    """Apply a patch to the index; return what git says against it, empty when it applied."""
    try:
        git.run("apply", "--cached", "--whitespace=nowarn", *form.options, "-", stdin=patch)
    except GitFailed as error:
        if is_trouble_of_the_disk(error):
            raise
        return complaint(error)
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Raw:
    """One line of a raw diff."""

    path: str
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str

    @classmethod
    def read(cls, meta: bytes, path: bytes) -> _Raw:
        """Read a line's two fields."""
        old_mode, new_mode, old_blob, new_blob, _ = meta.decode().removeprefix(":").split(" ")
        modes = {"old_mode": old_mode, "new_mode": new_mode}
        return cls(path=os.fsdecode(path), old_blob=old_blob, new_blob=new_blob, **modes)

    @property
    def blobs(self) -> set[str]:
        """Return the blobs on either side; a submodule's commit is none."""
        sides = ((self.old_mode, self.old_blob), (self.new_mode, self.new_blob))
        return {blob for mode, blob in sides if mode not in {ABSENT, GITLINK}}

    def sides(self, blobs: Mapping[str, bytes]) -> tuple[bytes | None, bytes | None]:
        """Return the bytes before and after, `None` for no file; a submodule has none."""
        both = ((self.old_mode, self.old_blob), (self.new_mode, self.new_blob))
        old, new = (None if mode == ABSENT else blobs.get(blob, b"") for mode, blob in both)
        return old, new

    def change(self, blobs: Mapping[str, bytes]) -> DraftChange:
        """Return it as an edit."""
        old, new = self.sides(blobs)
        edit = Edit(
            path=self.path,
            old_digest=None if old is None else digest_of(old),
            new=new,
            executable=self.new_mode == _EXECUTABLE,
        )
        return DraftChange(edit=edit, old_mode=self.old_mode, new_mode=self.new_mode)

    def diff(self, blobs: Mapping[str, bytes]) -> str:
        """Return it as a diff."""
        return file_diff(self.path, *self.sides(blobs), self.old_mode, self.new_mode)


def _read_off(git: Git, tree: str) -> DraftTree:
    """Return what differs between a tree and the index."""
    fields = git.run("diff-index", "--cached", "-z", "--no-renames", "--raw", tree).split(b"\0")
    found = [_Raw.read(meta, path) for meta, path in zip(fields[0:-1:2], fields[1::2], strict=True)]
    found.sort(key=lambda raw: raw.path)
    blobs = read_blobs(git, sorted({blob for raw in found for blob in raw.blobs}))
    return DraftTree(
        changes=tuple(raw.change(blobs) for raw in found), diff="".join(raw.diff(blobs) for raw in found)
    )
