"""Slots that are damaged, beyond repair, or cannot be made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from worktree_support import MODULE, World, environment_for, git, request, world

from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.slot.slot import SlotBroken
from codeflash_parallel.workspace.slot_pool import Slot, open_pool

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


def _remove_everything(slot: Slot) -> None:
    shutil.rmtree(slot.workspace.root)


def _lock_folders(slot: Slot) -> None:
    (slot.workspace.root / "new/sub").mkdir(parents=True)
    (slot.workspace.root / "new/sub/x").write_bytes(b"")
    for folder in ("new/sub", "new", "pkg", ""):
        (slot.workspace.root / folder).chmod(0)


def _replace_git_file(slot: Slot) -> None:
    (slot.workspace.root / ".git").unlink()
    (slot.workspace.root / ".git").mkdir()
    (slot.workspace.root / ".git/config").write_bytes(b"[core]\n\tfsmonitor = touch /nowhere\n")


def _use_git(slot: Slot) -> None:
    run = partial(git, at=slot.workspace.root, home=slot.workspace.private)
    (slot.workspace.root / "README").write_bytes(b"changed")
    run("add", "README")
    run("commit", "-q", "-m", "by a test")
    run("tag", "mine")


def _links_out(slot: Slot) -> None:
    (slot.workspace.root / "README").unlink()
    (slot.workspace.root / "README").symlink_to("/etc/passwd")
    shutil.rmtree(slot.workspace.root / "pkg")
    (slot.workspace.root / "pkg").symlink_to(slot.workspace.user_root / "pkg")
    os.mkfifo(slot.workspace.root / "pipe")


def _swap_root(slot: Slot) -> None:
    slot.workspace.root.rename(slot.folder / "moved")
    slot.workspace.root.symlink_to(slot.workspace.user_root)


def _remove_private(slot: Slot) -> None:
    shutil.rmtree(slot.workspace.private)


def _deep(slot: Slot) -> None:
    folder = os.open(slot.workspace.root, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d" * 20, dir_fd=folder)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)


@pytest.mark.parametrize(
    "damage",
    [
        _remove_everything,
        _lock_folders,
        _replace_git_file,
        _use_git,
        _links_out,
        _swap_root,
        _remove_private,
        _deep,
    ],
)
async def test_a_damaged_slot_is_whole_again_for_the_next_one(
    world: World, damage: Callable[[Slot], None]
) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        async with pool.acquire() as slot:
            damage(slot)
        async with pool.acquire() as slot:
            root = slot.workspace.root
            assert sorted(p.name for p in root.iterdir()) == [".git", "README", "pkg"]
            assert (root / "pkg/mod.py").read_text() == MODULE
            assert not root.is_symlink()
            assert await slot.audit() == ()
            assert (slot.workspace.private / "home").is_dir()
            assert world.git("status", "--porcelain", at=root) == ""
        assert pool.size == 1


async def test_a_slot_beyond_repair_is_replaced(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        async with pool.acquire() as slot:
            first = slot.folder
            shutil.rmtree(slot.folder)
            with pytest.raises(SlotBroken):
                await slot.discard()
        async with pool.acquire() as slot:
            assert slot.folder != first
            assert slot.number == 1
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE
        assert len(pool.quarantined) == 1
        assert pool.size == 1


async def test_the_last_slot_that_is_lost_is_an_environment_fault(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        async with pool.acquire() as slot:
            shutil.rmtree(slot.folder)
            shutil.rmtree(mirror.home.mirror)
            mirror._sources.clear()
        assert pool.size == 0
        assert len(pool.warnings) == 1
        for waiting in (pool.acquire, pool.acquire_all):
            with pytest.raises(EnvironmentFault) as caught:
                async with waiting():
                    pass
            assert caught.value.code == "NO_SLOT"


async def test_a_mirror_deleted_during_a_run_is_made_again(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        async with pool.acquire() as slot:
            shutil.rmtree(mirror.home.mirror)
            (slot.workspace.root / "pkg/mod.py").unlink()
        async with pool.acquire() as slot:
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE
            assert await slot.audit() == ()


async def test_a_poisoned_mirror_does_not_reach_a_slot(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool:
            blob = mirror.entries(snapshot)["pkg/mod.py"].blob
            other = mirror.entries(snapshot)["README"].blob
            objects = mirror.home.mirror / "objects"
            async with pool.acquire() as slot:
                place = objects / blob[:2] / blob[2:]
                place.chmod(0o644)
                shutil.copyfile(objects / other[:2] / other[2:], place)
                (mirror.home.mirror / "config").write_text("[core]\n\tsshCommand = evil\n")
                (slot.workspace.root / "pkg/mod.py").unlink()
            async with pool.acquire() as slot:
                assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE
            assert b"evil" not in (mirror.home.mirror / "config").read_bytes()


async def test_a_full_disk_is_said_in_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.init()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        monkeypatch.setattr("codeflash_parallel.workspace.slot.slot_factory._age", full)
        with pytest.raises(EnvironmentFault) as caught:
            async with world.pool(mirror, snapshot):
                pass
    assert caught.value.code == "DISK_FULL"
    assert "\n" not in str(caught.value)


async def test_some_slots_are_better_than_none(world: World) -> None:
    world.init()
    made = 0

    def environment(private: Path, number: int) -> dict[str, str]:
        nonlocal made
        made += 1
        if number == 2:
            raise OSError(28, "No space left on device")
        return dict(environment_for(private, number))

    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        interpreter = Path("/usr/bin/python3")
        async with open_pool(
            mirror, snapshot, size=3, interpreter=interpreter, run_id="r", environment_for=environment
        ) as pool:
            async with pool.acquire_all() as slots:
                assert [slot.number for slot in slots] == [1, 3]
            assert pool.size == 2
            assert made == 4
            assert len(pool.warnings) == 1
            assert "Slot 2" in pool.warnings[0]
