"""Kill hostile trees of processes at every isolation level, and count who survives.

    python benchmarks/process_trees.py run [--runs 100] [--sure-runs 20] [--minutes 30]
                                           [--levels none,sandbox] [--shapes plain,chain]
                                           [--file process_trees.jsonl]
    python benchmarks/process_trees.py report [--file process_trees.jsonl]

Each run starts one tree (`hostile_trees.py`) and ends it one of two ways, in turn: the evaluator has it
killed, or its main process ends by itself and leaves the others. `--runs` holds below `sandbox`, where
survivors are possible, `--sure-runs` at `sandbox`. Each run is a line of the file; what is there is not run
again, so a campaign can go on where it ended. A level that this machine cannot run is said with its
probe's words.

Exits 1 if anybody survived at `sandbox`, or anywhere without being reported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from hostile_trees import SHAPES, Door, hopper, open_door, program
from tree_levels import LEVELS, Ground

from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher
from codeflash_parallel.result.runtime_protocols import ProcessExit

#: How long a tree may take to come up, and to be gone once the launcher has said that it is.
UP_S = 20.0
GONE_S = 1.0
#: How a tree ends: it is killed, or its main process ends by itself.
WAYS = ("lasts", "ends")

Run = dict[str, Any]
Cell = tuple[str, str]


async def one(launcher: Launcher, ground: Ground, shape: str, level: str, way: str) -> Run:
    """Start a tree, end it, and return who was left when the launcher said that it was over."""
    with open_door() as door:
        root = door.path.parent
        words = (program(shape), str(door.path), way, hopper(root))
        channel = await launcher.open(ground.command(level, root, words))
        if not await _is_up(door, SHAPES[shape][1]):
            raise SystemExit(f"{level} {shape} does not come up: {(await channel.close()).stderr}")
        began = time.perf_counter()
        ended: ProcessExit = await channel.close() if way == "lasts" else await _ended(channel, door)
        told_ms = (time.perf_counter() - began) * 1000
        gone = door.gone(GONE_S)
        gone_ms = (time.perf_counter() - began) * 1000
        left = [] if gone else door.holders()
        named = {int(name.split()[0]) for name in ended.unkillable}
        return {
            "shape": shape,
            "level": level,
            "way": way,
            "told_ms": round(told_ms, 2),
            "gone_ms": round(gone_ms, 2),
            "survived": not gone,
            "survivors": left,
            "reported": bool(gone or ended.unkillable),
            "unnamed": sorted(set(left) - named),
            "leaked": len(ended.leaked),
            "ended": ended.ended.value,
        }


async def _is_up(door: Door, width: int) -> bool:
    with anyio.move_on_after(UP_S):
        while width > 0:
            width -= door.said()
            await anyio.sleep(0.002)
    return width <= 0


async def _ended(channel: Any, door: Door) -> ProcessExit:
    """Let the tree's main process end by itself, and wait until the launcher has dealt with the others."""
    door.end()
    with anyio.fail_after(UP_S):
        await channel.connection.ended.wait()
    return await channel.close()


async def campaign(options: argparse.Namespace, ground: Ground) -> None:
    """Run what is not in the file yet, cell by cell in turn, until the time is over."""
    end = time.monotonic() + 60 * options.minutes
    done = read(options.file)
    async with open_launcher() as launcher:
        with options.file.open("a", encoding="utf-8") as file:
            for shape, level, way in todo(options, done):
                if time.monotonic() > end:
                    print("The time is over; the next call goes on from here.")
                    return
                found = await one(launcher, ground, shape, level, way)
                file.write(json.dumps(found) + "\n")
                file.flush()


def todo(options: argparse.Namespace, done: Sequence[Run]) -> Iterator[tuple[str, str, str]]:
    """Yield the runs that are missing: one of each cell, then the next of each."""
    cells = [(shape, level) for level in options.levels for shape in options.shapes]
    wanted = {cell: options.sure_runs if cell[1] == "sandbox" else options.runs for cell in cells}
    have = {cell: sum((run["shape"], run["level"]) == cell for run in done) for cell in cells}
    for number in range(max(wanted.values(), default=0)):
        for shape, level in cells:
            if have[shape, level] <= number < wanted[shape, level]:
                yield shape, level, WAYS[number % 2]


def read(path: Path) -> list[Run]:
    """Return the runs in a file; a line that was cut off is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def report(done: Sequence[Run]) -> int:
    """Print a table; return 1 if anybody survived where nobody may, or was not reported."""
    print(
        "| level | shape | runs | survivors | reported | killed: median, longest ms | left: named as leaked |"
    )
    print("|---|---|---|---|---|---|---|")
    for level, shape in sorted({(run["level"], run["shape"]) for run in done}):
        print(_row(level, shape, [r for r in done if (r["level"], r["shape"]) == (level, shape)]))
    bad = [r for r in done if r["survived"] and (r["level"] == "sandbox" or not r["reported"])]
    print(
        f"\n{len(done)} runs, {sum(r['survived'] for r in done)} with survivors, {len(bad)} against the rule"
    )
    return 1 if bad else 0


def _row(level: str, shape: str, runs: Sequence[Run]) -> str:
    survived = [r for r in runs if r["survived"]]
    killed = [r["gone_ms"] for r in runs if r["way"] == "lasts"] or [0.0]
    left = [r for r in runs if r["way"] == "ends"]
    named = f"{sum(r['leaked'] > 0 for r in left)} of {len(left)}"
    reported = f"{sum(r['reported'] for r in survived)} of {len(survived)}"
    times = f"{median(killed):.0f}, {max(killed):.0f}"
    return f"| {level} | {shape} | {len(runs)} | {len(survived)} | {reported} | {times} | {named} |"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "report"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--sure-runs", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--levels", type=_list, default=list(LEVELS))
    parser.add_argument("--shapes", type=_list, default=list(SHAPES))
    parser.add_argument("--file", type=Path, default=Path("process_trees.jsonl"))
    return parser.parse_args(words)


def _list(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def main(words: Sequence[str] | None = None) -> int:
    """Run or report."""
    options = arguments(words)
    if options.what == "run":
        with closing(Ground()) as ground:
            refused = {level: words for level in options.levels if (words := ground.refusal_of(level))}
            for level, why in refused.items():
                print(f"{level} is skipped: {why}")
            options.levels = [level for level in options.levels if level not in refused]
            anyio.run(campaign, options, ground)
    return report(read(options.file))


if __name__ == "__main__":
    sys.exit(main())
