"""What a slot costs: create, stage, audit, discard, close at several sizes of a project; git beside it.

    python benchmarks/slots.py [--sizes 100 1000 7000 20000] [--rounds 5] [--folder DIR]

Milliseconds, medians of the rounds; both ways are measured in turn, in the same folder. `stage` writes a
candidate's edit of one module; a "run" then leaves what tests leave (bytecode, temporary files, one file of
the tree changed); `audit` names what changed; `discard` makes the slot the snapshot again and verifies it; an
`idle discard` is that of a slot where only the staged file changed; `sweep` removes what was put out of the
way, when the next one has the slot already. With git: write the file, look with `git status --ignored`, then
`git reset --hard && git clean -fdxq`, which does not know of changes that keep a file's size and time.

A line for each way in which slots can be made here: a worktree written by git, clones that share
blocks. At full size: two to three minutes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.result.candidate_model import Edit, digest_of
from codeflash_parallel.workspace.cleanup import SlotOwner
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.slot.slot import Slot
from codeflash_parallel.workspace.slot.slot_factory import SlotFactory
from codeflash_parallel.workspace.slot.slot_files import SlotCost
from codeflash_parallel.workspace.snapshot.mirror import open_mirror
from codeflash_parallel.workspace.snapshot.snapshot import SnapshotRequest

#: Modules in one folder, as a large project has them.
A_FOLDER = 20
STEPS = ("create", "stage", "audit", "discard", "sweep", "idle discard", "close")
GIT = ("git", "-c", "user.name=b", "-c", "user.email=b@localhost", "-c", "core.hooksPath=/dev/null")


def git(*arguments: str, at: Path) -> None:
    subprocess.run((*GIT, *arguments), cwd=at, check=True, capture_output=True)


def make_repository(folder: Path, files: int) -> Path:
    root = folder / "project"
    for number in range(files):
        place = root / f"part{number // (A_FOLDER * 20)}" / f"p{number // A_FOLDER}" / f"module{number}.py"
        if number % A_FOLDER == 0:
            place.parent.mkdir(parents=True)
        place.write_text(f"value = {number}\n" + "x = 1\n" * (number * 7919 % 900), encoding="ascii")
    git("init", "-q", at=root)
    git("add", "-A", at=root)
    git("commit", "-qm", "first", at=root)
    return root


class Clock:
    """Collects milliseconds by step."""

    def __init__(self) -> None:
        self.ms: dict[str, list[float]] = defaultdict(list)

    def time(self, step: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        work()
        self.ms[step].append(1e3 * (time.perf_counter() - began))

    def median(self, step: str) -> str:
        return f"{statistics.median(self.ms[step]):.1f}" if self.ms[step] else "-"

    async def atime(self, step: str, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        self.ms[step].append(1e3 * (time.perf_counter() - began))


def leave_traces(root: Path, private: Path) -> None:
    """What a test run leaves."""
    cached = root / "part0" / "p0" / "__pycache__"
    cached.mkdir(exist_ok=True)
    for number in range(A_FOLDER):
        (cached / f"module{number}.cpython-311.pyc").write_bytes(b"\0" * 4000)
    (root / "part0" / "p0" / "module1.py").write_text("changed = 1\n", encoding="ascii")
    (root / "new.txt").write_bytes(b"new")
    for number in range(10):
        (private / f"test{number}").mkdir(exist_ok=True)
        (private / f"test{number}" / "file").write_bytes(b"x" * 100)


CHANGED = "part0/p0/module0.py"


async def ours(clock: Clock, maker: SlotFactory, pristine: Slot | None, number: int) -> Slot:
    made: list[Slot] = []
    await clock.atime(
        "create", lambda: anyio.to_thread.run_sync(lambda: made.append(maker.make(number, pristine)))
    )
    (slot,) = made
    old = maker.mirror.read(maker.snapshot, CHANGED)
    assert old is not None
    edits = [Edit(path=CHANGED, old_digest=digest_of(old), new=b"value = -1\n")]
    await clock.atime("stage", partial(slot.stage, edits))
    leave_traces(slot.workspace.root, slot.workspace.private / "tmp")
    await clock.atime("audit", slot.audit)
    await clock.atime("discard", slot.discard)
    await clock.atime("sweep", slot.sweep)
    await slot.stage(edits)
    await clock.atime("idle discard", slot.discard)
    remove = partial(maker.remove, slot)
    await clock.atime("close", lambda: anyio.to_thread.run_sync(remove))
    return slot


def gits(clock: Clock, root: Path, folder: Path, number: int) -> None:
    tree, private = folder / f"git{number}", folder / f"private{number}"
    private.mkdir()
    clock.time("create", lambda: git("worktree", "add", "--detach", str(tree), "HEAD", at=root))
    clock.time("stage", lambda: (tree / CHANGED).write_bytes(b"value = -1\n"))
    leave_traces(tree, private)

    def restore() -> None:
        git("reset", "-q", "--hard", at=tree)
        git("clean", "-fdxq", at=tree)

    clock.time("audit", lambda: git("status", "--porcelain", "--ignored", at=tree))
    clock.time("discard", restore)
    (tree / CHANGED).write_bytes(b"value = -1\n")
    clock.time("idle discard", restore)
    clock.time("close", lambda: git("worktree", "remove", "--force", str(tree), at=root))


async def measure(files: int, rounds: int, folder: Path) -> None:
    root = make_repository(folder, files)
    clocks: dict[str, Clock] = defaultdict(Clock)
    costs: dict[str, SlotCost] = {}
    async with open_mirror(folder / "cache", find_repository(root)) as mirror:
        maker = SlotFactory(
            mirror=mirror,
            snapshot=await mirror.snapshot(SnapshotRequest()),
            run_id="benchmark",
            interpreter=Path(sys.executable),
            environment_for=lambda _private, _number: {},
        )
        owner = SlotOwner(mirror.home, maker.run_id)
        first = maker.make(0)
        ways = {"worktree": None, "reflink": first} if maker.can_share() else {"worktree": None}
        for number in range(1, rounds + 1):
            for name, pristine in ways.items():
                costs[name] = (await ours(clocks[name], maker, pristine, number)).cost
            gits(clocks["git"], root, folder, number)
        maker.remove(first)
        owner.release()
    show(files, clocks, costs)


def show(files: int, clocks: Mapping[str, Clock], costs: Mapping[str, SlotCost]) -> None:
    print(f"\n{files} files, load {os.getloadavg()[0]:.2f}")
    print("          " + "".join(f"{step:>13}" for step in STEPS) + "          MiB       inodes")
    for name, clock in clocks.items():
        times = "".join(f"{clock.median(step):>13}" for step in STEPS)
        cost = costs.get(name)
        print(
            f"  {name:8}{times}" + (f"{cost.bytes / 2**20:13.1f}{cost.inodes:13}" if cost else ""), flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 1000, 7000, 20000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where to work: the file system decides what can be shared")
    options = parser.parse_args()
    cores, python = len(os.sched_getaffinity(0)), sys.version.split()[0]
    print(
        f"cores {cores}, load {os.getloadavg()[0]:.2f}, Python {python}; "
        f"milliseconds, medians of {options.rounds}"
    )
    for files in options.sizes:
        with tempfile.TemporaryDirectory(prefix="slots-", dir=options.folder) as name:
            anyio.run(measure, files, options.rounds, Path(name))


if __name__ == "__main__":
    main()
