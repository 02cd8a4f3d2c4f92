"""What a slot promises, whatever its tree is made of: after `discard` it is the snapshot, to the bit."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worktree_support import World, edit, request, world

from codeflash_parallel.model.errors import InternalError
from codeflash_parallel.worktrees import kinds, slot, ticks
from codeflash_parallel.worktrees.journal import JOURNAL, note_staging, note_undone, staged_in
from codeflash_parallel.worktrees.kinds import SlotKind
from codeflash_parallel.worktrees.overlay import Overlay, probe_overlay, unmount_and_remove
from codeflash_parallel.worktrees.pool import Pool, Slot
from codeflash_parallel.worktrees.slot import SNAPSHOT_MTIME_NS, SlotBroken
from codeflash_parallel.worktrees.waste import Waste

__all__ = ["world"]
pytestmark = pytest.mark.anyio
#: Files of a large tree; `nox -s campaign` takes 20,000.
MANY = int(os.environ.get("CODEFLASH_PARALLEL_FILES", "3000"))
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
    monkeypatch.setattr(kinds, "_CLONE", clone)
    least = 0 if kind is SlotKind.OVERLAY else 10**9
    monkeypatch.setattr(kinds, "LEAST_FILES_OF_AN_OVERLAY", least)
    if kind is SlotKind.OVERLAY:
        (folder / "probe").mkdir()
        if not probe_overlay(folder / "probe"):
            pytest.skip("overlays cannot be mounted here")


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


async def test_what_a_slot_costs_is_what_it_shares_with_nobody(world: World, kind: SlotKind) -> None:
    init(world)
    world.write({f"many/f{number}.txt": os.urandom(8192) for number in range(40)})
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as one,
    ):
        cost = one.cost
        shares_blocks, shares_inodes = kind is not SlotKind.WORKTREE, kind is SlotKind.OVERLAY
        assert (cost.bytes < 40 * 8192) == shares_blocks
        assert (cost.inodes < 40) == shares_inodes
        await one.stage([edit(mirror, await mirror.snapshot(request()), "new.py", b"x = 1\n")])
        assert one.cost == cost


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
    try:
        (victim / "alias").hardlink_to(root / "data/b.txt")
    except OSError:  # an overlay is another file system
        (root / "alias").hardlink_to(root / "data/b.txt")


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


async def all_is_restored(pool: Pool, world: World, damages: list[Callable[[Path, Path], None]]) -> None:
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
        names = {
            one.workspace.root.name,
            "private",
            *(("upper", "work") if one.kind is SlotKind.OVERLAY else ()),
        }
        assert names_in(folder) == names
    assert (victim / "precious").read_bytes() == b"precious"


async def test_whatever_a_candidate_does_is_undone(world: World, kind: SlotKind) -> None:
    init(world)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1) as pool:
        await all_is_restored(pool, world, HOSTILE)


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


async def test_a_staged_file_that_changes_within_one_tick_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "find_grain", lambda _folder: ticks.Grain.TICK)
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
            ticks.wait_past(one._tree.newest_ns)
            assert place.read_bytes() == b"value = 1\n"


def test_the_clock_is_waited_for_and_no_longer_than_a_tick(tmp_path: Path) -> None:
    assert ticks.find_grain(tmp_path) in set(ticks.Grain)
    assert list(tmp_path.iterdir()) == []
    ticks.wait_past(2**62)  # a server's clock may be ahead for ever


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


async def test_blocks_are_shared_where_the_file_system_can(
    world: World, shared_blocks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "LEAST_FILES_OF_AN_OVERLAY", 10**9)
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
    waste = Waste(tmp_path)
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
