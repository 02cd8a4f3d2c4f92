"""A digest of what a snapshot would hold, without taking one: some milliseconds, and nothing is written."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.workspace.git.git_client import Git, GitFailed, blob_id, split_names, user_git
from codeflash_parallel.workspace.git.repository import Repository
from codeflash_parallel.workspace.git.work_tree_files import (
    list_folder,
    list_work_tree,
    shared_indexes,
    without_shared_index,
)
from codeflash_parallel.workspace.snapshot.snapshot_request import SnapshotRequest, no_work_tree, resolve

#: A file that is larger is named by its size and time: nobody waits for the digest of a data set.
_LARGEST_READ_BYTES = 4 * 1024 * 1024
#: Attributes are read from the empty tree (git 2.41 and later): no filter of the user's is run.
_NO_FILTERS = {"GIT_ATTR_SOURCE": "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}


def stamp_of(repository: Repository, request: SnapshotRequest) -> str:
    """Return a digest that is another one when a snapshot would be another one.

    It depends on what the files hold and on nothing else: staging, committing and touching leave it as it is.

    Raises:
        UsageError: `BAD_BASE`, a bare repository without one included, or the extra tests are missing.
        EnvironmentFault: a file, or the repository, cannot be read.
    """
    try:
        parts = list(_parts(repository, request))
    except GitFailed as error:
        raise EnvironmentFault("GIT_FAILED", f"{repository.root} cannot be read: {error}.") from error
    except PermissionError as error:
        hint = "Give yourself the right to read it, or let git ignore it."
        raise EnvironmentFault("UNREADABLE_FILE", f"{error.filename} cannot be read.", hint) from error
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _parts(repository: Repository, request: SnapshotRequest) -> Iterator[object]:
    with _scratch(repository) as scratch:
        if request.base:
            commit = resolve(repository, request.base)
            if not commit:
                raise UsageError("BAD_BASE", f"--base {request.base!r} names no commit of {repository.root}.")
            yield commit
        elif repository.is_bare:
            raise no_work_tree(repository)
        if not repository.is_bare:
            yield from _on_disk(repository, request, scratch)
    if request.extra_tests:
        folder = Path(request.extra_tests).resolve()
        if not folder.is_dir():
            raise UsageError("EXTRA_TESTS_MISSING", f"--extra-tests {folder} is not a folder.")
        yield [str(folder), [[name, _content(folder / name)] for name in list_folder(folder)]]


@contextmanager
def _scratch(repository: Repository) -> Iterator[Path]:
    """Give a folder for the copy of a split index; where there is none, a place that cannot be written to."""
    if not shared_indexes(repository):
        yield Path(os.devnull)
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-") as scratch:
        yield Path(scratch)


def _on_disk(repository: Repository, request: SnapshotRequest, scratch: Path) -> Iterator[object]:
    """Yield paths and what they hold: of a base only the ignored ones, which come from the disk."""
    listing = list_work_tree(repository, request.include_ignored, scratch)
    files = () if request.base else listing.files
    git = without_shared_index(user_git(repository.root), repository, scratch)
    changed = _changed(git) if files else frozenset(listing.staged)
    for path in (*files, *listing.ignored):
        staged = "" if path in changed else listing.staged.get(path)
        yield [path, staged or _content(repository.root / path)]


def _changed(git: Git) -> frozenset[str]:
    """Return the tracked files that are not on disk as they are in the index, as far as git looks at them."""
    git = git.having(**_NO_FILTERS)
    return frozenset(split_names(git.run("diff-files", "-z", "--name-only", "--ignore-submodules=all")))


def _content(path: Path) -> str:
    """Return mode and blob of a file on disk, as git would name them."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return f"120000 {blob_id(os.fsencode(path.readlink()))}"
    mode = "100755" if status.st_mode & stat.S_IXUSR else "100644"
    if status.st_size > _LARGEST_READ_BYTES:
        return f"{mode} {status.st_size} {status.st_mtime_ns}"
    return f"{mode} {blob_id(path.read_bytes())}"
