"""Checkouts on a host: files byte by byte, environments made once, old ones removed."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from aftermath import processes_of
from harness import wait_for
from host_jobs import host_job
from worktree_support import World, request, world

from codeflash_parallel.hosts.cluster import host_checkout
from codeflash_parallel.hosts.cluster.host_checkout import bundle_of, checkout, end_preparing
from codeflash_parallel.hosts.cluster.host_job import HostJob
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.workspace.cache_layout import remove_tree
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

__all__ = ["world"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


class Bundles:
    """Gives a bundle, and counts how often it was wanted."""

    def __init__(self, bundle: bytes) -> None:
        self._bundle, self.wanted = bundle, 0

    def __call__(self) -> bytes:
        self.wanted += 1
        return self._bundle


async def taken(world: World, base: str = "") -> tuple[Snapshot, Bundles]:
    """Take a snapshot of a user's tree; return it with its bundle."""
    async with world.mirror() as mirror:
        snapshot = await mirror.snapshot(request(base=base))
        return snapshot, Bundles(bundle_of(mirror, snapshot))


def never() -> threading.Event:
    return threading.Event()


def held(host: Path, job: HostJob, bundles: Callable[[], bytes]) -> Path:
    """Make a checkout, and return where it is."""
    with checkout(host, job, bundles, never()) as root:
        return root


def age(host: Path, seconds: float) -> None:
    """Let time pass for all checkouts of a host."""
    for mark in (host / "checkouts").glob("*/done"):
        then = mark.stat().st_mtime - seconds
        os.utime(mark, (then, then))


# --- files -------------------------------------------------------------------------------------------------


async def test_the_files_of_a_checkout_are_those_of_the_snapshot_byte_by_byte(
    world: World, tmp_path: Path
) -> None:
    files = {
        "a.txt": b"windows\r\n$Id$\r\n",
        "b.py": b"x = 1\n",
        "deep/er/c.bin": bytes(range(256)),
        "dos.bat": b"unix\n",
        "f.u16": "wide\n".encode("utf-16"),
        "g.dat": b"filtered\n",
        "run.sh": b"#!/bin/sh\n",
        "name with\nbreak": b"",
        os.fsdecode(b"latin-\xe9"): b"bytes",
    }
    attributes = (
        b"*.txt text eol=lf ident\n*.bat text eol=crlf\n*.u16 working-tree-encoding=UTF-16\n"
        b"*.dat filter=broken\nrun.sh export-ignore\n"
    )
    world.init({**files, ".gitattributes": attributes})
    (world.root / "run.sh").chmod(0o755)
    (world.root / "link").symlink_to("deep/er/c.bin")
    (world.root / "dangling").symlink_to("nowhere")
    snapshot, bundles = await taken(world)

    with checkout(tmp_path / "host", host_job(snapshot), bundles, never()) as root:
        assert root.name == "user"
        there = {
            str(path.relative_to(root)): path
            for path in root.rglob("*")
            if not path.is_dir() or path.is_symlink()
            if ".git" not in path.relative_to(root).parts
        }
        links = {"link": "deep/er/c.bin", "dangling": "nowhere"}
        assert set(there) == {*files, ".gitattributes", *links}
        assert {name: there[name].read_bytes() for name in files} == files
        assert {name: str(there[name].readlink()) for name in links} == links
        executable = {n for n, path in there.items() if n not in links and os.access(path, os.X_OK)}
        assert executable == {"run.sh"}


async def test_a_checkout_is_a_repository_whose_head_is_the_snapshot(world: World, tmp_path: Path) -> None:
    world.init({"sub/pyproject.toml": "[project]\n"})
    snapshot, bundles = await taken(world)
    with checkout(tmp_path / "host", host_job(snapshot, project="sub"), bundles, never()) as root:
        found = find_repository(root / "sub")
        assert (found.root, found.project.as_posix()) == (root.resolve(), "sub")
        assert world.git("rev-parse", "HEAD", at=root) == snapshot.commit
        assert world.git("status", "--porcelain", at=root) == ""


async def test_a_second_checkout_wants_no_bundle(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    first = held(tmp_path / "host", host_job(snapshot), bundles)
    assert held(tmp_path / "host", host_job(snapshot), bundles) == first
    assert bundles.wanted == 1


async def test_what_was_half_made_is_made_anew(world: World, tmp_path: Path) -> None:
    world.init({"a.py": "1\n"})
    snapshot, bundles = await taken(world)
    root = held(tmp_path / "host", host_job(snapshot), bundles)
    (root.parent / "done").unlink()
    (root / "a.py").write_text("half")
    (root / "left").write_text("over")
    assert held(tmp_path / "host", host_job(snapshot), bundles) == root
    assert bundles.wanted == 2
    assert (root / "a.py").read_text() == "1\n"
    assert not (root / "left").exists()


async def test_a_bundle_that_is_none_is_one_fault(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    with pytest.raises(EnvironmentFault) as caught:
        held(tmp_path / "host", host_job(snapshot), lambda: b"no pack")
    assert caught.value.code == "GIT_FAILED"
    held(tmp_path / "host", host_job(snapshot), bundles)
    assert bundles.wanted == 1


async def test_two_at_once_make_one_checkout(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    job = host_job(snapshot, prepare="sleep 0.3; echo made >> log")
    roots: list[Path] = []
    threads = [
        threading.Thread(target=lambda: roots.append(held(tmp_path / "host", job, bundles))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(roots) == 3
    assert bundles.wanted == 1
    assert (roots[0] / "log").read_text() == "made\n"


# --- the environment that is made --------------------------------------------------------------------------


async def test_prepare_is_run_once_for_each_content(world: World, tmp_path: Path) -> None:
    world.init({"sub/a.py": "1\n"})
    log = tmp_path / "log"
    prepare = f"pwd >> {log}; cat a.py >> {log}"
    snapshot, bundles = await taken(world)
    job = host_job(snapshot, prepare=prepare, project="sub")
    first = held(tmp_path / "host", job, bundles)
    assert held(tmp_path / "host", job, bundles) == first
    assert log.read_text() == f"{first / 'sub'}\n1\n"

    world.write({"sub/a.py": "2\n"})
    world.freeze()
    other, more = await taken(world)
    second = held(tmp_path / "host", host_job(other, prepare=prepare, project="sub"), more)
    assert second != first
    assert log.read_text().endswith(f"{second / 'sub'}\n2\n")
    assert held(tmp_path / "host", host_job(snapshot, prepare="true"), bundles) not in {first, second}


async def test_prepare_that_fails_is_told_in_its_own_words_and_tried_again(
    world: World, tmp_path: Path
) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    switch = tmp_path / "switch"
    prepare = f"echo out; echo there is no compiler >&2; test -e {switch} || exit 3"
    job = host_job(snapshot, prepare=prepare)
    for _ in range(2):
        with pytest.raises(EnvironmentFault, match="there is no compiler") as caught:
            held(tmp_path / "host", job, bundles)
        assert caught.value.code == "PREPARE_FAILED"
        assert "status 3" in caught.value.message
        assert "out" in caught.value.message
    switch.touch()
    with checkout(tmp_path / "host", job, bundles, never()) as root:
        assert (root / "pkg").is_dir()


async def test_of_what_a_failing_command_said_the_end_is_told(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    job = host_job(snapshot, prepare="seq 100000; exit 1")
    with pytest.raises(EnvironmentFault, match="100000") as caught:
        held(tmp_path / "host", job, bundles)
    assert len(caught.value.message) < 2000


async def test_prepare_is_killed_when_nobody_wants_the_job(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    begun, is_over = tmp_path / "begun", threading.Event()
    # A child of the command, too: the whole group is killed.
    job = host_job(snapshot, prepare=f"sleep 600 & touch {begun}; wait")
    faults: list[EnvironmentFault] = []

    def make() -> None:
        try:
            with checkout(tmp_path / "host", job, bundles, is_over):
                pass
        except EnvironmentFault as fault:
            faults.append(fault)

    maker = threading.Thread(target=make)
    maker.start()
    assert wait_for(begun.exists, 30.0)
    is_over.set()
    maker.join(20.0)
    assert not maker.is_alive()
    assert [fault.code for fault in faults] == ["PREPARE_FAILED"]
    assert wait_for(lambda: not processes_of(tmp_path / "host"), 10.0), processes_of(tmp_path / "host")


async def test_who_ends_its_process_waits_for_the_command(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    begun, is_over = tmp_path / "begun", threading.Event()
    job = host_job(snapshot, prepare=f"touch {begun}; sleep 600")

    def make() -> None:
        with suppress(EnvironmentFault), checkout(tmp_path / "host", job, bundles, is_over):
            pass

    maker = threading.Thread(target=make)
    maker.start()
    try:
        assert wait_for(begun.exists, 30.0)
        end_preparing(is_over)
        # It is killed, but on a busy machine not gone yet.
        assert wait_for(lambda: not [one for one in processes_of(tmp_path / "host") if "sleep" in one], 10.0)
    finally:
        host_checkout._preparing.release()
        maker.join(20.0)


# --- old ones ----------------------------------------------------------------------------------------------


async def many(world: World, count: int) -> list[tuple[HostJob, Bundles]]:
    made = []
    for number in range(count):
        world.write({"number.py": f"{number}\n"})
        world.freeze()
        snapshot, bundles = await taken(world)
        made.append((host_job(snapshot), bundles))
    return made


async def test_four_checkouts_are_kept_with_what_is_kept_of_them(world: World, tmp_path: Path) -> None:
    world.init()
    host, roots = tmp_path / "host", []
    for job, bundles in await many(world, 6):
        root = held(host, job, bundles)
        home = host / find_repository(root).key
        home.mkdir()
        (home / "mirror.git").touch()
        roots.append((root, home))
        age(host, 10.0)
    kept = [root.exists() for root, _ in roots]
    assert kept == [home.exists() for _, home in roots] == [False, False, True, True, True, True]
    assert len(list((host / "checkouts").iterdir())) == 4


async def test_who_was_used_lately_is_kept(world: World, tmp_path: Path) -> None:
    world.init()
    host, jobs = tmp_path / "host", await many(world, 5)
    roots = []
    for job, bundles in jobs[:4]:
        roots.append(held(host, job, bundles))
        age(host, 10.0)
    held(host, *jobs[0])
    age(host, 10.0)
    held(host, *jobs[4])
    assert [root.exists() for root in roots] == [True, False, True, True]


async def test_one_in_use_is_not_removed(world: World, tmp_path: Path) -> None:
    world.init()
    host, jobs = tmp_path / "host", await many(world, 6)
    with checkout(host, *jobs[0], never()) as used:
        for job, bundles in jobs[1:]:
            held(host, job, bundles)
            age(host, 10.0)
        assert (used / "number.py").read_text() == "0\n"
    held(host, *jobs[5])
    assert not used.exists()


async def test_one_in_use_is_shared_and_free_afterwards(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    job = host_job(snapshot)
    with ExitStack() as stack:
        roots = {stack.enter_context(checkout(tmp_path / "host", job, bundles, never())) for _ in range(2)}
        (root,) = roots
    with (root.parent / "use.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_no_lock_of_a_checkout_is_left(world: World, tmp_path: Path) -> None:
    world.init()
    host = tmp_path / "host"
    roots = [held(host, job, bundles) for job, bundles in await many(world, 6)]
    left = [root for root in roots if root.exists()]
    assert left
    for root in left:
        with (root.parent / "use.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_one_that_is_removed_while_it_is_waited_for_is_made_anew(world: World, tmp_path: Path) -> None:
    world.init({"a.py": "1\n"})
    snapshot, bundles = await taken(world)
    host, job = tmp_path / "host", host_job(snapshot)
    root = held(host, job, bundles)
    found: list[str] = []

    def again() -> None:
        with checkout(host, job, bundles, never()) as there:
            found.append((there / "a.py").read_text())

    with (root.parent / "use.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = threading.Thread(target=again)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        (root.parent / "done").unlink()
        remove_tree(root.parent)
    waiting.join(20.0)
    assert found == ["1\n"]
    assert bundles.wanted == 2


# --- faults ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_cache_that_cannot_be_written(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    host = tmp_path / "host"
    host.mkdir(mode=0o500)
    with pytest.raises(EnvironmentFault) as caught:
        held(host, host_job(snapshot), bundles)
    assert caught.value.code == "CACHE_UNWRITABLE"


async def test_what_fails_inside_is_not_taken_for_a_fault_of_the_cache(world: World, tmp_path: Path) -> None:
    world.init()
    snapshot, bundles = await taken(world)
    with (
        pytest.raises(PermissionError),
        checkout(tmp_path / "host", host_job(snapshot), bundles, never()),
    ):
        raise PermissionError("of the job")


async def test_a_bundle_holds_the_snapshot_and_nothing_else(world: World, tmp_path: Path) -> None:
    world.init({"a.py": "old\n"})
    world.write({"a.py": "new\n"})
    snapshot, bundles = await taken(world)
    root = held(tmp_path / "host", host_job(snapshot), bundles)
    objects = world.git("cat-file", "--batch-all-objects", "--batch-check", at=root).splitlines()
    assert sorted(line.split()[1] for line in objects) == ["blob", "commit", "tree"]
