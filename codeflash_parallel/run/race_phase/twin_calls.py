"""Twins of the timed calls: made and tried on the baseline by a guest, and dealt out in blocks."""

from __future__ import annotations

import json
import os
import struct
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from codeflash_parallel.check.session.runner_session import RunnerConfig, hashed, run_guest
from codeflash_parallel.process.environment import HASH_SEEDS
from codeflash_parallel.race.plan import CostGroup
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace

#: Before each entry of a file of calls: the lengths of its head and its pickle
#: (`_runner.values.call_files`).
_LENGTHS = struct.Struct(">IQ")
#: Of the process that makes twins, which bounds itself.
_MAKING = ProcessLimits(wall_s=60.0, cpu_s=40.0)
#: Blocks of twins of one group, at most.
_BLOCKS = 2


async def twinned(
    guest: RunnerConfig, workspace: Workspace, groups: Sequence[CostGroup], inputs: Path, path: Path
) -> tuple[CostGroup, ...]:
    """Return groups of captured calls with the twins that can be made.

    Args:
        guest: of the run.
        workspace: the baseline's.
        groups: without twins.
        inputs: file of the calls.
        path: file for the twins; what an earlier process of the run has made is taken as it is.
    """
    if not (found := _made(path)):
        draft = path.with_name("draft")
        calls = [{"calls": list(group.calls)} for group in groups]
        spec = guest.spec("twins", (), inputs=str(inputs), twins=str(draft), groups=calls)
        await run_guest(guest, hashed(workspace, HASH_SEEDS[0]), spec, _MAKING)
        found = _made(draft)
        with suppress(FileNotFoundError):  # it came to nothing: no group has twins
            draft.replace(path)
    members = [[found[call] for call in group.calls if call in found] for group in groups]
    return tuple(replace(group, twins=_blocks(own)) for group, own in zip(groups, members, strict=True))


def _blocks(twins: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the twins of some calls in blocks, as many of each call in each of them."""
    count = min(map(len, twins), default=0)
    size = max(1, count // _BLOCKS)
    starts = range(0, count - size + 1, size)[:_BLOCKS]
    return tuple(tuple(of[v] for v in range(start, start + size) for of in twins) for start in starts)


def _made(path: Path) -> dict[int, list[int]]:
    """Return the twins in a file by their calls, all by their numbers; load none of them."""
    found: dict[int, list[int]] = defaultdict(list)
    with suppress(OSError, ValueError, struct.error), path.open("rb") as file:
        while lengths := file.read(_LENGTHS.size):
            head, size = _LENGTHS.unpack(lengths)
            meta = json.loads(file.read(head))
            found[meta["base"]].append(meta["i"])
            file.seek(size, os.SEEK_CUR)
    return found
