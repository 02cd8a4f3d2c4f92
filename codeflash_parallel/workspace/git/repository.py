"""Find the user's repository and the project inside it; only reading."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.workspace.git.git_client import Git, GitFailed, user_git

#: A folder with one of these is where pytest is started.
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "pytest.toml", "tox.ini")

#: What `git rev-parse` is asked: the git directory of this work tree, that of all, and where we are.
_QUESTIONS = (
    *("--absolute-git-dir", "--git-common-dir", "--is-inside-work-tree", "--is-bare-repository"),
    "--show-toplevel",
)


class Repository(NamedTuple):
    """The user's repository, never written to.

    Attributes:
        root: its work tree, or the repository itself when it is bare; resolved.
        git_dir: of this work tree (a linked worktree has its own).
        common_dir: shared by all its work trees.
        project: folder of the project relative to `root`; ``Path(".")`` unless the repository holds several.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    project: Path

    @property
    def is_bare(self) -> bool:
        """Whether there is no work tree."""
        return self.root == self.git_dir

    @property
    def key(self) -> str:
        """Name of this repository's folder in the cache: readable, and unique by its path."""
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", self.root.name).strip(".-")[:40] or "repository"
        digest = hashlib.sha256(str(self.root).encode("utf-8", "surrogateescape")).hexdigest()
        return f"{readable}-{digest[:12]}"


def find_repository(start: Path) -> Repository:
    """Find the repository around a folder or file.

    Raises:
        UsageError: `NOT_A_REPOSITORY` when there is none, or the path does not exist.
        EnvironmentFault: git is missing.
    """
    folder = _existing_folder(start)
    try:
        git_dir, common, inside, bare, top = _asked(user_git(folder))
    except GitFailed as error:
        raise _not_a_repository(folder, error.first_line) from error
    if "true" not in {inside, bare}:
        raise _not_a_repository(folder, "it lies inside a git directory")
    root = Path(top if inside == "true" else git_dir).resolve()
    return Repository(
        root=root,
        git_dir=Path(git_dir).resolve(),
        common_dir=(folder / common).resolve(),
        project=_project_folder(root, folder) if inside == "true" else Path(),
    )


def _asked(git: Git) -> Sequence[str]:
    """Return git's answers to `_QUESTIONS`; the last one is empty where there is no work tree."""
    try:
        return _answers(git, *_QUESTIONS)
    except GitFailed:  # outside of a work tree it has no answer to the last one
        return (*_answers(git, *_QUESTIONS[:-1]), "")


def _answers(git: Git, *questions: str) -> Sequence[str]:
    """Ask all at once: each process takes milliseconds, and `queue submit` answers at once."""
    answers = git.text("rev-parse", *questions).split("\n")
    if len(answers) == len(questions):
        return answers
    return [git.text("rev-parse", question) for question in questions]  # a path holds a line break


def _existing_folder(start: Path) -> Path:
    path = start.expanduser().resolve()
    if not path.exists():
        raise _not_a_repository(start, "it does not exist")
    return path if path.is_dir() else path.parent


def _not_a_repository(path: Path, why: str) -> UsageError:
    return UsageError(
        "NOT_A_REPOSITORY",
        f"{path} is not in a git repository: {why}.",
        "Run it inside the project's repository (`git init` makes one).",
    )


def _project_folder(root: Path, folder: Path) -> Path:
    """Return the nearest folder upwards that looks like a project; the root when none does."""
    for candidate in (folder, *folder.parents):
        if candidate == root:
            break
        if any((candidate / name).is_file() for name in _PROJECT_FILES):
            return candidate.relative_to(root)
    return Path()
