"""A user's repository made of real files, that must be byte-identical when a test ends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.result.candidate_model import (
    Candidate,
    CandidateId,
    Content,
    Edit,
    Submission,
    Unappliable,
    digest_of,
)
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.slot_pool import SlotPool, open_pool
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.mirror import Mirror, open_mirror
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot, SnapshotRequest

GIT = (
    "git",
    "-c",
    "user.name=user",
    "-c",
    "user.email=user@localhost",
    "-c",
    "protocol.file.allow=always",
    "-c",
    "init.templateDir=",
    "-c",
    "gc.auto=0",  # else git tidies up behind our back, and the repository is not what it was
)
ALL_IGNORED = ("*.so", "*.py", ".env")
MODULE = "def double(x):\n    return x + x\n\n\ndef triple(x):\n    return x + x + x\n"


def fingerprint(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: bytes, mode, mtime, inode, number of links."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        content: object = None
        if stat.S_ISLNK(status.st_mode):
            content = path.readlink()
        elif stat.S_ISREG(status.st_mode) and os.access(path, os.R_OK):
            content = path.read_bytes()
        found[str(path)] = (content, status.st_mode, status.st_mtime_ns, status.st_ino, status.st_nlink)
    return found


def git(*arguments: str, at: Path, home: Path, **environment: str) -> str:
    done = subprocess.run(
        (*GIT, *arguments),
        cwd=at,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
    )
    return os.fsdecode(done.stdout).strip()


class World:
    """The user's repository and our cache; `frozen` from the first time we look at it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.root = base / "user"
        self.cache = base / "cache"
        self.guarded = [self.root]
        self._before: list[dict[str, tuple[object, ...]]] = []
        self.root.mkdir()

    def git(self, *arguments: str, at: Path | None = None, **environment: str) -> str:
        return git(*arguments, at=at or self.root, home=self.base, **environment)

    def init(self, files: Mapping[str, str | bytes] | None = None) -> World:
        """Make a repository with one commit."""
        self.git("init", "-q", "-b", "main")
        self.write(
            {"pkg/__init__.py": "", "pkg/mod.py": MODULE, "README": "read\n"} if files is None else files
        )
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "first")
        return self

    def write(self, files: Mapping[str, str | bytes], at: Path | None = None) -> None:
        for name, data in files.items():
            path = (at or self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.encode() if isinstance(data, str) else data)

    def freeze(self) -> None:
        self._before = [fingerprint(root) for root in self.guarded]

    def verify(self) -> None:
        for root, before in zip(self.guarded, self._before, strict=False):
            after = fingerprint(root)
            changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
            assert not changed, sorted(changed)[:10]

    @asynccontextmanager
    async def mirror(self, start: Path | None = None) -> AsyncIterator[Mirror]:
        if not self._before:
            self.freeze()
        async with open_mirror(self.cache, find_repository(start or self.root)) as mirror:
            yield mirror

    @asynccontextmanager
    async def pool(
        self, mirror: Mirror, snapshot: Snapshot, size: int = 2, run_id: str = "run"
    ) -> AsyncIterator[SlotPool]:
        interpreter = Path(sys.executable)
        async with open_pool(
            mirror,
            snapshot,
            size=size,
            interpreter=interpreter,
            run_id=run_id,
            environment_for=environment_for,
        ) as pool:
            yield pool

    def left_behind(self) -> list[str]:
        """What runs have left in the cache: slots, worktrees, owners, indexes."""
        patterns = ("*/slots/*", "*/mirror.git/worktrees/*", "*/owners/*", "*/owners/.*", "*/tmp/*")
        return [
            str(path.relative_to(self.cache)) for pattern in patterns for path in self.cache.glob(pattern)
        ]


def environment_for(private: Path, number: int) -> Mapping[str, str]:
    return {"HOME": str(private / "home"), "TMPDIR": str(private / "tmp"), "SLOT": str(number)}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A user's repository; whatever the test does, it is untouched, and nothing is left in the cache."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    made = World(tmp_path)
    yield made
    made.verify()
    assert made.left_behind() == []


def request(**changes: object) -> SnapshotRequest:
    return SnapshotRequest(**{"include_ignored": ALL_IGNORED, **changes})  # type: ignore[arg-type]


def tree(mirror: Mirror, snapshot: Snapshot) -> dict[str, bytes]:
    """The snapshot's files, links as their targets."""
    from codeflash_parallel.workspace.git.git_client import read_blobs

    entries = mirror.entries(snapshot)
    blobs = read_blobs(mirror.git, [entry.blob for entry in entries.values()])
    return {path: blobs[entry.blob] for path, entry in entries.items()}


def edit(mirror: Mirror, snapshot: Snapshot, path: str, new: bytes | None) -> Edit:
    old = mirror.read(snapshot, path)
    return Edit(path=path, old_digest=None if old is None else digest_of(old), new=new)


async def make(
    mirror: Mirror, snapshot: Snapshot, content: Content, *targets: str, interpreter: Path | None = None
) -> Candidate | Unappliable:
    submission = Submission(id=CandidateId("c"), content=content)
    parsed = [Target.parse(target) for target in targets]
    return await materialise(mirror, snapshot, submission, parsed, interpreter=interpreter)
