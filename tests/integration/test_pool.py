from __future__ import annotations

import os
import py_compile
import shutil
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from worktree_support import MODULE, World, edit, environment_for, git, request, world

from codeflash_parallel.model.candidate import Edit, digest_of
from codeflash_parallel.model.errors import EnvironmentFault, InternalError
from codeflash_parallel.worktrees.pool import Pool, Slot, open_pool
from codeflash_parallel.worktrees.recovery import CleanMode, clean
from codeflash_parallel.worktrees.slot import SNAPSHOT_MTIME_NS, SlotBroken, StageConflict

__all__ = ["world"]
pytestmark = pytest.mark.anyio


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


@pytest.mark.engine
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


@pytest.mark.engine
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
            mirror._requests.clear()
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


async def _visit(pool: Pool, name: int, seen: list[int], rounds: int = 1) -> None:
    for _ in range(rounds):
        async with pool.acquire() as slot:
            assert not (slot.workspace.root / "mark").exists()
            (slot.workspace.root / "mark").write_text(str(name))
            await anyio.lowlevel.checkpoint()
            seen.append(name)


async def test_six_visitors_share_two_slots_in_order(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        seen: list[int] = []
        async with anyio.create_task_group() as group:
            for name in range(6):
                group.start_soon(_visit, pool, name, seen)
        assert sorted(seen) == list(range(6))


async def test_whoever_wants_all_slots_gets_them_and_starves_nobody(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        seen: list[int] = []

        async def race(name: int) -> None:
            async with pool.acquire_all() as slots:
                assert len(slots) == 2
                seen.append(name)

        async with anyio.create_task_group() as group:
            for name in range(4):
                group.start_soon(_visit, pool, name, seen, 2)
                group.start_soon(race, 100 + name)
        assert len(seen) == 12


async def test_nobody_overtakes_one_who_waits_for_all(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        order: list[str] = []

        async def take(name: str, how: Callable[[], object]) -> None:
            async with how():  # type: ignore[attr-defined]
                order.append(name)

        async with anyio.create_task_group() as group, pool.acquire():
            group.start_soon(take, "all", pool.acquire_all)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(take, "one", pool.acquire)
            await anyio.wait_all_tasks_blocked()
            assert order == []
        assert order == ["all", "one"]


@pytest.mark.parametrize("every", [False, True], ids=["one", "all"])
async def test_a_cancelled_wait_loses_no_slot(world: World, every: bool) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request())) as pool:
        how = pool.acquire_all if every else pool.acquire

        async def wait(scope: anyio.CancelScope) -> None:
            with scope:
                async with how():
                    pytest.fail("it was cancelled")

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as group, pool.acquire_all():
            group.start_soon(wait, scope)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
        # Served and cancelled in the same moment: the slot goes back unused.
        scope = anyio.CancelScope()
        scope.cancel()
        await wait(scope)
        async with pool.acquire_all() as slots:
            assert len(slots) == 2


async def test_a_cancelled_or_failing_visit_is_cleaned_up(world: World) -> None:
    world.init()
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        with anyio.CancelScope() as scope:
            async with pool.acquire() as slot:
                (slot.workspace.root / "junk").write_bytes(b"")
                scope.cancel()
                await anyio.sleep_forever()
        with pytest.raises(ZeroDivisionError):  # noqa: PT012 - the block is what is tested
            async with pool.acquire() as slot:
                assert not (slot.workspace.root / "junk").exists()
                (slot.workspace.root / "junk").write_bytes(b"")
                raise ZeroDivisionError
        async with pool.acquire() as slot:
            assert not (slot.workspace.root / "junk").exists()


async def test_cancelling_the_opening_leaves_nothing(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with world.pool(mirror, snapshot):
                pytest.fail("it was cancelled")
    assert world.left_behind() == []


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


async def test_a_full_disk_is_said_in_one_line(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.init()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        monkeypatch.setattr("codeflash_parallel.worktrees.maker._age", full)
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
            assert pool.size == 2
            assert made == 4
            assert len(pool.warnings) == 1
            assert "Slot 2" in pool.warnings[0]
