"""Runs git, alone in the package, reads objects through GitPython, and finds the user's repository.

Two ways of running it, never mixed: `user_git` reads a repository of the user and cannot write to it;
`mirror_git` works on our private mirror and sees no configuration but its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: No single git command of ours takes longer on a sane machine; a hanging file system must not hang a run.
_DEADLINE_S = 600.0

#: Variables that git needs from outside; all others, above all every GIT_*, are left behind.
_PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "LD_LIBRARY_PATH")

#: Same behaviour on every machine: plain English messages, no prompts, nothing fetched from anywhere.
_FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # else `diff` and `status` rewrite the user's index
    "GIT_ALLOW_PROTOCOL": "none",  # a promisor clone would fetch what it lacks
    "GIT_NO_LAZY_FETCH": "1",  # the same, said directly (git 2.44 and later)
    "GIT_ADVICE": "0",
}

#: The mirror is ours alone: what the user configured must not change a byte of what it holds.
_ISOLATED = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}

_COMMON_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "safe.directory=*")
_USER_OPTIONS = (*_COMMON_OPTIONS, "-c", "core.untrackedCache=false", "-c", "core.quotePath=false")
_MIRROR_OPTIONS = (*_COMMON_OPTIONS, "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false")


class GitFailed(Exception):  # noqa: N818 - a value for the caller to interpret
    """A git command ended with an error; nobody above `worktrees` sees this."""

    def __init__(self, arguments: Sequence[str], status: int, stderr: bytes) -> None:
        super().__init__(arguments, status, stderr)
        self.arguments = tuple(arguments)
        self.status = status
        self.stderr = stderr.decode("utf-8", "replace").strip()

    def __str__(self) -> str:
        return f"git {self.arguments[0]} failed ({self.status}): {self.stderr or 'no message'}"

    @property
    def first_line(self) -> str:
        """The first thing that git complained about, without its prefix."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith(("warning:", "hint:"))]
        line = lines[0] if lines else f"git {self.arguments[0]} failed with status {self.status}"
        return line.removeprefix("fatal: ").removeprefix("error: ")


class Git(NamedTuple):
    """git with a built environment, bound to one repository.

    Attributes:
        cwd: where it runs.
        options: given before the sub-command.
        environment: the complete environment.
        kept_fds: descriptors that the child inherits, so that a lock outlives us as long as git works.
    """

    cwd: Path
    options: tuple[str, ...]
    environment: Mapping[str, str]
    kept_fds: tuple[int, ...] = ()

    def __repr__(self) -> str:
        # Without the environment: secrets may be in it.
        return f"Git(cwd={str(self.cwd)!r}, options={self.options!r})"

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run a git command and return its output.

        Raises:
            GitFailed: it ended with an error.
            EnvironmentFault: git is missing, or did not end in time.
        """
        try:
            done = subprocess.run(  # noqa: PLW1510 - the status is looked at below
                ("git", *self.options, *arguments),
                cwd=self.cwd,
                env=self.environment,
                input=stdin,
                capture_output=True,
                pass_fds=self.kept_fds,
                timeout=_DEADLINE_S,
                process_group=0,  # a Ctrl-C on the terminal must not tear git out of its work
            )
        except FileNotFoundError as error:
            raise _not_started(error, self.cwd) from error
        except subprocess.TimeoutExpired as error:
            message = f"git {arguments[0]} did not end within {_DEADLINE_S:.0f} s."
            raise EnvironmentFault("GIT_HANGS", message) from error
        if done.returncode:
            raise GitFailed(arguments, done.returncode, done.stderr)
        return done.stdout

    def text(self, *arguments: str) -> str:
        """Run a git command that prints one value, and return it without the final newline."""
        return os.fsdecode(self.run(*arguments)).removesuffix("\n")

    def having(self, **variables: str | Path) -> Git:
        """Return the same git with more variables, e.g. ``GIT_INDEX_FILE``."""
        added = {name: str(value) for name, value in variables.items()}
        return self._replace(environment={**self.environment, **added})

    def given(self, *options: str) -> Git:
        """Return the same git with more options before the sub-command."""
        return self._replace(options=(*self.options, *options))

    def holding(self, *fds: int) -> Git:
        """Return the same git whose children inherit these descriptors."""
        return self._replace(kept_fds=(*self.kept_fds, *fds))


def user_git(cwd: Path) -> Git:
    """Return git for reading the user's repository around `cwd`."""
    return Git(cwd=cwd, options=_USER_OPTIONS, environment={**_base_environment(), **_FIXED})


def mirror_git(git_dir: Path) -> Git:
    """Return git for our own repository at `git_dir`."""
    environment = {**_base_environment(), **_FIXED, **_ISOLATED, "GIT_DIR": str(git_dir)}
    return Git(cwd=git_dir.parent, options=_MIRROR_OPTIONS, environment=environment)


def _base_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _PASSED if name in os.environ}


def _not_started(error: FileNotFoundError, cwd: Path) -> EnvironmentFault:
    if not cwd.is_dir():
        return EnvironmentFault("FOLDER_GONE", f"The folder {cwd} does not exist any more.")
    hint = "Install git 2.31 or later."
    return EnvironmentFault("GIT_MISSING", f"git cannot be started: {error.strerror}.", hint)


def names(paths: Iterable[str]) -> bytes:
    """Return paths as git's ``-z`` options read them."""
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def split_names(output: bytes) -> list[str]:
    """Return the fields of a ``-z`` output."""
    return [os.fsdecode(field) for field in output.split(b"\0")[:-1]]


def blob_id(data: bytes) -> str:
    """Return the id that git gives to a file of these bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


#: Mode of a submodule.
GITLINK = "160000"


class TreeEntry(NamedTuple):
    """One file of a tree: git's mode (``"100644"``, ``"100755"``, ``"120000"``, ``"160000"``) and blob id."""

    mode: str
    blob: str


def list_tree(git: Git, tree: str) -> dict[str, TreeEntry]:
    """Return every file of a tree by path."""
    entries = {}
    for line in split_names(git.run("ls-tree", "-r", "-z", "--full-tree", tree)):
        meta, _, path = line.partition("\t")
        mode, _, blob = meta.split(" ")
        entries[path] = TreeEntry(mode=mode, blob=blob)
    return entries


def read_blobs(git: Git, blobs: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of blobs by id.

    Raises:
        GitFailed: one of them is missing or damaged.
    """
    if not blobs:
        return {}
    output = git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs).encode())
    return dict(_batch(output))


def _batch(output: bytes) -> Iterator[tuple[str, bytes]]:
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        header = output[position:end].decode().split(" ")
        if len(header) != 3:  # noqa: PLR2004 - "<id> missing" has two words
            raise GitFailed(("cat-file",), 1, output[position:end])
        size = int(header[2])
        yield header[0], output[end + 1 : end + 1 + size]
        position = end + 2 + size


def load_reader() -> None:
    """Import GitPython, which takes as long as a few commands of git: on a thread, while those run."""
    import git  # noqa: F401 - what `read_file` needs


def read_file(git_dir: Path, commit: str, path: str) -> bytes | None:
    """Return the bytes of a regular file of a commit, read by GitPython; `None` if there is no such file.

    Raises:
        ValueError: GitPython finds a name in one of the trees dangerous, or is led astray by the environment.
    """
    import git
    from git.db import GitCmdObjectDB
    from git.exc import InvalidGitRepositoryError

    # GitPython lets GIT_OBJECT_DIRECTORY and the like win over an explicit path (a hook may have started
    # us), and copies our environment into its children: both are overruled.
    command = git.Git(git_dir)
    command.update_environment(**_FIXED, **_ISOLATED, **_everything_at(git_dir))
    try:
        with git.Repo(git_dir, search_parent_directories=False, expand_vars=False) as repository:
            repository.git = command
            repository.odb = GitCmdObjectDB(str(git_dir / "objects"), command)
            found = git.Commit(repository, bytes.fromhex(commit)).tree / path
            is_file = isinstance(found, git.Blob) and found.mode != found.link_mode
            return bytes(found.data_stream.read()) if is_file else None
    except KeyError:
        return None
    except (InvalidGitRepositoryError, OSError) as error:
        raise ValueError(str(error)) from error


def _everything_at(git_dir: Path) -> dict[str, str]:
    """Return a value for each variable that says where a repository is: GitPython cannot unset one."""
    names_and_places = {"DIR": git_dir, "COMMON_DIR": git_dir, "WORK_TREE": git_dir}
    names_and_places |= {"OBJECT_DIRECTORY": git_dir / "objects", "INDEX_FILE": git_dir / "no-index"}
    return {f"GIT_{name}": str(place) for name, place in names_and_places.items()}


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
        installed: root of the checkout from which the environment's editable packages come.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    project: Path
    installed: Path

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
        installed=root,
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
