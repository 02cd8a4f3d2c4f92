from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from worktree_support import MODULE, World, request, world

from codeflash_parallel.workspace.cache_layout import CHECKOUTS, cache_of_host, locked
from codeflash_parallel.workspace.cleanup import CleanMode, clean, recover
from codeflash_parallel.workspace.slot.slot_files import staged_in

__all__ = ["world"]
pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[3]
CHILD = ROOT / "tests" / "pool_child.py"


@pytest.fixture
def anyio_backend() -> str:
    """Processes are what is tested here; they cost too much to run all of it under both loops."""
    return "asyncio"


@contextmanager
def running(
    world: World, run_id: str, until: str, mode: str = "step", *options: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a child up to a word; on leaving it ends as its stdin does."""
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(world.root), str(world.cache), run_id, mode, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        for line in child.stdout:
            if line.decode().strip() == until:
                break
            if mode == "step":
                child.stdin.write(b"\n")
                child.stdin.flush()
        else:
            pytest.fail(f"the child ended before {until!r}")
        yield child
    finally:
        child.stdin.close()
        child.stdout.close()
        child.wait(60)


@pytest.mark.parametrize("until", ["mirror", "snapshot", "slot 0", "slot 1", "using"])
async def test_what_a_killed_run_leaves_is_removed(world: World, until: str) -> None:
    world.init()
    world.freeze()
    with running(world, "dead", until) as child:
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    if until.startswith(("slot", "using")):
        assert world.left_behind() != []
    removed = await recover(world.cache)
    assert world.left_behind() == []
    assert bool(removed) == until.startswith(("slot", "using"))
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), run_id="dead") as pool,
        pool.acquire() as slot,
    ):
        assert (slot.workspace.root / "pkg/mod.py").read_text() == MODULE


async def test_the_journal_of_a_killed_run_tells_what_was_staged(world: World) -> None:
    world.init()
    world.freeze()
    with running(world, "dead", "using", "straight") as child:
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    slots = list(world.cache.glob("*/slots/dead/*"))
    assert sorted(staged_in(slot) for slot in slots) == [(), ("staged.py",)]
    await recover(world.cache)


async def test_a_living_run_is_left_alone(world: World) -> None:
    world.init()
    world.freeze()
    with running(world, "alive", "using") as child:
        before = world.left_behind()
        assert await recover(world.cache) == ()
        assert world.left_behind() == before
        kinds = {leftover.kind for leftover in clean(world.cache, CleanMode.REMOVE)}
        assert kinds <= {"runner"}
        assert world.left_behind() == before
        async with (
            world.mirror() as mirror,
            world.pool(mirror, await mirror.snapshot(request()), run_id="other"),
        ):
            pass
        assert child.poll() is None
    assert child.returncode == 0


async def test_several_processes_open_a_new_cache_at_once(world: World) -> None:
    world.init()
    world.freeze()
    with (
        running(world, "one", "using", "straight") as one,
        running(world, "two", "using", "straight") as two,
        running(world, "three", "using", "straight") as three,
    ):
        assert len(list(world.cache.glob("*/slots/*/*"))) == 6
    assert [child.returncode for child in (one, two, three)] == [0, 0, 0]


async def test_a_worktree_that_git_left_half_made_is_removed(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        await mirror.snapshot(request())
        home = mirror.home
    for name, files in (
        ("user", {"locked": "initializing"}),
        ("user1", {}),
        ("user2", {"gitdir": "", "locked": ""}),
    ):
        world.write(
            {f"{name}/HEAD": "ref: x\n", **{f"{name}/{k}": v for k, v in files.items()}},
            at=home.mirror / "worktrees",
        )
    world.write({"worktrees/user3/gitdir": f"{home.slots}/gone/1/user/.git\n"}, at=home.mirror)
    world.write({"orphan/1/user/x": "", "orphan/1/private/y": ""}, at=home.slots)
    world.write({"tmp123/index": "", "mirror.git/snapshot.index.lock": ""}, at=home.temporary)
    (home.mirror / "snapshot.index.lock").write_bytes(b"")
    home.owners.mkdir(exist_ok=True)
    (home.owners / "gone.json").write_text("rubbish")
    (home.owners / ".draft-1").write_text("")
    assert [path.name for path in await recover(world.cache)] == ["1"]
    assert world.left_behind() == []
    async with world.mirror() as mirror, world.pool(mirror, await mirror.snapshot(request()), size=1):
        pass


async def test_kept_slots_survive_recovery_until_clean(world: World) -> None:
    world.init()
    async with (
        world.mirror() as mirror,
        world.pool(mirror, await mirror.snapshot(request()), size=1) as pool,
        pool.acquire() as slot,
    ):
        kept = await slot.keep()
    assert await recover(world.cache) == ()
    assert world.git("status", "--porcelain", at=kept) == ""
    told = clean(world.cache, CleanMode.DRY_RUN)
    assert [found.path for found in told if found.kind == "kept slot"] == [kept.parent]
    assert clean(world.cache, CleanMode.DRY_RUN, older_than_s=3600) == ()
    clean(world.cache, CleanMode.REMOVE)
    assert not kept.exists()


async def test_clean_removes_what_others_put_there(world: World) -> None:
    world.init()
    async with world.mirror() as mirror:
        home = mirror.home
        world.write({"runs/r1/result.json": "{}", "baselines/b1/inputs": ""}, at=home.path)
        world.write({"runner-abc/x.py": ""}, at=world.cache)
        assert clean(world.cache, CleanMode.REMOVE) == ()
    found = clean(world.cache, CleanMode.DRY_RUN)
    assert {leftover.kind for leftover in found} == {
        "run",
        "baseline",
        "mirror",
        "runner",
    }
    assert clean(world.cache, CleanMode.REMOVE) == found
    assert list(world.cache.iterdir()) == []
    assert clean(world.cache, CleanMode.REMOVE) == ()


async def test_recovery_of_a_cache_that_is_not_there(world: World) -> None:
    world.init()
    assert await recover(world.cache) == ()
    assert not world.cache.exists()


def test_clean_removes_what_this_host_has_made_for_runs_of_others_and_nothing_in_use(tmp_path: Path) -> None:
    checkouts = cache_of_host(tmp_path) / CHECKOUTS
    for name in ("used", "unused"):
        (checkouts / name / "project").mkdir(parents=True)
        (checkouts / name / "use.lock").touch()
    runner = cache_of_host(tmp_path) / "runner-1"
    runner.mkdir()

    with locked(checkouts / "used" / "use.lock", fcntl.LOCK_SH):
        told = clean(tmp_path, CleanMode.DRY_RUN)
        assert (checkouts / "unused").exists()
        removed = clean(tmp_path, CleanMode.REMOVE)

    assert told == removed
    assert {(one.kind, one.path) for one in removed} == {
        ("checkout", checkouts / "unused"),
        ("runner", runner),
    }
    assert [path.name for path in checkouts.iterdir()] == ["used"]
