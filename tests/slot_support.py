"""Slots of every kind, and what can be seen of their trees."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from worktree_support import World

from codeflash_parallel.workspace.slot import slot_files
from codeflash_parallel.workspace.slot.slot_files import SlotKind

FILES = {
    "pkg/__init__.py": "",
    "pkg/mod.py": "value = 1\n",
    "pkg/sub/deep.py": "deep = 1\n",
    "pkg/sub/other.py": "other = 1\n",
    "data/a.txt": "aaaa",
    "data/b.txt": "bbbb",
    "run.sh": "#!/bin/sh\n",
}


@pytest.fixture
def anyio_backend() -> str:
    """What is tested here runs in threads; the pool's own tests run under both loops."""
    return "asyncio"


def use(kind: SlotKind, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make slots of a kind; where the file system shares no blocks, a plain copy stands for a clone."""
    clone = ("cp", "--archive", "--") if kind is SlotKind.REFLINK else ("false",)
    monkeypatch.setattr(slot_files, "_CLONE", clone)


@pytest.fixture(params=list(SlotKind), ids=str)
def kind(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[SlotKind]:
    chosen: SlotKind = request.param
    use(chosen, monkeypatch, tmp_path)
    yield chosen
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def state(root: Path) -> dict[str, tuple[object, ...]]:
    """What tests can see of a tree: kinds, modes, bytes, and the times of files."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (root, *root.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", path.readlink())
        elif path.is_dir():
            found[name] = ("folder", stat.S_IMODE(status.st_mode))
        else:
            data = path.read_bytes() if path.is_file() else None
            times = status.st_mtime_ns if path.name != ".git" else 0
            found[name] = (
                stat.S_IFMT(status.st_mode),
                stat.S_IMODE(status.st_mode),
                data,
                times,
                status.st_nlink,
            )
    return found


def init(world: World) -> None:
    world.init(FILES)
    (world.root / "run.sh").chmod(0o755)
    (world.root / "link").symlink_to("data")
    world.git("add", "-A")
    world.git("commit", "-q", "-m", "second")
