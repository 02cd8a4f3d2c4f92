"""What a mirror starts from, what is laid over it, and what it does in trouble."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from worktree_support import MODULE, World, request, tree, world

from codeflash_parallel.result.errors import EnvironmentFault, UsageError
from codeflash_parallel.workspace.git.git_client import find_repository

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]
only_ordinary_users = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


async def test_a_base_is_a_commit_of_the_user(world: World) -> None:
    world.init({"a.py": "one", "gone.py": "g", ".gitignore": "_v.py\n"})
    first = world.git("rev-parse", "HEAD")
    world.git("tag", "v1")
    world.git("rm", "-q", "gone.py")
    world.write({"a.py": "two"})
    world.git("commit", "-qam", "second")
    world.write({"a.py": "dirty", "untracked.py": "u", "_v.py": "generated"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(base="v1"))
        assert tree(mirror, snapshot) == {
            ".gitignore": b"_v.py\n",
            "a.py": b"one",
            "gone.py": b"g",
            "_v.py": b"generated",
        }
        assert snapshot.base == first
        for bad in ("nonsense", "--all", "HEAD:a.py", ""):
            if bad:
                with pytest.raises(UsageError) as caught:
                    await mirror.snapshot(request(base=bad))
                assert caught.value.code == "BAD_BASE"


async def test_a_base_with_large_file_storage_takes_them_from_disk(world: World) -> None:
    world.init({".gitattributes": "*.big filter=store\n"})
    for setting, command in (("clean", "echo pointer"), ("smudge", "false"), ("required", "true")):
        world.git("config", f"filter.store.{setting}", command)
    world.write({"data.big": "very large\n"})
    world.git("add", "data.big")
    world.git("commit", "-qm", "large")
    assert world.git("show", "HEAD:data.big") == "pointer"
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(base="HEAD"))
        assert mirror.read(snapshot, "data.big") == b"very large\n"


async def test_a_bare_repository_needs_a_base(world: World) -> None:
    world.init()
    bare = world.base / "bare.git"
    world.git("clone", "-q", "--bare", str(world.root), str(bare))
    world.guarded.append(bare)
    async with world.mirror(bare) as mirror:
        with pytest.raises(UsageError):
            await mirror.snapshot(request())
        snapshot = await mirror.snapshot(request(base="main"))
        assert mirror.read(snapshot, "pkg/mod.py") == MODULE.encode()


async def test_a_partial_clone_is_refused_and_never_fetches(world: World) -> None:
    world.init()
    world.git("config", "uploadpack.allowFilter", "true")
    partial = world.base / "partial"
    world.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{world.root}", str(partial))
    world.guarded.append(partial)
    async with world.mirror(partial) as mirror:
        with pytest.raises(EnvironmentFault) as caught:
            await mirror.snapshot(request(base="HEAD"))
    assert caught.value.code == "MISSING_OBJECTS"


async def test_a_linked_worktree_is_a_repository_of_its_own(world: World) -> None:
    world.init({"a.py": "main"})
    linked = world.base / "linked"
    world.git("worktree", "add", "-q", str(linked), "-b", "side")
    world.write({"a.py": "side"}, at=linked)
    world.guarded.append(linked)
    async with world.mirror(linked) as mirror:
        assert mirror.repository.root == linked
        assert mirror.read(await mirror.snapshot(request()), "a.py") == b"side"
        assert mirror.repository.key != find_repository(world.root).key


async def test_extra_tests_are_overlaid(world: World) -> None:
    world.init({".gitignore": "gen/\n"})
    world.write({"gen/test_in.py": "inside"})
    outside = world.base / "made-tests"
    world.write({"test_out.py": "outside", "sub/data.txt": "d", "__pycache__/x.pyc": "c"}, at=outside)
    async with world.mirror() as mirror:
        inside = await mirror.snapshot(request(extra_tests=str(world.root / "gen")))
        assert inside.extra_tests == "gen"
        assert mirror.read(inside, "gen/test_in.py") == b"inside"
        assert inside.protected == ("gen/",)
        snapshot = await mirror.snapshot(request(extra_tests=str(outside)))
        assert mirror.paths(snapshot) == (
            ".gitignore",
            "gen/test_in.py",
            "made-tests/sub/data.txt",
            "made-tests/test_out.py",
        )
        assert snapshot.tree != (await mirror.snapshot(request())).tree
        with pytest.raises(UsageError) as caught:
            await mirror.snapshot(request(extra_tests=str(world.base / "nowhere")))
        assert caught.value.code == "EXTRA_TESTS_MISSING"


async def test_extra_tests_may_not_replace_what_is_there(world: World) -> None:
    world.init({"made/test_a.py": "mine"})
    world.write({"test_a.py": "other"}, at=world.base / "made")
    async with world.mirror() as mirror:
        with pytest.raises(UsageError) as caught:
            await mirror.snapshot(request(extra_tests=str(world.base / "made")))
    assert caught.value.code == "EXTRA_TESTS_COLLIDE"


async def test_in_a_monorepo_extra_tests_lie_in_the_project(world: World) -> None:
    world.init({"apps/one/pyproject.toml": "", "apps/one/src/m.py": "m"})
    world.write({"test_o.py": "o"}, at=world.base / "made")
    async with world.mirror(world.root / "apps/one/src") as mirror:
        assert mirror.repository.project == Path("apps/one")
        snapshot = await mirror.snapshot(request(extra_tests=str(world.base / "made")))
        assert snapshot.extra_tests == "apps/one/made"
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            assert slot.workspace.project == slot.workspace.root / "apps/one"
            assert slot.workspace.root.name == world.root.name


async def test_a_mirror_that_lost_objects_gets_them_again(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        first = await mirror.snapshot(request())
        for path in (mirror.home.mirror / "objects").glob("??/*"):
            path.chmod(0o644)
            path.write_bytes(b"")
        async with world.pool(mirror, first, size=1) as pool, pool.acquire() as slot:
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE
        shutil.rmtree(mirror.home.mirror)
        assert await mirror.snapshot(request()) == first
        assert mirror.read(first, "pkg/mod.py") == MODULE.encode()


async def test_a_damaged_mirror_is_mended_when_it_is_opened(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        first = await mirror.snapshot(request())
        home = mirror.home.mirror
    (home / "config").write_text("[core]\n\tbare = maybe\n")
    (home / "snapshot.index").write_bytes(b"rubbish")
    (home / "info/attributes").unlink()
    (home / "hooks").mkdir()
    async with world.mirror() as mirror:
        assert await mirror.snapshot(request()) == first
        assert not (home / "hooks").exists()


async def test_many_files_go_into_one_pack_that_is_verified(world: World) -> None:
    world.init({f"many/{n}.txt": f"text {n}\n" * 20 for n in range(300)})
    async with world.mirror() as mirror:
        first = await mirror.snapshot(request())
        packs = list((mirror.home.mirror / "objects/pack").glob("*.pack"))
        assert len(packs) == 1
        data = bytearray(packs[0].read_bytes())
        data[len(data) // 2] ^= 0xFF
        packs[0].chmod(0o644)
        packs[0].write_bytes(data)
        mirror.heal(first)
        assert mirror.read(first, "many/7.txt") == b"text 7\n" * 20


async def test_a_cache_that_cannot_be_made(world: World) -> None:
    world.init()
    world.cache = Path("/proc/no-such-cache")
    with pytest.raises(EnvironmentFault) as caught:
        async with world.mirror():
            pass
    assert caught.value.exit_code == 4
    assert "/proc/no-such-cache" in str(caught.value)


@only_ordinary_users
async def test_a_file_that_cannot_be_read_is_named(world: World) -> None:
    world.init()
    (world.root / "secret.py").write_text("x")
    (world.root / "secret.py").chmod(0)
    async with world.mirror() as mirror:
        with pytest.raises(EnvironmentFault) as caught:
            await mirror.snapshot(request())
    assert caught.value.code == "UNREADABLE_FILE"
    assert "secret.py" in str(caught.value)


async def test_the_users_gc_takes_nothing_away(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        world.write({"pkg/mod.py": "changed = 1\n"})
        world.git("commit", "-qa", "--amend", "-m", "amended")
        world.git("reflog", "expire", "--expire=now", "--all")
        world.git("gc", "-q", "--prune=now")
        world.freeze()
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE
            (slot.workspace.root / "pkg/mod.py").unlink()
            await slot.discard()
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE


@pytest.mark.parametrize("where", ["nowhere", "plain", "plain/.git-like", "user/.git"])
def test_what_is_no_repository(world: World, where: str) -> None:
    world.init()
    (world.base / "plain/.git-like").mkdir(parents=True)
    world.freeze()
    with pytest.raises(UsageError) as caught:
        find_repository(world.base / where)
    assert caught.value.code == "NOT_A_REPOSITORY"


async def test_our_files_are_ours_alone(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        await mirror.snapshot(request())
        assert stat.S_IMODE(mirror.home.path.stat().st_mode) == 0o700
        assert not (mirror.home.mirror / "objects/info/alternates").exists()
