"""Request and take a snapshot: hash a tree of the user's into the mirror, and name it by a commit.

The commit's id is a function of the content alone. Nothing but the mirror is written to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.workspace.git.git_client import (
    GITLINK,
    Git,
    GitFailed,
    Repository,
    names,
    split_names,
    user_git,
)
from codeflash_parallel.workspace.git.work_tree_files import (
    WorkTreeListing,
    list_folder,
    list_work_tree,
    without_shared_index,
)


class SnapshotRequest(NamedTuple):
    """Request for a snapshot.

    Attributes:
        base: a ref of the user's repository; empty: the tree as it is on disk.
        include_ignored: patterns of ignored files that are wanted.
        extra_tests: folder of tests that are overlaid; empty: none.
        protected: paths that candidates may not touch.
    """

    base: str = ""
    include_ignored: tuple[str, ...] = ()
    extra_tests: str = ""
    protected: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> SnapshotRequest:
        """Return what the snapshot of an evaluation is taken of."""
        return cls(
            base=settings.base,
            include_ignored=settings.include_ignored,
            extra_tests=settings.extra_tests,
            protected=(settings.accept.partition("::")[0],) if settings.accept else (),
        )


def no_work_tree(repository: Repository) -> UsageError:
    """Return the error of a bare repository where nothing is named to start from."""
    hint = "Name what to start from with --base."
    return UsageError("BAD_BASE", f"{repository.root} is bare: it has no work tree.", hint)


def resolve(repository: Repository, ref: str) -> str:
    """Return the commit that a ref of the user's repository names; empty if there is none."""
    try:
        return user_git(repository.root).text(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"
        )
    except GitFailed:
        return ""


#: Author and date of every snapshot, so that equal content has an equal id.
_SIGNATURE = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "snapshot"), ("EMAIL", "snapshot@localhost"), ("DATE", "1000000000 +0000"))
}
#: Stands for the commit of a submodule that was never fetched: git makes an empty folder of it.
_NO_COMMIT = "1" * 40
#: More new files than this go into one pack: thousands of little files are slow to make on any disk.
MANY_OBJECTS = 200
_INTO_ONE_PACK = ("-c", "core.bigFileThreshold=1", "-c", "core.compression=1")


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """A frozen tree in the mirror.

    Attributes:
        commit, tree: ids in the mirror; the same content has the same ids.
        base: commit of the *user's* repository that it started from; empty if there is none yet.
        ignored_left_out: ignored files and folders (final slash) that are not part of it.
        protected: paths, and folders with a final slash, that candidates may not touch.
        extra_tests: where the overlaid tests lie, relative to the root; empty: none.
    """

    commit: str
    tree: str
    base: str
    ignored_left_out: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    extra_tests: str = ""


def commit_of(mirror: Git, tree: str) -> str:
    """Make the commit that names a tree of the mirror, and return its id."""
    return mirror.having(**_SIGNATURE).text("commit-tree", tree, "-m", "snapshot")


@dataclass(frozen=True, kw_only=True, slots=True)
class SnapshotBuilder:
    """One snapshot in the making. The caller holds the mirror's lock.

    Attributes:
        mirror: git on the mirror.
        index: kept between snapshots, so that unchanged files are not read again.
        scratch: a folder for this moment.
    """

    mirror: Git
    index: Path
    repository: Repository
    request: SnapshotRequest
    scratch: Path

    def take(self) -> Snapshot:
        """Take it.

        Raises:
            UsageError: `BAD_BASE`, `EXTRA_TESTS_MISSING` or `EXTRA_TESTS_COLLIDE`.
            EnvironmentFault: `UNREADABLE_FILE` or `MISSING_OBJECTS`.
            GitFailed: git, or the disk of the cache.
        """
        listing = self._listing()
        base, tree = self._based(listing) if self.request.base else self._on_disk(listing)
        place = self._place()
        if place:
            tree = self._overlaid(tree, place)
        return Snapshot(
            commit=commit_of(self.mirror, tree),
            tree=tree,
            base=base,
            ignored_left_out=listing.left_out,
            protected=(*((f"{place}/",) if place else ()), *self.request.protected),
            extra_tests=place,
        )

    def _listing(self) -> WorkTreeListing:
        if not self.repository.is_bare:
            return list_work_tree(self.repository, self.request.include_ignored, self.scratch)
        if not self.request.base:
            raise no_work_tree(self.repository)
        return WorkTreeListing(files=(), ignored=(), left_out=())

    def _on_disk(self, listing: WorkTreeListing) -> tuple[str, str]:
        """Return the user's HEAD and the tree of what is on disk."""
        git = self.mirror.having(GIT_INDEX_FILE=self.index, GIT_WORK_TREE=self.repository.root)
        self.index.with_name(self.index.name + ".lock").unlink(missing_ok=True)  # of a git that was killed
        wanted, known = {*listing.files, *listing.ignored}, set(self._known(git))
        _drop(git, known - wanted)
        _add(git, sorted(wanted), len(wanted - known))
        _add_hollow(git, listing.hollow)
        return resolve(self.repository, "HEAD"), git.text("write-tree")

    def _known(self, git: Git) -> list[str]:
        try:
            return split_names(git.run("ls-files", "-z"))
        except GitFailed:  # damaged: it is only a cache
            self.index.unlink()
            return []

    def _based(self, listing: WorkTreeListing) -> tuple[str, str]:
        """Return the commit of the base and its tree, with submodules and chosen ignored files."""
        ref = self.request.base
        commit = resolve(self.repository, ref)
        if not commit:
            raise UsageError("BAD_BASE", f"--base {ref!r} names no commit of {self.repository.root}.")
        git = self.mirror.having(GIT_INDEX_FILE=self.scratch / "base.index")
        self._import(git, user_git(self.repository.root), commit, "")
        on_disk = git.having(GIT_WORK_TREE=self.repository.root)
        links = _gitlinks(git)
        _drop(git, links)
        for path, linked in links.items():
            self._submodule(on_disk, path, linked, listing)
        tracked = _blobs(git)
        _add(on_disk, [path for path in listing.ignored if path not in tracked])
        if not self.repository.is_bare:
            _add(on_disk, self._filtered(tracked))
        return commit, git.text("write-tree")

    def _filtered(self, tracked: Mapping[str, str]) -> list[str]:
        """Return files that git stores in another form than the user's disk has them (large file storage).

        Their filters may be missing or fetch from afar, so they are never run: where the user's index has
        the same version, the file on disk is what is meant.
        """
        git = without_shared_index(user_git(self.repository.root), self.repository, self.scratch)
        same = [path for path, blob in _blobs(git).items() if tracked.get(path) == blob]
        fields = split_names(git.run("check-attr", "-z", "--stdin", "filter", stdin=names(same)))
        pairs = zip(fields[0::3], fields[2::3], strict=True)
        filtered = [path for path, value in pairs if value not in {"unspecified", "unset"}]
        return [path for path in filtered if (self.repository.root / path).is_file()]

    def _submodule(self, git: Git, path: str, commit: str, listing: WorkTreeListing) -> None:
        """Fill a submodule: the commit that is asked for, or else what is on disk."""
        folder = self.repository.root / path
        if not os.path.lexists(folder / ".git"):
            _add_hollow(git, [path] if folder.is_dir() else [])
            return
        try:
            self._import(git, user_git(folder), commit, f"{path}/")
        except (GitFailed, EnvironmentFault):
            _add(git, [file for file in listing.files if file.startswith(f"{path}/")])

    def _import(self, git: Git, source: Git, commit: str, prefix: str) -> None:
        """Move the objects of a commit's tree into the mirror, and the tree into the index."""
        tree = source.text("rev-parse", "--verify", f"{commit}^{{tree}}")
        try:
            objects = source.run("rev-list", "--objects", "--no-object-names", tree)
            pack = source.run("pack-objects", "--stdout", "-q", stdin=objects)
        except GitFailed as error:
            raise EnvironmentFault(
                "MISSING_OBJECTS",
                f"The clone lacks objects of {commit[:12]}: {error.first_line}.",
                "It is partial; `git fetch` what is missing, or leave --base out.",
            ) from error
        git.run("unpack-objects", "-q", stdin=pack)
        options = (f"--prefix={prefix}", "-i") if prefix else ()
        git.run("read-tree", *options, tree)

    def _place(self) -> str:
        """Return where the extra tests lie in the snapshot, empty without any."""
        if not self.request.extra_tests:
            return ""
        folder = Path(self.request.extra_tests).resolve()
        if not folder.is_dir():
            raise UsageError("EXTRA_TESTS_MISSING", f"--extra-tests {folder} is not a folder.")
        if folder == self.repository.root:
            raise UsageError("EXTRA_TESTS_COLLIDE", "--extra-tests names the repository itself.")
        if folder.is_relative_to(self.repository.root):
            return folder.relative_to(self.repository.root).as_posix()
        return (self.repository.project / folder.name).as_posix()

    def _overlaid(self, tree: str, place: str) -> str:
        """Return a tree with the extra tests in their place."""
        folder = Path(self.request.extra_tests).resolve()
        files = list_folder(folder)
        extra = self.mirror.having(GIT_INDEX_FILE=self.scratch / "extra.index", GIT_WORK_TREE=folder)
        _add(extra, files)
        git = self.mirror.having(GIT_INDEX_FILE=self.scratch / "overlay.index")
        git.run("read-tree", tree)
        there = {f"{place}/{name}" for name in files} & set(split_names(git.run("ls-files", "-z")))
        if there and not folder.is_relative_to(self.repository.root):
            hint = "Give the folder or its files other names."
            raise UsageError("EXTRA_TESTS_COLLIDE", f"--extra-tests would replace {min(there)}.", hint)
        _drop(git, there)
        git.run("read-tree", f"--prefix={place}/", "-i", extra.text("write-tree"))
        return git.text("write-tree")


def _gitlinks(git: Git) -> dict[str, str]:
    """Return the submodules of an index: path and commit."""
    entries = [line.partition("\t") for line in split_names(git.run("ls-files", "-z", "--stage"))]
    return {path: meta.split(" ")[1] for meta, _, path in entries if meta.startswith(GITLINK)}


def _blobs(git: Git) -> dict[str, str]:
    """Return the blob of every file of an index."""
    entries = [line.partition("\t") for line in split_names(git.run("ls-files", "-z", "--stage"))]
    return {path: meta.split(" ")[1] for meta, _, path in entries}


def _drop(git: Git, paths: Collection[str]) -> None:
    """Take paths out of the index; unlike `--force-remove` this needs no work tree."""
    if paths:
        lines = names(f"0 {'0' * 40}\t{path}" for path in paths)
        git.run("update-index", "-z", "--index-info", stdin=lines)


def _add_hollow(git: Git, paths: Sequence[str]) -> None:
    """Add submodules that were never fetched."""
    if paths:
        lines = names(f"{GITLINK} {_NO_COMMIT}\t{path}" for path in paths)
        git.run("update-index", "-z", "--index-info", stdin=lines)


def _add(git: Git, files: Sequence[str], new: int | None = None) -> None:
    """Hash files of the work tree; those that vanished in the meantime are dropped.

    Args:
        new: how many of them are not known yet; all, unless said.
    """
    many = (len(files) if new is None else new) > MANY_OBJECTS
    git = git.given(*_INTO_ONE_PACK) if many else git
    try:
        git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=names(files))
    except GitFailed as error:
        found = re.search(r'open\("(.*)"\): (Permission denied|Input/output error)', error.stderr)
        if found is None:
            raise
        raise EnvironmentFault(
            "UNREADABLE_FILE",
            f"{found[1]} cannot be read: {found[2]}.",
            "Give yourself the right to read it, or let git ignore it.",
        ) from error
