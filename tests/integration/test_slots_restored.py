"""After `discard` a slot is the snapshot, to the bit, whatever was done to it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from slot_support import FILES, anyio_backend, init, kind, names_in, state, use
from worktree_support import World, edit, request, world

from codeflash_parallel.workspace.slot.slot_files import JOURNAL, SlotKind
from codeflash_parallel.workspace.slot_pool import Slot, SlotPool

__all__ = ["anyio_backend", "kind", "world"]
pytestmark = pytest.mark.anyio
#: Files of a large tree; `nox -s campaign` takes 20,000.
MANY = int(os.environ.get("CODEFLASH_PARALLEL_FILES", "3000"))


def chmod(root: Path, victim: Path) -> None:
    for place in (root / "pkg/mod.py", root / "pkg/sub", root / "data", root):
        place.chmod(0o711 if place.is_dir() else 0o600)


def swap_links(root: Path, victim: Path) -> None:
    (root / "link").unlink()
    (root / "link").symlink_to(victim)
    shutil.rmtree(root / "pkg")
    (root / "pkg").symlink_to(victim)
    (root / "data/a.txt").unlink()
    (root / "data/a.txt").symlink_to(victim / "precious")


def hard_links(root: Path, victim: Path) -> None:
    (root / "pkg/mod.py").unlink()
    (root / "pkg/mod.py").hardlink_to(root / "data/a.txt")
    (victim / "alias").unlink(missing_ok=True)
    (victim / "alias").hardlink_to(root / "data/b.txt")


def delete_folders(root: Path, victim: Path) -> None:
    shutil.rmtree(root / "pkg")
    shutil.rmtree(root / "data")


def same_size_and_time(root: Path, victim: Path) -> None:
    for name in ("data/a.txt", "pkg/mod.py"):
        place = root / name
        before = place.stat()
        place.write_bytes(b"#" * before.st_size)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))


def exchange_files(root: Path, victim: Path) -> None:
    (root / "data/a.txt").rename(root / "data/c")
    (root / "data/b.txt").rename(root / "data/a.txt")
    (root / "data/c").rename(root / "data/b.txt")


def exchange_folders(root: Path, victim: Path) -> None:
    (root / "data").rename(root / "x")
    (root / "pkg").rename(root / "data")
    (root / "x").rename(root / "pkg")


def folders_to_files(root: Path, victim: Path) -> None:
    shutil.rmtree(root / "pkg/sub")
    (root / "pkg/sub").write_bytes(b"a file now")
    (root / "data/a.txt").unlink()
    (root / "data/a.txt").mkdir()
    (root / "data/a.txt/inside").write_bytes(b"")


def odd_kinds(root: Path, victim: Path) -> None:
    os.mkfifo(root / "pkg/pipe")
    (root / "data/b.txt").unlink()
    os.mkfifo(root / "data/b.txt")
    (root / os.fsdecode(b"not\xffutf8\n")).write_bytes(b"")
    (root / "locked").mkdir()
    (root / "locked/inside").write_bytes(b"")
    (root / "locked").chmod(0)


def write_through_a_mapping(root: Path, victim: Path) -> None:
    import mmap

    with (root / "data/a.txt").open("r+b") as file, mmap.mmap(file.fileno(), 4) as mapped:
        mapped[:] = b"mapd"


HOSTILE = [
    chmod,
    swap_links,
    hard_links,
    delete_folders,
    same_size_and_time,
    exchange_files,
    exchange_folders,
    folders_to_files,
    odd_kinds,
    write_through_a_mapping,
]


async def all_is_restored(pool: SlotPool, world: World, damages: list[Callable[[Path, Path], None]]) -> None:
    victim = world.base / "victim"
    victim.mkdir()
    (victim / "precious").write_bytes(b"precious")
    async with pool.acquire() as one:
        root, folder = one.workspace.root, one.folder
        before = state(root)
        for damage in damages:
            await one.stage([])
            damage(root, victim)
            assert await one.audit() != ()
            await one.discard()
            assert state(root) == before, damage
            assert await one.audit() == ()
    async with pool.acquire() as one:
        assert one.folder == folder  # it was restored, not replaced
        assert names_in(folder) == {one.workspace.root.name, "private"}
    assert (victim / "precious").read_bytes() == b"precious"


async def test_whatever_a_candidate_does_is_undone(world: World, kind: SlotKind) -> None:
    init(world)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        await all_is_restored(pool, world, HOSTILE)


@pytest.mark.witness
@pytest.mark.slow
async def test_the_same_with_many_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    use(SlotKind.WORKTREE, monkeypatch, world.base)
    many = {f"many/d{number // 100}/f{number}.py": f"x = {number}\n" for number in range(MANY)}
    world.init({**FILES, **many})
    (world.root / "link").symlink_to("data")

    def everywhere(root: Path, victim: Path) -> None:
        for number in range(0, MANY, 97):
            (root / f"many/d{number // 100}/f{number}.py").write_bytes(b"x = %d\n" % (MANY - 1 - number))
        shutil.rmtree(root / "many/d7")

    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        await all_is_restored(pool, world, [everywhere, *HOSTILE])


def random_change(root: Path, dice: random.Random) -> None:
    """Do one thing to a tree; what does not work is not done."""
    places = sorted(root.rglob("*"))
    place, other = dice.choice(places), dice.choice(places)
    changes: list[Callable[[], object]] = [
        place.unlink,
        lambda: shutil.rmtree(place),
        lambda: place.rename(other),
        place.mkdir,
        lambda: place.chmod(dice.choice([0o600, 0o644, 0o755])),
        lambda: place.write_bytes(dice.randbytes(dice.randrange(9))),
        lambda: (place / f"new{dice.randrange(5)}").write_bytes(b"new"),
        lambda: (place / f"link{dice.randrange(5)}").symlink_to(other),
        lambda: (place / f"hard{dice.randrange(5)}").hardlink_to(other),
        lambda: os.utime(place, ns=(1, dice.randrange(10**18)), follow_symlinks=False),
    ]
    try:
        dice.choice(changes)()
    except OSError:
        return


@pytest.mark.parametrize("seed", range(6))
async def test_random_changes_of_staged_trees_are_undone(world: World, kind: SlotKind, seed: int) -> None:
    init(world)
    dice = random.Random(seed)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as one:
            before = state(one.workspace.root)
            for _ in range(8):
                chosen = dice.sample(sorted(FILES), 3)
                edits = [edit(mirror, snapshot, path, dice.choice([None, b"staged\n"])) for path in chosen]
                await one.stage([*edits, edit(mirror, snapshot, "pkg/new/added.py", b"added = 1\n")])
                assert await one.audit() == ()
                for _ in range(dice.randrange(25)):
                    random_change(one.workspace.root, dice)
                await one.discard()
                assert state(one.workspace.root) == before
            assert not (one.folder / JOURNAL).exists()


def replace_folder(one: Slot, victim: Path) -> None:
    one.folder.rename(one.folder.with_name("moved"))
    one.folder.symlink_to(victim)


def replace_private(one: Slot, victim: Path) -> None:
    shutil.rmtree(one.workspace.private)
    one.workspace.private.symlink_to(victim)


def replace_home(one: Slot, victim: Path) -> None:
    shutil.rmtree(one.workspace.private / "home")
    (one.workspace.private / "home").symlink_to(victim)


def replace_journal(one: Slot, victim: Path) -> None:
    (one.folder / JOURNAL).unlink()
    (one.folder / JOURNAL).symlink_to(victim / "precious")


def leave_links_beside(one: Slot, victim: Path) -> None:
    (one.folder / "beside").symlink_to(victim)
    (one.folder / "folder/below").mkdir(parents=True)
    (one.workspace.private / "tmp/link").symlink_to(victim)


@pytest.mark.parametrize(
    "damage", [replace_folder, replace_private, replace_home, replace_journal, leave_links_beside]
)
async def test_restoring_never_reaches_beyond_the_slot(
    world: World, damage: Callable[[Slot, Path], None]
) -> None:
    init(world)
    victim = world.base / "victim"
    world.write({f"{world.root.name}/precious": "p", "private/precious": "p", "precious": "p"}, at=victim)
    world.guarded.append(victim)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool:
            async with pool.acquire() as one:
                await one.stage([edit(mirror, snapshot, "pkg/mod.py", b"x = 1\n")])
                damage(one, victim)
            async with pool.acquire() as one:
                assert (one.workspace.root / "pkg/mod.py").read_bytes() == b"value = 1\n"
                assert sorted(p.name for p in one.workspace.private.rglob("*")) == ["home", "tmp"]
                assert not (one.workspace.private / "home").is_symlink()


async def test_closing_follows_no_link(world: World, kind: SlotKind) -> None:
    init(world)
    victim = world.base / "victim"
    world.write({"folder/precious": "p", "precious": "p"}, at=victim)
    world.guarded.append(victim)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        folder = pool.baseline.folder
        for place in (folder / "link", pool.baseline.workspace.root / "linked", folder.parent / "slot"):
            place.symlink_to(victim)
        shutil.rmtree(pool.baseline.workspace.private)
        pool.baseline.workspace.private.symlink_to(victim / "folder")
