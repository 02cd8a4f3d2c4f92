"""What a slot promises, whatever its tree is made of."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slot_support import FILES, anyio_backend, init, kind, names_in, state
from worktree_support import World, edit, request, world

from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.workspace.slot import slot
from codeflash_parallel.workspace.slot.slot import SNAPSHOT_MTIME_NS, SlotBroken, SlotTrash
from codeflash_parallel.workspace.slot.slot_files import (
    JOURNAL,
    SlotKind,
    note_staging,
    note_undone,
    staged_in,
)
from codeflash_parallel.workspace.tree_guard import wait_past

__all__ = ["anyio_backend", "kind", "world"]
pytestmark = pytest.mark.anyio


async def test_slots_of_every_kind_hold_the_snapshot(world: World, kind: SlotKind) -> None:
    init(world)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        async with pool.acquire_all() as slots:
            assert {one.kind for one in slots} == {kind}
            states = [state(one.workspace.root) for one in (pool.baseline, *slots)]
            for found in states:
                del found[".git"]
            assert states[0] == states[1] == states[2]
            assert set(FILES) < set(states[0])
            for one in slots:
                root = one.workspace.root
                assert (root / "pkg/mod.py").stat().st_mtime_ns == SNAPSHOT_MTIME_NS
                assert world.git("status", "--porcelain", at=root) == ""
                assert (root / ".git").read_bytes() == b"gitdir: %s\n" % os.fsencode(one.admin)
        assert pool.baseline.kind is (SlotKind.WORKTREE if kind is SlotKind.REFLINK else kind)


@pytest.mark.parametrize(
    ("name", "usable"), [("a+b (c) é", True), ("a[1]", False), ("$HOME", False), ("~", False)]
)
async def test_a_tree_is_named_as_the_user_s_unless_pytest_reads_something_into_it(
    world: World, name: str, usable: bool
) -> None:
    world.init(FILES)
    world.root = world.root.rename(world.base / name)
    world.guarded = [world.root]
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as one,
    ):
        assert one.workspace.root.name == (name if usable else "tree")


@pytest.mark.parametrize("base", ["", "HEAD"])
async def test_the_folder_of_a_submodule_that_was_never_fetched_is_there(
    world: World, kind: SlotKind, base: str
) -> None:
    init(world)
    world.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},third/data")
    world.git("commit", "-qm", "with submodule")
    (world.root / "third/data").mkdir(parents=True)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(base=base))
        assert "third/data" not in mirror.paths(snapshot)
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as one:
            folder = one.workspace.root / "third/data"
            assert list(folder.iterdir()) == []
            assert await one.audit() == ()
            folder.rmdir()
            await one.discard()
            assert folder.is_dir()


async def test_what_a_slot_costs_is_what_it_shares_with_nobody(world: World, kind: SlotKind) -> None:
    init(world)
    world.write({f"many/f{number}.txt": os.urandom(8192) for number in range(40)})
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as one,
    ):
        cost = one.cost
        assert (cost.bytes < 40 * 8192) == (kind is SlotKind.REFLINK)
        assert cost.inodes > 40
        await one.stage([edit(mirror, await mirror.snapshot(request()), "new.py", b"x = 1\n")])
        assert one.cost == cost


async def test_a_staged_file_that_changes_within_one_tick_is_seen(world: World) -> None:
    init(world)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as one:
            place = one.workspace.root / "pkg/mod.py"
            await one.stage([edit(mirror, snapshot, "pkg/mod.py", b"value = 2\n")])
            seen = one._tree._expected["pkg/mod.py"]
            place.write_bytes(b"value = 3\n")
            one._tree._expected["pkg/mod.py"] = slot.look(place)  # as if the clock had stood still
            assert await one.audit() == ("pkg/mod.py",)
            one._tree._expected["pkg/mod.py"] = seen
            await one.discard()
            assert place.read_bytes() == b"value = 1\n"


def test_the_clock_is_waited_for_and_no_longer_than_a_tick(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    written_ns = (tmp_path / "file").stat().st_ctime_ns
    wait_past(written_ns)
    (tmp_path / "file").write_bytes(b"")
    assert (tmp_path / "file").stat().st_ctime_ns > written_ns
    wait_past(2**62)  # a server's clock may be ahead for ever


async def test_what_is_staged_is_in_the_journal_until_it_is_undone(world: World) -> None:
    init(world)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as one:
            assert staged_in(one.folder) == ()
            await one.stage([edit(mirror, snapshot, "pkg/mod.py", b""), edit(mirror, snapshot, "n.py", b"")])
            assert staged_in(one.folder) == ("n.py", "pkg/mod.py")
            await one.discard()
            assert staged_in(one.folder) == ()


def test_a_torn_journal_tells_what_it_can(tmp_path: Path) -> None:
    note_staging(tmp_path, ["a", os.fsdecode(b"\xff")])
    note_staging(tmp_path, ["b"])
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'[1]\n{"staged": 1}\n{"staged": ["c')
    assert staged_in(tmp_path) == ("a", "b", os.fsdecode(b"\xff"))
    note_undone(tmp_path)
    note_undone(tmp_path)
    assert staged_in(tmp_path) == ()


async def test_bytecode_of_a_candidates_slot_stays(world: World, kind: SlotKind) -> None:
    init(world)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as one:
            cached = one.workspace.root / "pkg/__pycache__"
            names = ["mod.cpython-311.pyc", "mod.cpython-311-pytest-9.0.0.pyc", "other.cpython-311.pyc"]
            cached.mkdir()
            for name in names:
                (cached / name).write_bytes(name.encode())
            (one.workspace.root / "pkg/sub/__pycache__").symlink_to(cached)
            for _ in range(2):
                await one.accept_bytecode()
            await one.stage([edit(mirror, snapshot, "pkg/mod.py", b"value = 2\n")])
            assert names_in(cached) == {"other.cpython-311.pyc"}
            (cached / names[0]).write_bytes(b"of the candidate")
            with pytest.raises(InternalError):
                await one.accept_bytecode()
            await one.discard()
            assert {p.name: p.read_bytes() for p in cached.iterdir()} == {n: n.encode() for n in names}
            assert not (one.workspace.root / "pkg/sub/__pycache__").exists()
            await one.stage([edit(mirror, snapshot, path, None) for path in FILES if path.startswith("pkg/")])
            assert names_in(cached) == {"other.cpython-311.pyc"}
            await one.discard()
            (cached / names[2]).unlink()
            await one.accept_bytecode()
            await one.stage([edit(mirror, snapshot, path, None) for path in FILES if path.startswith("pkg/")])
            assert not (one.workspace.root / "pkg").exists()  # bytecode alone makes no package
            await one.discard()
            assert sorted(p.name for p in cached.iterdir()) == sorted(names[:2])


async def test_a_kept_slot_needs_no_mount(world: World, kind: SlotKind) -> None:
    init(world)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool:
            async with pool.acquire() as one:
                await one.stage([edit(mirror, snapshot, "pkg/mod.py", b"kept = 1\n")])
                kept = await one.keep()
            async with pool.acquire() as one:
                assert one.workspace.root != kept
    assert (kept / "pkg/mod.py").read_bytes() == b"kept = 1\n"
    assert (kept / "link").readlink() == Path("data")
    assert staged_in(kept.parent) == ("pkg/mod.py",)
    assert world.git("status", "--porcelain", at=kept).split() == ["M", "pkg/mod.py"]
    shutil.rmtree(kept.parent.parent)
    for record in world.cache.glob("*/mirror.git/worktrees/*"):
        shutil.rmtree(record)


@pytest.fixture
def shared_blocks(tmp_path: Path) -> Iterator[Path]:
    """A file system whose files can share blocks."""
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    make = shutil.which("mkfs.btrfs") or shutil.which("mkfs.xfs")
    if make is None or os.geteuid() != 0:
        pytest.skip("needs root, and tools that make such a file system")
    with image.open("wb") as file:
        file.truncate(400 * 2**20)
    subprocess.run([make, "-q", str(image)], check=True, capture_output=True)
    if subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], check=False, capture_output=True
    ).returncode:
        pytest.skip("cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


async def test_blocks_are_shared_where_the_file_system_can(world: World, shared_blocks: Path) -> None:
    world.cache = shared_blocks / "cache"
    init(world)
    world.write({"large.bin": os.urandom(2**20)})
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as one,
    ):
        assert one.kind is SlotKind.REFLINK
        assert one.cost.bytes < 2**20 < pool.baseline.cost.bytes
        (one.workspace.root / "large.bin").write_bytes(b"mine")
        assert (pool.baseline.workspace.root / "large.bin").stat().st_size == 2**20


def test_waste_is_out_of_the_way_at_once(tmp_path: Path) -> None:
    waste = SlotTrash(tmp_path)
    for name in ("folder/below/file", "locked/file"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "locked").chmod(0)
    (tmp_path / "file").write_bytes(b"")
    for name in ("folder", "locked", "file", "absent"):
        waste.drop(tmp_path / name)
        assert not (tmp_path / name).exists()
    assert names_in(tmp_path) == waste.names
    waste.sweep()
    assert waste.names == frozenset()
    assert list(tmp_path.iterdir()) == []


async def test_a_slot_that_cannot_be_restored_stays_broken(world: World) -> None:
    init(world)
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as one,
    ):
        shutil.rmtree(one.folder)
        one.folder.write_bytes(b"")
        for _ in range(2):
            with pytest.raises(SlotBroken):
                await one.discard()
        assert one.broken
