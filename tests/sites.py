"""A user's repository and everything around it that a run must leave as it is: where shapes are made."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from aftermath import Picture, picture
from harness import Place, git, make_place
from mounts import mounting, said_against
from projects import SLOW_TOTAL, TEST_TOTAL, write_repository

#: Ours; all else in a site's folder is the user's, and must stay as it is.
OURS = ("cache", "home", "state", "tmp")
#: The user that owns nothing, and one that does not exist here.
NOBODY, STRANGER = 65534, 12345
#: Nothing is tidied up behind our back, and large files are not asked for before their time.
WHILE_BUILDING = ("-c", "gc.auto=0", "-c", "filter.lfs.clean=cat")
TABLE = "one\ntwo\nthree\n"
TEST_TABLE = """
import os
from pathlib import Path

def test_table():
    folder = Path(__file__).parent.parent / "data"
    assert (folder / "table.txt").read_bytes() == (folder / "expected.bin").read_bytes()
"""
FILES = {
    "shop/__init__.py": "",
    "shop/sums.py": SLOW_TOTAL,
    "tests/test_sums.py": TEST_TOTAL,
    "tests/test_table.py": TEST_TABLE,
    "data/table.txt": TABLE,
    "data/expected.bin": TABLE,
    "notes.txt": "first\n",
    "docs/page.txt": "a page\n",
    "docs/old.txt": "an old page\n",
    "tool.sh": "#!/bin/sh\n",
    ".gitignore": "*.log\nsecret/\n",
}
#: Names a folder that the fixtures' tests write to; these tests write nothing, and there is none.
OF_FIXTURES = frozenset({"FIXTURE_STATE", "CODEFLASH_PARALLEL_ALLOW_WRITE"})


@dataclass(frozen=True, kw_only=True, slots=True)
class WrappedPlace(Place):
    """A place whose commands are started by others, e.g. inside mounts of their own."""

    prefix: tuple[str, ...] = ()
    python: str = sys.executable

    def command(self, *arguments: str) -> list[str]:
        name, *rest = arguments
        python = [self.python, "-m", "codeflash_parallel"]
        return [*self.prefix, *python, name, "--cache-dir", str(self.cache), *rest]


@dataclass(kw_only=True, slots=True)
class Site:
    """A repository in the making; shapes change it until it is `settled`.

    Attributes:
        folder: holds the user's things and ours.
        repository: where the user stands.
        marks: a folder where whatever must not run leaves a file.
        options: of the command line that the shape needs.
        mounts: shell commands, run in a mount namespace of the command's own before it starts.
        user: who runs the command.
    """

    folder: Path
    repository: Path
    marks: Path
    options: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    mounts: list[str] = field(default_factory=list)
    user: int = field(default_factory=os.getuid)

    @classmethod
    def made(cls, folder: Path) -> Site:
        """Make the plain repository of the shop, with two commits."""
        repository = folder / "repository"
        for name in ("marks", "tmp"):
            (folder / name).mkdir(parents=True)
        site = cls(folder=folder, repository=repository, marks=folder / "marks")
        write_repository(repository, FILES)
        (repository / "tool.sh").chmod(0o755)
        site.write("notes.txt", b"second\n")
        site.commit("second")
        return site

    def git(self, *arguments: str) -> str:
        return git(self.repository, *WHILE_BUILDING, *arguments)

    def write(self, name: str, data: bytes) -> Path:
        path = self.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", message)

    @property
    def git_dirs(self) -> list[Path]:
        """Every git directory that belongs to the repository, each once."""
        found = self.git("rev-parse", "--absolute-git-dir", "--git-common-dir").splitlines()
        return sorted({(self.repository / name).resolve() for name in found})

    def settled(self) -> WrappedPlace:
        """Return the place where commands run; nothing of the user's is changed from here on."""
        surroundings = make_place(self.folder / "own")
        for name in ("cache", "home", "state"):
            (self.folder / name).mkdir(exist_ok=True)
            if self.user != os.getuid():
                os.chown(self.folder / name, self.user, self.user)
        shutil.rmtree(surroundings.repository.parent)
        (self.folder / "tmp").chmod(0o1777)
        given = {n: v for n, v in surroundings.environment.items() if n not in OF_FIXTURES}
        environment = given | self.environment
        environment |= {"HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        python = sys.executable
        if self.user != os.getuid():
            python, found = python_of(self.user)
            environment |= found
        ours = {name: self.folder / name for name in ("cache", "home", "state")}
        place = WrappedPlace(**ours, repository=self.repository, cwd=self.repository, environment=environment)
        return replace(place, prefix=self._prefix(), python=python)

    def _prefix(self) -> tuple[str, ...]:
        mounts = mounting(self.mounts) if self.mounts else ()
        return (*mounts, *(becoming(self.user) if self.user != os.getuid() else ()))

    def pictures(self) -> dict[str, Picture]:
        """Return everything that is the user's."""
        theirs = [path for path in sorted(self.folder.iterdir()) if path.name not in OURS]
        return {path.name: picture(path) for path in theirs}


def becoming(user: int) -> tuple[str, ...]:
    """Return what starts a command as another user."""
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")


def why_not_as(user: int) -> str:
    """Return what stands against another user who runs us; empty: nothing."""
    if os.geteuid() != 0:
        return f"only root may become another user; we are {os.geteuid()}"
    return "; ".join(_refusals(user)) if python_of(user) == ("", {}) else ""


@functools.cache
def python_of(user: int) -> tuple[str, dict[str, str]]:
    """Return an interpreter that a user may run, and what it needs to import us; empty: there is none."""
    for python, environment in _pythons():
        if not said_against(_starting(user, python, environment)):
            return python, environment
    return "", {}


def _refusals(user: int) -> list[str]:
    return [said_against(_starting(user, python, environment)) for python, environment in _pythons()]


def _pythons() -> list[tuple[str, dict[str, str]]]:
    """The running interpreter may lie in a closed home; the system's can use its packages."""
    packages = [path for path in sys.path if path.endswith("site-packages")]
    checkout = str(Path(__file__).resolve().parent.parent)
    return [
        (sys.executable, {}),
        ("/usr/bin/python3", {"PYTHONPATH": os.pathsep.join([checkout, *packages])}),
    ]


def _starting(user: int, python: str, environment: dict[str, str]) -> list[str]:
    # It must be able to start itself again: setpriv's own start still has root's way through closed folders.
    minor = f"assert sys.version_info[:2] == {sys.version_info[:2]}, sys.version"
    again = "subprocess.run([sys.executable, '-m', 'codeflash_parallel', '--version'], check=True)"
    given = [f"{name}={value}" for name, value in environment.items()]
    return [*becoming(user), "env", *given, python, "-c", f"import subprocess, sys; {minor}; {again}"]
