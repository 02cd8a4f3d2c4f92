"""A run in a process of its own: says on stdout how far it is, and ends when its stdin does.

Arguments: the user's root, the cache, the run's id, "step" or "straight".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio

from codeflash_parallel.result.candidate_model import Edit
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.slot_pool import open_pool
from codeflash_parallel.workspace.snapshot.mirror import open_mirror
from codeflash_parallel.workspace.snapshot.snapshot import SnapshotRequest


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())  # in one piece: slots are made by several threads
    if sys.argv[4] == "step":
        os.read(0, 1)  # without a buffer: one thread would take the word of another


def environment_for(private: Path, number: int) -> Mapping[str, str]:
    say(f"slot {number}")
    return {}


async def main(root: Path, cache: Path, run_id: str) -> None:
    async with open_mirror(cache, find_repository(root)) as mirror:
        say("mirror")
        snapshot = await mirror.snapshot(SnapshotRequest())
        say("snapshot")
        async with (
            open_pool(
                mirror,
                snapshot,
                size=2,
                interpreter=Path(sys.executable),
                run_id=run_id,
                environment_for=environment_for,
            ) as pool,
            pool.acquire() as slot,
        ):
            await slot.stage([Edit(path="staged.py", old_digest=None, new=b"")])
            (slot.workspace.root / "junk").write_bytes(b"")
            say("using")
            while os.read(0, 1):
                pass


anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
