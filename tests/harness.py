"""Build repositories of the projects in `fixtures/`, run the command line on them, and look at what is left."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
#: Wall seconds that one command may take at most; a run that needs more hangs.
LONGEST_S = 240.0
#: What a developer's git would have configured.
GIT = (
    *("git", "-c", "user.name=developer", "-c", "user.email=developer@localhost"),
    *("-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"),
)
#: What must not reach the command under test from the shell that runs these tests.
_PRIVATE_PREFIXES = ("GIT_", "PYTEST_", "CODEFLASH_", "COV_", "XDG_", "HYPOTHESIS_", "NOX")


@dataclass(frozen=True, kw_only=True, slots=True)
class Fixture:
    """One folder of `fixtures/` with its expectations."""

    folder: Path
    expected: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def candidates(self) -> Path:
        return self.folder / "candidates"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A user's repository, and what surrounds it.

    Attributes:
        cwd: where the user stands: the repository, or a subfolder of it.
        environment: complete environment of the command line.
        venv: environment of the project, if it has one.
    """

    repository: Path
    cwd: Path
    cache: Path
    home: Path
    state: Path
    venv: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        name, *rest = arguments
        return [sys.executable, "-m", "codeflash_parallel", name, "--cache-dir", str(self.cache), *rest]

    def run(self, *arguments: str, timeout_s: float = LONGEST_S, **environment: str) -> Finished:
        """Run one command as a user would, to its end."""
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.cwd,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        return Finished(status=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start one command in a process group of its own, as a shell would."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.cwd,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a command ended."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def errors(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document on stdout, valid by the shipped schema and by the rules between its fields."""
        try:
            data: dict[str, Any] = json.loads(self.stdout)
        except ValueError:
            pytest.fail(
                f"stdout is no JSON (exit {self.status}):\n{self.stdout[-2000:]!r}\n{self.errors[-4000:]}"
            )
        assert_sound(data)
        return data


def assert_sound(data: dict[str, Any]) -> None:
    """Hold a document against the schema that ships, and against the rules between fields."""
    from codeflash_parallel.report.document import check_invariants, schema

    jsonschema.validate(data, schema(), cls=jsonschema.Draft202012Validator)
    assert check_invariants(data) == []


def load_fixture(name: str) -> Fixture:
    folder = FIXTURES / name
    return Fixture(
        folder=folder, expected=tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    )


def all_fixtures() -> list[Fixture]:
    return [load_fixture(path.parent.name) for path in sorted(FIXTURES.glob("*/expected.toml"))]


def git(where: Path, *arguments: str) -> str:
    """Run git as the user, with no configuration but ours."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        [*GIT, *arguments], cwd=where, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def commit_all(repository: Path, message: str = "as it is") -> None:
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", message)


def copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(
        source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache")
    )


def make_place(folder: Path, **environment: str) -> Place:
    """Return an empty user's repository-to-be with a home, a cache and a folder for state."""
    place = {name: folder / name for name in ("repository", "cache", "home", "state")}
    for name in ("repository", "home", "state"):
        place[name].mkdir(parents=True)
    own = {k: v for k, v in os.environ.items() if not k.startswith(_PRIVATE_PREFIXES)}
    own |= {"HOME": str(place["home"]), "FIXTURE_STATE": str(place["state"]), **_importable(), **environment}
    return Place(**place, cwd=place["repository"], environment=own)


def _importable() -> dict[str, str]:
    """Return what the command needs to import us where we are not installed (a bare checkout)."""
    spec = importlib.util.find_spec("codeflash_parallel")
    assert spec is not None
    assert spec.origin is not None
    site_packages = Path(spec.origin).parent.parent
    return {} if _is_installed() else {"PYTHONPATH": str(site_packages)}


def _is_installed() -> bool:
    command = [sys.executable, "-P", "-c", "import codeflash_parallel"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd="/", env=environment, capture_output=True, check=False)
    return done.returncode == 0


def make_venv(folder: Path) -> Path:
    """Return an environment of the running interpreter that sees the packages installed there (pytest)."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Last in the alphabet: what is installed in the environment itself comes first.
    theirs = [path for path in sys.path if path.endswith("site-packages")]
    (site / "zz_of_the_host.pth").write_text("\n".join(theirs) + "\n", encoding="utf-8")
    return folder


def pip_install(venv: Path, *arguments: str) -> None:
    """Run the real pip for an environment; skip with pip's own words when it cannot reach what it needs."""
    command = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "--no-deps"]
    done = subprocess.run([*command, "-q", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip could not install {arguments}: {done.stderr.strip()[-300:]}")


Picture = dict[str, tuple[int, int, int, int, str]]


def picture(root: Path) -> Picture:
    """Return everything under a folder: mode, modification time, inode, links and content of each path."""
    return {str(path.relative_to(root)): _look(path) for path in _walk(root)}


def _walk(root: Path) -> Iterator[Path]:
    yield root
    for folder, names, files in os.walk(root):
        yield from (Path(folder, name) for name in [*names, *files])


def _look(path: Path) -> tuple[int, int, int, int, str]:
    seen = path.lstat()
    content = ""
    if stat.S_ISLNK(seen.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(seen.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return seen.st_mode, seen.st_mtime_ns, seen.st_ino, seen.st_nlink, content


def assert_same(before: Picture, after: Picture) -> None:
    """Say which paths of the user's tree are not what they were."""
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    assert not changed, (
        f"the user's tree has changed: {[(p, before.get(p), after.get(p)) for p in changed[:5]]}"
    )


def processes_of(cache: Path) -> list[str]:
    """Return the processes that belong to runs with this cache: by environment, arguments or folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            known = [(entry / name).read_bytes() for name in ("environ", "cmdline")]
            known.append(os.fsencode((entry / "cwd").readlink()))
            state = (
                (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
            )
        except (OSError, ValueError):
            continue
        if state != "Z" and any(os.fsencode(cache) in text for text in known):
            found.append(f"{entry.name} {known[1].decode('utf-8', 'replace')}")
    return found


def worktrees_left(cache: Path) -> list[str]:
    """Return the working trees and the entries of working trees that are left in a cache."""
    entries = [
        entry
        for folder in cache.rglob("worktrees")
        if (folder.parent / "HEAD").is_file()
        for entry in folder.iterdir()
    ]
    trees = [link.parent for link in cache.rglob(".git") if link.is_file()]
    return sorted(str(path.relative_to(cache)) for path in [*entries, *trees])


def assert_nothing_left(place: Place) -> None:
    """A finished run leaves results in its cache, and nothing that runs or holds a place."""
    assert processes_of(place.cache) == []
    assert worktrees_left(place.cache) == []
    assert sorted(path.name for path in place.home.iterdir()) == []


def names(values: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(value["id"]) for value in values]
