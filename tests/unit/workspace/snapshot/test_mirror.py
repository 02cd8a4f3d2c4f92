"""What a mirror takes of a working tree: all of it, as it is, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from worktree_support import MODULE, World, request, tree, world

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]
only_ordinary_users = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


async def test_the_tree_is_taken_as_it_is(world: World) -> None:
    world.init(
        {"kept.py": "1", "staged.py": "1", "dirty.py": "1", "deleted.py": "1", ".gitignore": "*.log\n_v.py\n"}
    )
    world.write({"staged.py": "2", "added.py": "new"})
    world.git("add", "staged.py", "added.py")
    world.write({"staged.py": "3", "dirty.py": "2", "untracked/x.py": "u", "noise.log": "n", "_v.py": "v"})
    (world.root / "deleted.py").unlink()
    (world.root / "link").symlink_to("kept.py")
    (world.root / "kept.py").chmod(0o755)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        assert tree(mirror, snapshot) == {
            ".gitignore": b"*.log\n_v.py\n",
            "_v.py": b"v",
            "added.py": b"new",
            "dirty.py": b"2",
            "kept.py": b"1",
            "link": b"kept.py",
            "staged.py": b"3",
            "untracked/x.py": b"u",
        }
        assert mirror.entries(snapshot)["kept.py"].mode == "100755"
        assert mirror.entries(snapshot)["link"].mode == "120000"
        assert mirror.read(snapshot, "link") is None
        assert mirror.read(snapshot, "nowhere") is None
        assert mirror.read(snapshot, "untracked") is None
        assert "noise.log" in snapshot.ignored_left_out
        assert snapshot.base == world.git("rev-parse", "HEAD")


async def test_equal_content_has_an_equal_id(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        first = await mirror.snapshot(request())
        assert await mirror.snapshot(request()) == first
        world.write({"README": "other\n"})
        second = await mirror.snapshot(request())
        world.write({"README": "read\n"})
        third = await mirror.snapshot(request())
    assert first.commit != second.commit
    assert third.commit == first.commit
    world.freeze()


async def test_a_change_of_the_same_second_and_size_is_seen(world: World) -> None:
    world.init({"a.py": "one"})
    async with world.mirror() as mirror:
        for text in ("two", "six", "ten"):
            world.write({"a.py": text})
            assert mirror.read(await mirror.snapshot(request()), "a.py") == text.encode()
    world.freeze()


async def test_files_and_folders_may_change_places(world: World) -> None:
    world.init({"a": "file", "b/c": "in a folder", "d/e": "behind a link later"})
    async with world.mirror() as mirror:
        await mirror.snapshot(request())
        (world.root / "a").unlink()
        shutil.rmtree(world.root / "b")
        shutil.move(world.root / "d", world.root / "f")
        (world.root / "d").symlink_to("f")
        world.write({"a/x": "now a folder", "b": "now a file"})
        found = tree(mirror, await mirror.snapshot(request()))
    assert found == {"a/x": b"now a folder", "b": b"now a file", "d": b"f", "f/e": b"behind a link later"}
    world.freeze()


async def test_strange_names(world: World) -> None:
    names = [
        "with space.py",
        "ünïcödé.py",
        "new\nline.txt",
        "tab\t.txt",
        'quo"te.txt',
        "back\\slash.txt",
        "*",
        "-x",
        "a:b",
    ]
    world.init(dict.fromkeys(names, "x"))
    raw = os.fsdecode(b"latin-\xe9.txt")
    world.write({raw: "not utf-8"})
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        assert set(mirror.paths(snapshot)) == {*names, raw}
        assert mirror.read(snapshot, raw) == b"not utf-8"
        assert mirror.read(snapshot, "new\nline.txt") == b"x"
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            assert (slot.workspace.root / raw).read_text() == "not utf-8"
            assert await slot.audit() == ()


async def test_bytes_are_bytes_whatever_the_attributes_say(world: World) -> None:
    world.init({"a.txt": "windows\r\n", "b.txt": b"bin\0ary\r\n"})
    world.git("config", "core.autocrlf", "true")
    world.git("config", "filter.broken.clean", "false")
    world.git("config", "filter.broken.smudge", "false")
    world.git("config", "filter.broken.required", "true")
    attributes = "*.txt text eol=lf ident\n*.u16 working-tree-encoding=UTF-16\n*.dat filter=broken\n"
    world.write(
        {
            ".gitattributes": attributes,
            "c.txt": "$Id$\r\n",
            "d.u16": "é".encode("utf-16"),
            "e.dat": "as it is\r\n",
        }
    )
    (world.base / ".gitconfig").write_text("[core]\n\tautocrlf = true\n\teol = crlf\n")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            for name in ("a.txt", "b.txt", "c.txt", "d.u16", "e.dat"):
                assert (slot.workspace.root / name).read_bytes() == (world.root / name).read_bytes()


async def test_a_repository_without_commits_and_one_without_files(world: World) -> None:
    world.git("init", "-q")
    async with world.mirror() as mirror:
        empty = await mirror.snapshot(request())
        assert (mirror.paths(empty), empty.base) == ((), "")
        async with world.pool(mirror, empty, size=1) as pool, pool.acquire() as slot:
            assert await slot.audit() == ()
        world.write({"a.py": "1"})
        assert mirror.paths(await mirror.snapshot(request())) == ("a.py",)
    world.freeze()


async def test_conflicted_and_intent_to_add_entries(world: World) -> None:
    world.init({"a.py": "base\n"})
    world.git("checkout", "-q", "-b", "other")
    world.write({"a.py": "other\n"})
    world.git("commit", "-qam", "other")
    world.git("checkout", "-q", "main")
    world.write({"a.py": "main\n"})
    world.git("commit", "-qam", "main")
    with pytest.raises(subprocess.CalledProcessError):
        world.git("merge", "other")
    world.write({"new.py": "n"})
    world.git("add", "-N", "new.py")
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        assert mirror.read(snapshot, "a.py") == (world.root / "a.py").read_bytes()
        assert mirror.read(snapshot, "new.py") == b"n"


async def test_submodules_and_nested_repositories_are_entered(world: World) -> None:
    library = World(world.base / "library-base") if (world.base / "library-base").mkdir() is None else world
    library.init({"lib.py": "committed", ".gitignore": "gen.py\n"})
    world.init({"a.py": "1"})
    world.git("submodule", "add", "-q", str(library.root), "third/lib")
    world.git("commit", "-qm", "with submodule")
    at_base = world.git("rev-parse", "HEAD")
    world.write(
        {"third/lib/lib.py": "dirty", "third/lib/extra.py": "untracked", "third/lib/gen.py": "generated"}
    )
    world.git("init", "-q", "nested")
    world.write({"nested/n.py": "nested"})
    world.git("worktree", "add", "-q", "--detach", "again")
    async with world.mirror() as mirror:
        found = tree(mirror, await mirror.snapshot(request()))
        assert {p: d for p, d in found.items() if p != ".gitmodules"} == {
            "a.py": b"1",
            "nested/n.py": b"nested",
            "third/lib/.gitignore": b"gen.py\n",
            "third/lib/extra.py": b"untracked",
            "third/lib/gen.py": b"generated",
            "third/lib/lib.py": b"dirty",
        }
        based = tree(mirror, await mirror.snapshot(request(base=at_base)))
        assert based["third/lib/lib.py"] == b"committed"
        assert "third/lib/extra.py" not in based


async def test_a_submodule_whose_git_directory_is_gone(world: World) -> None:
    world.init({"a.py": "1"})
    world.write({"lost/.git": "gitdir: ../nowhere\n", "lost/x.py": "x"})
    async with world.mirror() as mirror:
        assert "lost/x.py" in mirror.paths(await mirror.snapshot(request()))


async def test_chosen_ignored_files(world: World) -> None:
    world.init(
        {".gitignore": "*.so\n.env\n.venv/\ngenerated/\nbuild/\nnode_modules/\ndata.bin\nbig.so\nenv2/\n"}
    )
    world.write(
        {
            "pkg/_c.so": "elf",
            ".env": "A=1",
            "generated/deep/g.py": "g",
            "generated/readme": "r",
            "generated/__pycache__/g.py": "c",
            "data.bin": "d",
            ".venv/lib/x.py": "v",
            "env2/pyvenv.cfg": "",
            "env2/lib/y.py": "v",
            "build/z.py": "b",
            "node_modules/m.py": "m",
        }
    )
    with (world.root / "big.so").open("wb") as file:
        file.truncate(40 * 1024 * 1024)
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        assert mirror.paths(snapshot) == (".env", ".gitignore", "generated/deep/g.py", "pkg/_c.so")
        left = set(snapshot.ignored_left_out)
        assert {
            "data.bin",
            ".venv/",
            "env2/",
            "build/",
            "big.so",
            "generated/readme",
            "node_modules/",
        } <= left
        assert mirror.paths(await mirror.snapshot(request(include_ignored=()))) == (".gitignore",)


async def test_a_split_index_is_not_freshened(world: World) -> None:
    world.init({"a.py": "1", "b.py": "2"})
    world.git("update-index", "--split-index")
    world.write({"c.py": "3"})
    for shared in (world.root / ".git").glob("sharedindex.*"):
        os.utime(shared, (1_000_000_000, 1_000_000_000))
    async with world.mirror() as mirror:
        assert mirror.paths(await mirror.snapshot(request())) == ("a.py", "b.py", "c.py")


async def test_an_environment_that_points_elsewhere(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.init()
    wrong = world.base / "wrong"
    wrong.mkdir()
    world.git("init", "-q", at=wrong)
    world.guarded.append(wrong)
    monkeypatch.setenv("GIT_DIR", str(wrong / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(wrong))
    monkeypatch.setenv("GIT_INDEX_FILE", str(wrong / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(wrong / "objects"))
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request())
        assert mirror.repository.root == world.root
        assert mirror.read(snapshot, "pkg/mod.py") == MODULE.encode()
        async with world.pool(mirror, snapshot, size=1) as pool, pool.acquire() as slot:
            assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE


async def test_hooks_and_monitors_of_the_user_do_not_run(world: World) -> None:
    world.init()
    ran = world.base / "ran"
    for name in ("post-checkout", "post-index-change", "reference-transaction", "fsmonitor"):
        hook = world.root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        hook.chmod(0o755)
    world.git("config", "core.fsmonitor", ".git/hooks/fsmonitor")
    ran.unlink(missing_ok=True)
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1):
        pass
    assert not ran.exists()


async def test_fifos_and_sockets_are_not_files(world: World) -> None:
    world.init({"a.py": "1", "was.py": "w"})
    (world.root / "was.py").unlink()
    os.mkfifo(world.root / "was.py")
    os.mkfifo(world.root / "pipe")
    async with world.mirror() as mirror:
        assert mirror.paths(await mirror.snapshot(request())) == ("a.py",)
