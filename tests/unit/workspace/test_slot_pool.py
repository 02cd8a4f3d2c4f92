"""What a slot of the pool is, and what is staged in it."""

from __future__ import annotations

import os
import py_compile
import shutil
import stat
from pathlib import Path

import pytest
from worktree_support import MODULE, World, edit, request, world

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.workspace.cleanup import CleanMode, clean
from codeflash_parallel.workspace.slot.slot import SNAPSHOT_MTIME_NS, StageConflict

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


async def test_a_slot_is_a_copy_with_surroundings_of_its_own(world: World) -> None:
    world.init({"pkg/mod.py": MODULE, "run.sh": "#!/bin/sh\n"})
    (world.root / "run.sh").chmod(0o755)
    (world.root / "link").symlink_to("pkg")
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        assert (pool.size, pool.warnings, pool.quarantined) == (2, [], ())
        async with pool.acquire_all() as slots:
            assert [slot.number for slot in slots] == [1, 2]
            roots = {slot.workspace.root for slot in (*slots, pool.baseline)}
            assert len(roots) == 3
        workspace = pool.baseline.workspace
        assert workspace.number == 0
        assert workspace.root.name == world.root.name
        assert workspace.user_root == world.root
        assert (workspace.root / "pkg/mod.py").read_text() == MODULE
        assert os.access(workspace.root / "run.sh", os.X_OK)
        assert (workspace.root / "link").readlink() == Path("pkg")
        assert workspace.environment["HOME"] == str(workspace.private / "home")
        assert not workspace.private.is_relative_to(workspace.root)
        assert "worktree" not in world.git("worktree", "list", "--porcelain").replace(
            f"worktree {world.root}", ""
        )


async def test_edits_are_staged_audited_and_discarded(world: World) -> None:
    world.init({"a.py": "a", "b.py": "b", "deep/only.py": "o", "tool": "t"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            root = slot.workspace.root
            edits = [
                edit(mirror, snapshot, "a.py", b"new a"),
                edit(mirror, snapshot, "deep/only.py", None),
                edit(mirror, snapshot, "made/in/new.py", b"made"),
                Edit(path="tool", old_digest=digest_of(b"t"), new=b"t2", executable=True),
            ]
            await slot.stage(edits)
            assert (root / "a.py").read_bytes() == b"new a"
            assert (root / "made/in/new.py").read_bytes() == b"made"
            assert os.access(root / "tool", os.X_OK)
            assert not (root / "deep").exists()
            assert await slot.audit() == ()
            (root / "a.py").write_bytes(b"by test")
            (root / "b.py").unlink()
            (root / "junk/deep").mkdir(parents=True)
            (root / "junk/deep/x").write_bytes(b"")
            (slot.workspace.private / "home/secret").write_bytes(b"s")
            (slot.workspace.private / "other").write_bytes(b"s")
            assert await slot.audit() == ("a.py", "b.py", "junk", "junk/deep", "junk/deep/x")
            await slot.discard()
            assert await slot.audit() == ()
            assert (root / "a.py").read_bytes() == b"a"
            assert (root / "a.py").stat().st_mtime_ns == SNAPSHOT_MTIME_NS
            assert (root / "deep/only.py").read_bytes() == b"o"
            assert not (root / "made").exists()
            assert not os.access(root / "tool", os.X_OK) or os.geteuid() == 0
            assert stat.S_IMODE((root / "tool").stat().st_mode) & 0o111 == 0
            assert sorted(p.name for p in slot.workspace.private.rglob("*")) == ["home", "tmp"]


async def test_a_file_may_become_a_folder_and_back(world: World) -> None:
    world.init({"thing": "file", "other/a": "1", "other/b": "2"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            removed = [edit(mirror, snapshot, path, None) for path in ("thing", "other/a", "other/b")]
            made = [edit(mirror, snapshot, path, b"n") for path in ("thing/x.py", "other")]
            await slot.stage([*made, *removed])
            assert (slot.workspace.root / "thing/x.py").read_bytes() == b"n"
            assert (slot.workspace.root / "other").read_bytes() == b"n"
            assert await slot.audit() == ()
            await slot.discard()
            assert (slot.workspace.root / "thing").read_bytes() == b"file"
            assert (slot.workspace.root / "other/b").read_bytes() == b"2"


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("../escape.py", None, b"x"),
        ("/etc/escape.py", None, b"x"),
        (".git", None, b"x"),
        (".git/hooks/x", None, b"x"),
        ("sub/../a.py", b"a", b"x"),
        ("link/x.py", None, b"x"),
        ("link", None, b"x"),
        ("link", b"folder", b"x"),
        ("a.py", b"something else", b"x"),
        ("a.py", None, b"x"),
        ("a.py/x.py", None, b"x"),
        ("folder", None, b"x"),
        ("nothing.py", b"n", b"x"),
        ("nothing.py", None, None),
    ],
)
async def test_edits_that_do_not_fit_write_nothing(
    world: World, path: str, old: bytes | None, new: bytes | None
) -> None:
    world.init({"a.py": "a", "folder/f.py": "f"})
    (world.root / "link").symlink_to("folder")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            bad = Edit(path=path, old_digest=None if old is None else digest_of(old), new=new)
            with pytest.raises(StageConflict) as caught:
                await slot.stage([edit(mirror, snapshot, "folder/f.py", b"x"), bad])
            assert caught.value.path == path
            assert await slot.audit() == ()
        assert pool.quarantined == ()


async def test_stale_bytecode_is_never_left(world: World) -> None:
    world.init({"m.py": "one = 1\n", "n.py": "n = 1\n", "data.txt": "d"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            root = slot.workspace.root
            cached = [Path(py_compile.compile(str(root / name), doraise=True)) for name in ("m.py", "n.py")]
            await slot.accept_bytecode()
            before = [file.read_bytes() for file in cached]
            await slot.stage([edit(mirror, snapshot, "m.py", b"two = 2\n")])
            assert [file.exists() for file in cached] == [False, True]
            assert await slot.audit() == ()
            py_compile.compile(str(root / "m.py"), doraise=True)
            assert await slot.audit() == ("__pycache__/" + cached[0].name,)
            cached[1].write_bytes(b"poison")
            await slot.discard()
            assert [file.read_bytes() for file in cached] == before
            assert (root / "m.py").stat().st_mtime_ns == SNAPSHOT_MTIME_NS


async def test_bytecode_of_the_baseline_serves_every_slot(world: World) -> None:
    world.init({"m.py": "one = 1\n", "pkg/n.py": "n = 1\n"})
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        root = pool.baseline.workspace.root
        names = [
            Path(py_compile.compile(str(root / n), doraise=True)).relative_to(root)
            for n in ("m.py", "pkg/n.py")
        ]
        (root / "__pycache__/test_m.cpython-311-pytest-8.0.0.pyc").write_bytes(b"of this slot only")
        await pool.share_bytecode()
        async with pool.acquire_all() as slots:
            for slot in slots:
                assert all((slot.workspace.root / name).is_file() for name in names)
                assert not list(slot.workspace.root.rglob("*-pytest-*"))
                assert await slot.audit() == ()
            shutil.rmtree(slots[0].folder)
        async with pool.acquire_all() as slots:
            assert (slots[0].workspace.root / names[0]).is_file()


async def test_servers_have_a_slot_of_their_own_with_the_same_bytecode(world: World) -> None:
    world.init({"m.py": "one = 1\n"})
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        root = pool.baseline.workspace.root
        made = Path(py_compile.compile(str(root / "m.py"), doraise=True)).relative_to(root)
        await pool.share_bytecode()
        slot = await pool.servers_slot()
        assert await pool.servers_slot() is slot
        assert (slot.number, (slot.workspace.root / made).is_file()) == (0, True)
        async with pool.acquire_all(at_least=3) as slots:
            assert slot not in slots
        slot.broken = "its folder was replaced"
        another = await pool.servers_slot()
        assert (another is slot, slot.folder.exists()) == (False, False)
    assert world.left_behind() == []


async def test_bytecode_that_was_kept_serves_a_later_pool_of_the_snapshot(world: World) -> None:
    world.init({"m.py": "one = 1\n"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot) as pool:
            py_compile.compile(str(pool.baseline.workspace.root / "m.py"), doraise=True)
            await pool.share_bytecode()
            kept = pool.baseline.bytecode
        (name,) = kept
        async with world.pool(mirror, snapshot) as pool:
            await pool.share_bytecode(kept)
            async with pool.acquire() as slot:
                assert (slot.workspace.root / name).is_file()
            async with pool.acquire_all(at_least=pool.size + 1) as slots:
                for slot in (pool.baseline, *slots):
                    assert (slot.workspace.root / name).read_bytes() == kept[name].data
                    assert await slot.audit() == ()


async def test_a_kept_slot_stays_and_another_takes_its_place(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool:
            async with pool.acquire() as slot:
                await slot.stage([edit(mirror, snapshot, "pkg/mod.py", b"kept = 1\n")])
                kept = await slot.keep()
            async with pool.acquire() as slot:
                assert slot.workspace.root != kept
                assert slot.number == 1
        assert (kept / "pkg/mod.py").read_bytes() == b"kept = 1\n"
    found = clean(world.cache, CleanMode.DRY_RUN)
    assert kept.parent in [leftover.path for leftover in found]
    assert kept.exists()
    assert clean(world.cache, CleanMode.REMOVE) == found
    assert not kept.exists()
    assert list(world.cache.iterdir()) == []


async def test_two_pools_at_once_share_nothing(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.mirror() as again:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, run_id="one") as one:
            async with world.pool(again, await again.snapshot(request()), run_id="two") as two:
                async with one.acquire_all() as first, two.acquire_all() as second:
                    assert not {s.folder for s in first} & {s.folder for s in second}
                with pytest.raises(InternalError):
                    async with world.pool(mirror, snapshot, run_id="one"):
                        pass
            async with one.acquire() as slot:
                assert await slot.audit() == ()
