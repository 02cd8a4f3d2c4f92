"""What a slot costs: create, stage, audit, discard, close at several sizes of a project; git beside it.

    python benchmarks/slots.py [--sizes 100 1000 7000 20000] [--rounds 5] [--folder DIR]

Milliseconds, medians of the rounds; both ways are measured in turn, in the same folder. `stage` writes a
candidate's edit of one module; a "run" then leaves what tests leave (bytecode, temporary files, one file of
the tree changed); `audit` names what changed; `discard` makes the slot the snapshot again and verifies it; an
`idle discard` is that of a slot where only the staged file changed. With git: write the file, look with
`git status --ignored`, then `git reset --hard && git clean -fdxq`, which does not know of changes that keep a
file's size and time.
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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from codeflash_parallel.model.candidate import Edit, digest_of
from codeflash_parallel.worktrees.maker import SlotMaker
from codeflash_parallel.worktrees.mirror import Mirror, open_mirror
from codeflash_parallel.worktrees.owner import Owner
from codeflash_parallel.worktrees.repository import find_repository
from codeflash_parallel.worktrees.slot import Slot
from codeflash_parallel.worktrees.snapshot import Snapshot, SnapshotRequest

#: Modules in one folder, as a large project has them.
A_FOLDER = 20
STEPS = ("create", "stage", "audit", "discard", "idle discard", "close")
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


async def ours(clock: Clock, maker: SlotMaker, mirror: Mirror, snapshot: Snapshot, number: int) -> Slot:
    made: list[Slot] = []
    make = partial(maker.make, number)
    await clock.atime("create", lambda: anyio.to_thread.run_sync(lambda: made.append(make())))
    (slot,) = made
    old = mirror.read(snapshot, CHANGED)
    assert old is not None
    edits = [Edit(path=CHANGED, old_digest=digest_of(old), new=b"value = -1\n")]
    await clock.atime("stage", partial(slot.stage, edits))
    leave_traces(slot.workspace.root, slot.workspace.private / "tmp")
    await clock.atime("audit", slot.audit)
    await clock.atime("discard", slot.discard)
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
    own, plain = Clock(), Clock()
    kinds = set()
    async with open_mirror(folder / "cache", find_repository(root)) as mirror:
        snapshot = await mirror.snapshot(SnapshotRequest())
        maker = SlotMaker(
            mirror=mirror,
            snapshot=snapshot,
            run_id="benchmark",
            interpreter=Path(sys.executable),
            environment_for=lambda _private, _number: {},
        )
        owner = Owner(mirror.home, maker.run_id)
        for number in range(1, rounds + 1):
            slot = await ours(own, maker, mirror, snapshot, number)
            with suppress(AttributeError):
                kinds.add(f"{slot.kind}, {slot.cost.bytes / 2**20:.1f} MiB, {slot.cost.inodes} inodes")
            gits(plain, root, folder, number)
        owner.release()
    show(files, {"ours": own.ms, "git": plain.ms}, "; ".join(sorted(kinds)))


def show(files: int, ways: Mapping[str, Mapping[str, Sequence[float]]], note: str) -> None:
    print(f"\n{files} files ({note}), load {os.getloadavg()[0]:.2f}")
    print("          " + "".join(f"{step:>14}" for step in STEPS))
    for name, steps in ways.items():
        print(
            f"  {name:8}" + "".join(f"{statistics.median(steps[step]):14.1f}" for step in STEPS), flush=True
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
