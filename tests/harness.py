"""Build repositories of the projects in `fixtures/`, run the command line on them, and look at what is left."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
from aftermath import assert_same, picture, processes_of, worktrees_left
from compiled_runner import put_into
from expectations import assert_known
from mounts import READ_ONLY, mounting, read_only

from codeflash_parallel.cli.warm_protocol import read_lock, warm_folder
from codeflash_parallel.config.environment import QUIET_VARIABLE

__all__ = [
    "Finished",
    "Fixture",
    "Place",
    "Started",
    "all_fixtures",
    "assert_nothing_left",
    "assert_same",
    "assert_sound",
    "commit_all",
    "copy_tree",
    "end_daemons",
    "git",
    "load_fixture",
    "make_place",
    "make_venv",
    "picture",
    "pip_install",
    "processes_of",
    "wait_for",
]

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


#: Options of runs in which verdicts are looked at, by other hosts for example: `nox -s cluster`.
EXECUTOR = tuple(shlex.split(os.environ.get("CODEFLASH_TEST_EXECUTOR", "")))


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
        words = 2 if arguments[0] == "queue" else 1
        name, rest = arguments[:words], arguments[words:]
        shut = READ_ONLY and arguments[0] != "apply"  # the one command that may write
        prefix = mounting([read_only(self.repository)]) if shut else ()
        python = [sys.executable, "-m", "codeflash_parallel"]
        return [*prefix, *python, *name, "--cache-dir", str(self.cache), *rest]

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

    def start(self, *arguments: str, **environment: str) -> Started:
        """Start one command in a process group of its own, as a shell would."""
        # Closed by `Started.finish`.
        streams = [tempfile.TemporaryFile(dir=self.state) for _ in range(2)]  # noqa: SIM115
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.cwd,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            start_new_session=True,
        )
        return Started(process=process, stdout=streams[0], stderr=streams[1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """A command that runs."""

    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]

    def wait_until_it_says(self, words: str, deadline_s: float = LONGEST_S) -> None:
        """Wait for words on standard error."""
        said = wait_for(
            lambda: words.encode() in _whole(self.stderr) or self.process.poll() is not None, deadline_s
        )
        assert said, f"it never said {words!r}: {_whole(self.stderr)!r}"

    def live_for(self, seconds: float) -> None:
        """Let it run for some time, or to its end if that comes first."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole group, as a terminal does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def finish(self, timeout_s: float = LONGEST_S) -> Finished:
        status = self.process.wait(timeout_s)
        finished = Finished(status=status, stdout=_whole(self.stdout), stderr=_whole(self.stderr))
        self.stdout.close()
        self.stderr.close()
        return finished


def _whole(file: IO[bytes]) -> bytes:
    """Return what is in a file, wherever its writer stands."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def wait_for(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Look again and again until something holds; say whether it did in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """How a command ended."""

    status: int
    stdout: bytes
    stderr: bytes

    def __str__(self) -> str:
        """All that is to be known of a command that ended otherwise than a test says: pytest cuts a repr off."""
        said = self.stdout.decode("utf-8", "replace")
        return (
            f"exit {self.status}\n{reasons_in(said)}\nstdout: {said[-8000:]}\nstderr: {self.errors[-4000:]}"
        )

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


def reasons_in(text: str) -> str:
    """Return what a document says of each candidate, a line for each; nothing where there is no document."""
    try:
        candidates = json.loads(text)["candidates"]
        return "\n".join(f"{c['id']}: {c['status']}/{c['code']}: {c['reason']}" for c in candidates)
    except (ValueError, TypeError, KeyError):
        return ""


def assert_sound(data: dict[str, Any]) -> None:
    """Hold a document against the schema that ships, and against the rules between fields."""
    from contract import check_invariants, validator

    validator().validate(data)
    assert check_invariants(data) == []


def load_fixture(name: str) -> Fixture:
    folder = FIXTURES / name
    expected = tomllib.loads((folder / "expected.toml").read_text(encoding="utf-8"))
    assert_known(expected)
    return Fixture(folder=folder, expected=expected)


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
    put_into(place["cache"])
    own = {k: v for k, v in os.environ.items() if not k.startswith(_PRIVATE_PREFIXES)}
    # Every plugin that the developers of *this* project have installed would cost a second of each start.
    own |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(place["home"])}
    state = str(place["state"])
    own |= {name: os.environ[name] for name in (QUIET_VARIABLE,) if name in os.environ}
    own |= {"FIXTURE_STATE": state, "CODEFLASH_PARALLEL_ALLOW_WRITE": state, **_importable(), **environment}
    return Place(**place, cwd=place["repository"], environment=own)


def _importable() -> dict[str, str]:
    """Return what the command needs to import us where we are not installed (a bare checkout)."""
    spec = importlib.util.find_spec("codeflash_parallel")
    assert spec is not None
    assert spec.origin is not None
    site_packages = Path(spec.origin).parent.parent
    return {} if _is_installed() else {"PYTHONPATH": str(site_packages)}


@functools.cache
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


def end_daemons(cache: Path) -> None:
    """Kill the background process of `--keep-warm`, and wait until all that it had started has ended."""
    lock = read_lock(warm_folder(cache))
    if lock is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(lock.pid), signal.SIGKILL)
    assert wait_for(lambda: processes_of(cache) == [], 20.0), processes_of(cache)


def _is_left(cache: Path) -> bool:
    """Return whether nothing runs or holds a place any more; a folder may vanish while it is looked at."""
    try:
        return not (processes_of(cache) or worktrees_left(cache))
    except FileNotFoundError:
        return False


def assert_nothing_left(place: Place) -> None:
    """A finished run leaves results in its cache, and nothing that runs or holds a place."""
    if EXECUTOR:  # an engine ends the processes of its hosts when the run has left it
        wait_for(lambda: _is_left(place.cache), 10.0)
    assert processes_of(place.cache) == []
    assert worktrees_left(place.cache) == []
    assert sorted(path.name for path in place.home.iterdir()) == []
