"""Say which files of the user's work tree belong to a snapshot: the tree as it is on disk.

Tracked and untracked files come from git; submodules and nested repositories are entered; chosen ignored
files are looked for where environments, caches and build folders are not. Nothing is written.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.workspace.git.git_client import (
    GITLINK,
    Git,
    GitFailed,
    Repository,
    split_names,
    user_git,
)

#: Folders that are rebuilt or installed, never part of a project's sources.
SKIPPED_FOLDERS = frozenset(
    {
        *(".venv", "venv", "env", "node_modules", "site-packages", ".git", "__pycache__", "build", "dist"),
        *(".tox", ".nox", ".eggs", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    }
)
#: A chosen ignored file larger than this is data or a build product that a check does not need.
_LARGEST_IGNORED_BYTES = 32 * 1024 * 1024
#: Ignored folders may hold data sets; looking further than this would cost more than the snapshot itself.
_MOST_IGNORED_SEEN = 100_000
#: How many ignored paths that were left out are named.
_MOST_LEFT_OUT = 1000


class WorkTreeListing(NamedTuple):
    """Content of a snapshot.

    Attributes:
        files: tracked and untracked files and symbolic links that exist, relative to the root, sorted.
        ignored: the same of chosen ignored files.
        left_out: ignored files and folders (with a final slash) that are not part of it.
        hollow: folders of submodules that were never fetched.
    """

    files: tuple[str, ...]
    ignored: tuple[str, ...]
    left_out: tuple[str, ...]
    hollow: tuple[str, ...] = ()


def list_work_tree(repository: Repository, patterns: Sequence[str], scratch: Path) -> WorkTreeListing:
    """List the work tree of a repository.

    Args:
        patterns: which ignored files are wanted, matched on base name and path.
        scratch: a folder of ours that may be written to.

    Raises:
        GitFailed: git cannot read the repository.
    """
    search = _Search(repository.root, repository.common_dir, patterns)
    git = without_shared_index(user_git(repository.root), repository, scratch)
    files = set(search.enter(git, ""))
    ignored = set(search.chosen) - files
    left_out = tuple(search.left_out[:_MOST_LEFT_OUT])
    return WorkTreeListing(
        files=tuple(sorted(files)),
        ignored=tuple(sorted(ignored)),
        left_out=left_out,
        hollow=tuple(search.hollow),
    )


def list_folder(folder: Path) -> tuple[str, ...]:
    """List the files of a folder that is no repository's business (generated tests), sorted."""
    return tuple(sorted(path for path in _walk(folder, "") if not path.endswith(("/", ".pyc", ".pyo"))))


def shared_indexes(repository: Repository) -> list[Path]:
    """Return the shared parts of split indexes."""
    with os.scandir(repository.git_dir) as found:
        return [Path(entry.path) for entry in found if entry.name.startswith("sharedindex.")]


def without_shared_index(git: Git, repository: Repository, scratch: Path) -> Git:
    """Return git on a copy of a split index, whose shared part git would otherwise freshen (a write)."""
    shared = shared_indexes(repository)
    if not shared:
        return git
    import shutil

    shadow = scratch / "shadow"
    shadow.mkdir(parents=True, exist_ok=True)
    for path in (*shared, repository.git_dir / "HEAD", repository.git_dir / "index"):
        shutil.copyfile(path, shadow / path.name)
    (shadow / "commondir").write_bytes(os.fsencode(repository.common_dir) + b"\n")
    return git.having(GIT_DIR=shadow, GIT_WORK_TREE=repository.root)


class _Search:
    """One look at a work tree; knows which folders are real (no link above them)."""

    def __init__(self, root: Path, common_dir: Path, patterns: Sequence[str]) -> None:
        self.root = root
        self.common_dir = common_dir
        self.patterns = patterns
        self.chosen: list[str] = []
        self.left_out: list[str] = []
        self.hollow: list[str] = []
        self.seen = 0
        self._real: dict[str, bool] = {"": True}

    def enter(self, git: Git, prefix: str) -> Iterator[str]:
        """Yield the files of the repository at a prefix (empty, or with a final slash)."""
        listed = git.run("ls-files", "-z", "-v", "-s", "--cached", "--others", "--exclude-standard")
        entries = dict(map(_entry, split_names(listed)))
        for name, staged in entries.items():
            yield from self._resolve(prefix + name, is_submodule=staged.startswith(GITLINK))
        self._look_at_ignored(git, prefix)

    def _resolve(self, path: str, *, is_submodule: bool) -> Iterator[str]:
        path = path.rstrip("/")
        mode = self._mode(path)
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield path
        elif stat.S_ISDIR(mode) and os.path.lexists(self.root / path / ".git"):
            yield from self._nested(path + "/")
        elif stat.S_ISDIR(mode) and is_submodule:
            self.hollow.append(path)

    def _nested(self, prefix: str) -> Iterator[str]:
        """Enter a submodule or another repository inside this one; not a second work tree of this one."""
        folder = self.root / prefix
        if _is_work_tree_of(folder, self.common_dir):
            self.left_out.append(prefix)
            return
        try:
            yield from list(self.enter(user_git(folder), prefix))
        except GitFailed:  # its git directory is gone: the files are there all the same
            yield from (path for path in _walk(folder, prefix) if not path.endswith("/"))

    def _mode(self, path: str) -> int:
        """Return the mode of what is on disk; 0 when it is missing or lies behind a link."""
        if not self._is_real(path.rpartition("/")[0]):
            return 0
        try:
            return os.lstat(self.root / path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _is_real(self, folder: str) -> bool:
        known = self._real.get(folder)
        if known is None:
            parent_is_real = self._is_real(folder.rpartition("/")[0])
            known = parent_is_real and (self.root / folder).is_dir() and not (self.root / folder).is_symlink()
            self._real[folder] = known
        return known

    def _look_at_ignored(self, git: Git, prefix: str) -> None:
        output = git.run("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        for name in split_names(output):
            path = prefix + name
            if path.endswith("/"):
                self._look_into(path)
            else:
                self._choose(path)

    def _look_into(self, prefix: str) -> None:
        if _is_skipped(self.root / prefix):
            self.left_out.append(prefix)
            return
        for path in _walk(self.root / prefix, prefix):
            self.seen += 1
            if self.seen > _MOST_IGNORED_SEEN:
                self.left_out.append(prefix)
                return
            if path.endswith("/"):
                self.left_out.append(path)
            else:
                self._choose(path)

    def _choose(self, path: str) -> None:
        base = path.rpartition("/")[2]
        wanted = any(fnmatchcase(base, p) or fnmatchcase(path, p) for p in self.patterns)
        chosen = self.chosen if wanted and self._is_small_file(path) else self.left_out
        chosen.append(path)

    def _is_small_file(self, path: str) -> bool:
        try:
            status = os.lstat(self.root / path)
        except OSError:
            return False
        is_file = stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)
        return is_file and status.st_size <= _LARGEST_IGNORED_BYTES


def _entry(line: str) -> tuple[str, str]:
    """Return the path in a line of `ls-files -v -s`, and mode and blob where the index is sure of them."""
    if line.startswith("? "):
        return line.removeprefix("? "), ""
    entry, _, path = line.partition("\t")
    told, mode, blob, stage = entry.split(" ")
    # Of a file that git was told not to look at ("h", "S") nothing is known.
    return path, f"{mode} {blob}" if (told, stage) == ("H", "0") else ""


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    """Yield files and links below a folder, and with a final slash the folders that are not entered."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # unreadable or gone: an ignored folder is no reason to fail
        return
    for entry in entries:
        path = prefix + entry.name
        if entry.name == ".git":
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield path
        elif _is_skipped(Path(entry.path)):
            yield path + "/"
        else:
            yield from _walk(Path(entry.path), path + "/")


def _is_skipped(folder: Path) -> bool:
    """Say whether a folder is an environment, a cache, a build product or another checkout."""
    marks = ("pyvenv.cfg", ".git", "conda-meta")
    return folder.name in SKIPPED_FOLDERS or any(os.path.lexists(folder / mark) for mark in marks)


def _is_work_tree_of(folder: Path, common_dir: Path) -> bool:
    try:
        text = (folder / ".git").read_bytes()
    except OSError:
        return False
    pointed = Path(os.fsdecode(text.removeprefix(b"gitdir: ").strip()))
    return (folder / pointed).resolve().is_relative_to(common_dir / "worktrees")
