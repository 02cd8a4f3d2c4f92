"""Overlays: nothing gets into them from behind, and their mounts are found."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from slot_support import anyio_backend, init, kind, names_in, state, use
from worktree_support import World, request, world

from codeflash_parallel.worktrees.kinds import SlotKind
from codeflash_parallel.worktrees.overlay import Overlay, probe_overlay, unmount_and_remove
from codeflash_parallel.worktrees.pool import Slot

__all__ = ["anyio_backend", "kind", "world"]
pytestmark = pytest.mark.anyio


def poison_lower(one: Slot) -> None:
    lower = one.folder.parent / "lower/tree"
    (lower / "data/a.txt").write_bytes(b"evil")


def add_to_lower(one: Slot) -> None:
    lower = one.folder.parent / "lower/tree"
    (one.workspace.root / "pkg/touched").write_bytes(b"")  # the folder is in both layers now
    assert "touched" in names_in(one.workspace.root / "pkg")
    (lower / "pkg/evil.py").write_bytes(b"evil")


def add_to_upper(one: Slot) -> None:
    (one.folder / "upper/evil").mkdir()
    (one.folder / "upper/evil/__init__.py").write_bytes(b"evil")


def unmount(one: Slot) -> None:
    subprocess.run(["umount", "--lazy", str(one.workspace.root)], check=True)


def mount_over(one: Slot) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(one.workspace.root)], check=True)


@pytest.mark.parametrize("damage", [poison_lower, add_to_lower, add_to_upper, unmount, mount_over])
async def test_nothing_gets_into_an_overlay_from_behind(
    world: World, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Slot], None]
) -> None:
    use(SlotKind.OVERLAY, monkeypatch, world.base)
    init(world)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        async with pool.acquire() as one:
            before = state(one.workspace.root)
            del before[".git"]
            damage(one)
        for _ in range(2):
            async with pool.acquire() as one:
                after = state(one.workspace.root)
                del after[".git"]
                assert after == before
                assert not (one.workspace.root / "pkg/evil.py").exists()
                assert not (one.workspace.root / "evil").exists()
        assert (pool.size, pool.warnings) == (1, [])


@pytest.mark.parametrize(("name", "works"), [("with space", True), ("back\\slash", False), ("com,ma", False)])
def test_mounts_are_found_whatever_they_are_called(tmp_path: Path, name: str, works: bool) -> None:
    (tmp_path / "plain").mkdir()
    if not probe_overlay(tmp_path / "plain"):
        pytest.skip("overlays cannot be mounted here")
    folder = tmp_path / name
    for place in (folder / "lower", folder / "tree"):
        place.mkdir(parents=True)
    (folder / "lower/file").write_bytes(b"shared")
    assert Overlay(lower=folder / "lower", folder=folder, tree=folder / "tree").mount() == works
    assert (folder / "tree/file").exists() == works
    unmount_and_remove(folder / "tree")
    assert (folder / "lower/file").read_bytes() == b"shared"
    shutil.rmtree(folder)
