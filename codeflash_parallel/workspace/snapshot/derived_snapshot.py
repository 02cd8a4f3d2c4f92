"""Snapshots that are made of others: with files of another one, or with what was built in a slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.workspace.cache_layout import cache_faults, locked
from codeflash_parallel.workspace.git.git_client import Git, names
from codeflash_parallel.workspace.snapshot.mirror import Mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest, commit_of

#: What is built but never belongs to a build: it is made again, and differs each time.
_NEVER = (":(exclude,glob)**/__pycache__/**", ":(exclude,glob)**/.pytest_cache/**")


def with_files_of(mirror: Mirror, snapshot: Snapshot, other: Snapshot, paths: Iterable[str]) -> Snapshot:
    """Return a snapshot in which some paths are what they are in another one; absent there: taken out.

    Raises:
        EnvironmentFault: a cache that is full or cannot be written.
        GitFailed: the mirror. Blocks.
    """
    entries = mirror.entries(other)
    found = [(path, entries.get(path)) for path in paths]
    lines = [f"{e.mode} {e.blob}\t{path}" if e else f"0 {'0' * 40}\t{path}" for path, e in found]
    with _drafted(mirror, snapshot) as git:
        git.run("update-index", "-z", "--index-info", stdin=names(lines))
        return _taken(mirror, git, snapshot)


def with_tree_of(mirror: Mirror, snapshot: Snapshot, folder: Path) -> Snapshot:
    """Return a snapshot of all that lies in a slot's tree now, ignored files included, bytecode apart.

    Raises:
        EnvironmentFault: a cache that is full or cannot be written.
        GitFailed: the mirror, or a file that cannot be read. Blocks.
    """
    with _drafted(mirror, snapshot) as git:
        inside = git.having(GIT_WORK_TREE=folder)._replace(cwd=folder)
        inside.run("add", "--all", "--force", "--", ".", *_NEVER)
        return _taken(mirror, git, snapshot)


@contextmanager
def _drafted(mirror: Mirror, snapshot: Snapshot) -> Iterator[Git]:
    """Give git with an index of its own that holds a snapshot."""
    home = mirror.home
    with cache_faults(home.path), locked(home.mirror_lock) as lock, home.scratch() as scratch:
        git = mirror.git.holding(lock.fd).having(GIT_INDEX_FILE=scratch / "index")
        git.run("read-tree", snapshot.tree)
        yield git


def _taken(mirror: Mirror, git: Git, snapshot: Snapshot) -> Snapshot:
    tree = git.text("write-tree")
    made = replace(snapshot, commit=commit_of(git, tree), tree=tree)
    mirror.adopt(made, SnapshotRequest(base=snapshot.base))
    return made
