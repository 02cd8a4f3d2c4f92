"""What an isolation level costs a race: equal code against itself, at one level after the other, in turn.

    python benchmarks/race_isolation.py [--levels none,sandbox] [--races 6] [--rounds 12] [--minutes 10]
                                        [--file race_isolation.jsonl]

Each race is a line of the file, with the spread of a round's log-ratio, the baseline's CPU time of a call,
and the wall time of a round. A line that is there is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import anyio
from tree_levels import LEVELS, Ground

from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher
from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import BASELINE, Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race import race
from codeflash_parallel.race.race_result import Raced, RaceFailed
from codeflash_parallel.race.statistics.sequential_test import unit_sd
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox.runner_command import install_runner

#: A benchmark of some 0.2 ms, in objects, strings and a file, which a sandbox might slow.
SOURCE = """
def run():
    with open(__file__) as file:
        words = file.read().split()
    for _ in range(20):
        words = sorted(words, key=lambda word: (len(word), word))[::-1]
    return words
"""
#: Two arms that are the baseline's code: the ratios say what the machine, and nothing else, does.
ARMS = ("a", "b")


def arm(name: str, level: str, folder: Path) -> Arm:
    """Return an arm in a slot of its own."""
    root, private = folder / "cache" / name / "tree", folder / "cache" / name / "private"
    for place in (root, private / "tmp"):
        place.mkdir(parents=True, exist_ok=True)
    (root / "bench.py").write_text(SOURCE, encoding="utf-8")
    policy = IsolationPolicy(level=IsolationLevel(level), cache=str(folder / "cache"))
    workspace = Workspace(
        root=root,
        project=root,
        user_root=folder / "user",
        interpreter=Path(sys.executable),
        private=private,
        environment={"PATH": os.environ["PATH"], "TMPDIR": str(private / "tmp")},
        isolation=policy,
    )
    work = {"path": "bench.py", "name": "run", "source": SOURCE}
    return Arm(
        id=name, workspace=workspace, spec={"callables": [work], "targets": [], "prove": [], "seed": 1}
    )


async def one(launcher: Launcher, level: str, number: int, rounds: int) -> dict[str, Any]:
    """Hold one race and return its figures."""
    with tempfile.TemporaryDirectory(prefix="race-isolation-") as name:
        folder = Path(name)
        runner_dir = install_runner(folder / "cache")
        plan = RacePlan(
            groups=(CostGroup(name="run", ns=10**6, calls=(), tests=("run",)),),
            work=WorkKind.CALLABLE,
            cores=tuple(os.sched_getaffinity(0)),
        )
        plan = replace(plan, max_rounds=rounds)
        bench = RaceEnvironment(launcher=launcher, runner_dir=runner_dir, limits=ProcessLimits(wall_s=60))
        arms = [arm(one, level, folder) for one in ARMS]
        raced = await race(bench, arm("base", level, folder), arms, plan, random=Random(number))
    if isinstance(raced, RaceFailed):
        raise SystemExit(f"{level}: {raced.reason}")
    return {"level": level, "number": number, **figures(raced)}


def figures(raced: Raced) -> dict[str, Any]:
    """Return what a race tells about its own noise and cost."""
    blocks = [
        block
        for round_ in raced.rounds
        for block in round_.blocks
        if block.arm == BASELINE and block.kind is BlockKind.TIMED and block.calls
    ]
    return {
        "rounds": len(raced.rounds),
        "sd": median(unit_sd(raced.tracks[one]) for one in ARMS),
        "bias": median(value for one in ARMS for value in raced.tracks[one].total),
        "call_us": median(block.cpu_ns / block.calls for block in blocks) / 1000,
        "round_ms": raced.round_ns / 1e6,
        "wall_s": raced.wall_ns / 1e9,
    }


async def campaign(options: argparse.Namespace, levels: Sequence[str]) -> None:
    """Hold the races that are not in the file yet, until the time is over."""
    end = time.monotonic() + 60 * options.minutes
    have = {(run["level"], run["number"]) for run in read(options.file)}
    async with open_launcher() as launcher:
        with options.file.open("a", encoding="utf-8") as file:
            for number in range(options.races):
                for level in levels:
                    if (level, number) in have or time.monotonic() > end:
                        continue
                    found = await one(launcher, level, number, options.rounds)
                    file.write(json.dumps(found) + "\n")
                    file.flush()


def read(path: Path) -> list[dict[str, Any]]:
    """Return the races in a file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def report(done: Sequence[dict[str, Any]]) -> None:
    """Print a table of medians."""
    print("| level | races | rounds | sd of a round | bias | CPU time of a call | a round |")
    print("|---|---|---|---|---|---|---|")
    for level in sorted({run["level"] for run in done}):
        runs = [run for run in done if run["level"] == level]
        middle = {name: median(run[name] for run in runs) for name in ("sd", "bias", "call_us", "round_ms")}
        print(
            f"| {level} | {len(runs)} | {sum(run['rounds'] for run in runs)} | {100 * middle['sd']:.2f} % "
            f"| {100 * middle['bias']:+.2f} % | {middle['call_us']:.1f} us | {middle['round_ms']:.0f} ms |"
        )


def main() -> None:
    """Race and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--races", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--file", type=Path, default=Path("race_isolation.jsonl"))
    options = parser.parse_args()
    with closing(Ground()) as ground:
        refused = {level: ground.refusal_of(level) for level in options.levels.split(",")}
    for level, why in refused.items():
        print(f"{level} is skipped: {why}" if why else f"{level} works")
    anyio.run(campaign, options, [level for level, why in refused.items() if not why])
    report(read(options.file))


if __name__ == "__main__":
    main()
