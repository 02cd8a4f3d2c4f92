"""Candidates that the user's repository holds: linked worktrees, commits of a range, branches. Read only."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.candidates.submissions import natural
from codeflash_parallel.result.candidate_model import Content, FileTexts, GitRef, PatchText
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import (
    Git,
    GitFailed,
    Repository,
    find_repository,
    names,
    split_names,
    user_git,
)
from codeflash_parallel.workspace.git.work_tree_files import SKIPPED_FOLDERS, without_shared_index

#: Stands for the linked worktrees, with or without a pattern behind it.
_WORKTREES = re.compile(r"^worktrees(?:=(?P<pattern>.+))?$")
#: A range of commits, ``A..B``.
_RANGE = re.compile(r"^(?P<first>\S*?[^.\s])\.\.(?P<last>[^./\s]\S*)$")
#: Characters of patterns.
_PATTERN = re.compile(r"[*?\[]")
#: Folders that tools leave in a worktree, where nothing says that they are ignored. Sources may be in a
#: folder named build, dist or env.
_LEFT_BY_TOOLS = SKIPPED_FOLDERS - {"build", "dist", "env"}
#: Options that make diffs the same whatever the user's configuration says.
_DIFF = (
    *("-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/"),
)


class FoundCandidate(NamedTuple):
    """A candidate of the repository: a name, its change, and a sentence on its origin."""

    name: str
    content: Content
    explanation: str


class Worktree(NamedTuple):
    """A work tree of the user's repository; `branch` is empty where its HEAD is detached."""

    folder: Path
    head: str
    branch: str

    @property
    def name(self) -> str:
        """Name of its candidate."""
        return self.branch or self.folder.name

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of which a pattern may match any."""
        return self.name, self.folder.name, str(self.folder)


def find_candidates(project: Path, base: str, text: str) -> list[FoundCandidate] | None:
    """Return the candidates of the user's repository that a text names; `None`: it names none of them.

    Args:
        project: a folder of the repository.
        base: ref that the snapshot starts from; empty: HEAD.
        text: ``worktrees``, ``worktrees=PATTERN``, a range ``A..B``, or a pattern of branches.

    Raises:
        UsageError: `NO_CANDIDATES`, nothing matches; `BAD_CANDIDATES`, git cannot read it.
    """
    kinds = ((_WORKTREES, _of_worktrees), (_RANGE, _of_range), (_PATTERN, _of_branches))
    found = next(((kind, match) for form, kind in kinds if (match := form.search(text))), None)
    if found is None:
        return None
    repository = find_repository(project)
    kind, match = found
    try:
        candidates = list(kind(repository, base or "HEAD", match))
    except GitFailed as error:
        raise UsageError("BAD_CANDIDATES", f"--candidates {text}: {error.first_line.rstrip('.')}.") from error
    if not candidates:
        raise UsageError(
            "NO_CANDIDATES", f"--candidates {text} matches nothing in {repository.root}.", _KINDS
        )
    return candidates


#: What may be named; said where nothing is found.
_KINDS = (
    "worktrees[=PATTERN] names linked worktrees, A..B the commits of a range, "
    "a pattern such as 'opt/*' branches."
)


def _of_worktrees(repository: Repository, base: str, match: re.Match[str]) -> Iterator[FoundCandidate]:
    pattern = match["pattern"] or "*"
    for worktree in sorted(linked_worktrees(repository), key=lambda one: natural(one.name)):
        if any(fnmatchcase(one, pattern) for one in worktree.names):
            on = f" on {worktree.branch}" if worktree.branch else ""
            content = _changes_of(repository, base, worktree)
            yield FoundCandidate(worktree.name, content, f"worktree {worktree.folder}{on}")


def linked_worktrees(repository: Repository) -> list[Worktree]:
    """Return the linked worktrees whose folders exist, the current one apart.

    Raises:
        GitFailed: git cannot list them.
    """
    listed = os.fsdecode(user_git(repository.root).run("worktree", "list", "--porcelain"))
    # The first one is the main work tree.
    found = [_worktree(entry) for entry in listed.split("\n\n")[1:] if entry.strip()]
    return [one for one in found if one.folder.is_dir() and one.folder.resolve() != repository.root]


def _worktree(entry: str) -> Worktree:
    said = dict(line.partition(" ")[::2] for line in entry.strip("\n").split("\n"))
    branch = said.get("branch", "").removeprefix("refs/heads/")
    return Worktree(folder=Path(said["worktree"]), head=said.get("HEAD", ""), branch=branch)


def _changes_of(repository: Repository, base: str, worktree: Worktree) -> Content:
    """Return what a worktree changes since its merge base, uncommitted and untracked files included."""
    try:
        fork = user_git(repository.root).text("merge-base", base, worktree.head)
    except GitFailed:
        return GitRef(ref=worktree.head)  # which does not apply, and says why: the others can be judged
    with tempfile.TemporaryDirectory(prefix="codeflash-parallel-") as scratch:
        git = _apart(find_repository(worktree.folder), Path(scratch))
        git.run("add", "-u", "--", ":/")
        if untracked := [path for path in _untracked(git) if not _is_left_by_tools(path)]:
            git.having(GIT_LITERAL_PATHSPECS="1").run(
                "add", "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names(untracked)
            )
        # Only now may it see the user's objects: it sets the times of those that it would write again.
        objects = repository.common_dir / "objects"
        reading = git.having(GIT_ALTERNATE_OBJECT_DIRECTORIES=objects)
        patch = reading.run("diff-index", "--cached", *_DIFF, fork)
    return PatchText(patch=patch.decode("utf-8", "surrogateescape")) if patch else FileTexts(files=())


def _apart(worktree: Repository, scratch: Path) -> Git:
    """Return git of a worktree with an index and objects of its own: nothing of the user's is written."""
    git, index = without_shared_index(user_git(worktree.root), worktree, scratch), worktree.git_dir / "index"
    if index.exists():
        # With the times of its files: only those that changed are read.
        shutil.copy2(index, scratch / "index")
    (scratch / "objects").mkdir()
    return git.given("-c", "core.splitIndex=false", "-c", "advice.addEmbeddedRepo=false").having(
        GIT_INDEX_FILE=scratch / "index", GIT_OBJECT_DIRECTORY=scratch / "objects"
    )


def _untracked(git: Git) -> Sequence[str]:
    """Return untracked files that are not ignored, relative to the root of the worktree; no repositories."""
    listed = git.run("ls-files", "-z", "--others", "--exclude-standard")
    return [path for path in split_names(listed) if not path.endswith("/")]


def _is_left_by_tools(path: str) -> bool:
    return path.endswith((".pyc", ".pyo")) or not _LEFT_BY_TOOLS.isdisjoint(path.split("/")[:-1])


def _of_range(repository: Repository, _base: str, match: re.Match[str]) -> Iterator[FoundCandidate]:
    git = user_git(repository.root)
    ends = f"{match['first']}..{match['last']}"
    listed = git.text("log", "--reverse", "--no-merges", "--format=%H %h %s", "--end-of-options", ends)
    for line in filter(None, listed.split("\n")):
        commit, short, subject = line.split(" ", 2)
        yield FoundCandidate(short, GitRef(ref=commit), subject)


def _of_branches(repository: Repository, _base: str, match: re.Match[str]) -> Iterator[FoundCandidate]:
    git = user_git(repository.root)
    listed = git.text("for-each-ref", "--format=%(HEAD)%(refname) %(subject)", "refs/heads", "refs/remotes")
    for line in filter(None, listed.split("\n")):
        ref, _, subject = line[1:].partition(" ")
        name = ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")
        is_current = line[0] == "*" or name.endswith("/HEAD")
        if not is_current and fnmatchcase(name, match.string):
            yield FoundCandidate(name, GitRef(ref=ref), subject)
