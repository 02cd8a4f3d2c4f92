"""Snapshots with files of another one, and with what lies in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from worktree_support import World, request, world

from codeflash_parallel.workspace.snapshot.derived_snapshot import with_files_of, with_tree_of

__all__ = ["world"]

pytestmark = pytest.mark.anyio


async def test_paths_are_what_they_are_in_the_other_one(world: World) -> None:
    world.init({"a.py": "old\n", "gone.py": "x\n", "kept.py": "k\n"})
    (world.root / "gone.py").unlink()
    world.write({"a.py": "new\n", "deep/b.py": "b\n", "kept.py": "other\n"})
    async with world.mirror() as mirror:
        older = await mirror.snapshot(request(base="HEAD"))
        newer = await mirror.snapshot(request())
        made = with_files_of(mirror, older, newer, ["a.py", "gone.py", "deep/b.py", "nowhere.py"])
        assert {path: mirror.read(made, path) for path in mirror.paths(made)} == {
            "a.py": b"new\n",
            "deep/b.py": b"b\n",
            "kept.py": b"k\n",
        }
        assert await mirror.holds(made)
        assert with_files_of(mirror, older, newer, []).commit == older.commit


async def test_all_of_a_folder_but_bytecode(world: World, tmp_path: Path) -> None:
    world.init({"a.py": "a\n", ".gitignore": "*.so\n"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(base="HEAD"))
        folder = tmp_path / "slot"
        for name in ("a.py", "fast.so", "pkg/__pycache__/a.pyc", "build/x.o", ".gitignore"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name)
        (folder / ".git").write_text("gitdir: elsewhere\n")
        made = with_tree_of(mirror, snapshot, folder)
        assert mirror.paths(made) == (".gitignore", "a.py", "build/x.o", "fast.so")
        assert mirror.read(made, "fast.so") == b"fast.so"
        assert made.base == snapshot.base
