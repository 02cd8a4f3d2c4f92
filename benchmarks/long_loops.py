"""Campaigns of a thousand comparisons, drawn from recorded rounds and decided by the race's own modules.

    python benchmarks/race_calibration.py STATE record --minutes 15    # the records, once
    python benchmarks/long_loops.py STATE false --campaigns 300        # identical code: is anything kept?
    python benchmarks/long_loops.py STATE power --draws 200            # gains at k = 1, 10, 100, 1,000
    python benchmarks/long_loops.py STATE report

A campaign ends with its first false keep, or after `--comparisons`. What is done is kept in STATE.
"""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

from calibration.campaigns import Pool, campaign
from calibration.exact import Rate
from calibration.kept import Kept
from calibration.traces import Traces

from codeflash_parallel.race.plan import RaceStage
from codeflash_parallel.run.campaign import share_of

#: Comparisons before which power is told, and true speedups of the one candidate.
NUMBERS, GAINS = (1, 10, 100, 1000), (1.03, 1.05, 1.10)
#: Draws of one task.
BATCH = 20


@cache
def pools(state: Path) -> tuple[tuple[str, Pool], ...]:
    traces = Traces(state / "traces")
    found = []
    for cell in traces.cells():
        race, confirmation = (traces.layouts(cell, stage) for stage in RaceStage)
        found.append((cell.name, Pool.of(race, confirmation)))
    return tuple(found)


def comparison(pool: Pool, gain: float, number: int, random: Random) -> str:
    """Draw one comparison of a campaign that has kept nothing; return its verdict."""
    plan = replace(pool.plan, campaign_share=share_of(number, 0))
    return campaign(replace(pool, plan=plan), {"arm0": gain}, random).verdict


def identical(state: Path, seed: int, comparisons: int) -> dict[str, object]:
    """Draw one campaign of identical code, each comparison on another workload."""
    random = Random(f"identical {seed}")
    for number in range(1, comparisons + 1):
        name, pool = random.choice(pools(state))
        verdict = comparison(pool, 1.0, number, random)
        if verdict in {"winner", "tie"}:
            return {"kind": "false", "seed": seed, "comparisons": comparisons, "kept_at": number, "on": name}
    return {"kind": "false", "seed": seed, "comparisons": comparisons, "kept_at": 0}


def found(state: Path, number: int, gain: float, seeds: range) -> dict[str, object]:
    """Draw comparisons with a true gain; count those that are found, and those that were too noisy."""
    verdicts = []
    for seed in seeds:
        random = Random(f"power {number} {gain} {seed}")
        verdicts.append(comparison(random.choice(pools(state))[1], gain, number, random))
    counts = {"draws": len(verdicts), "found": sum(v in {"winner", "tie"} for v in verdicts)}
    return {"kind": "power", "number": number, "gain": gain, "first": seeds.start, **counts}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", type=Path)
    parser.add_argument("step", choices=["false", "power", "report"])
    parser.add_argument("--campaigns", type=int, default=300)
    parser.add_argument("--comparisons", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=200, help="of each gain at each k")
    options = parser.parse_args()
    kept = Kept(options.state / "long_loops.jsonl")
    if options.step == "report":
        report(kept)
        return
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        if options.step == "false":
            done = {line["seed"] for line in kept.select(kind="false", comparisons=options.comparisons)}
            todo = [
                workers.submit(identical, options.state, seed, options.comparisons)
                for seed in range(options.campaigns)
                if seed not in done
            ]
        else:
            known = {(line["number"], line["gain"], line["first"]) for line in kept.select(kind="power")}
            todo = [
                workers.submit(found, options.state, number, gain, range(first, first + BATCH))
                for first in range(0, options.draws, BATCH)
                for number in NUMBERS
                for gain in GAINS
                if (number, gain, first) not in known
            ]
        for count, future in enumerate(todo, start=1):
            kept.add(future.result())
            print(f"\r{count} of {len(todo)}", end="", flush=True)
    print()
    report(kept)


def report(kept: Kept) -> None:
    """Print rates with their exact 95 % intervals."""
    for length in sorted({line["comparisons"] for line in kept.select(kind="false")}):
        campaigns = kept.select(kind="false", comparisons=length)
        rate = Rate.of(bool(line["kept_at"]) for line in campaigns)
        print(f"campaigns of {length:,} comparisons of identical code that kept anything: {rate}")
    print("| true gain | " + " | ".join(f"k = {number:,}" for number in NUMBERS) + " |")
    print("| --- |" + " --- |" * len(NUMBERS))
    for gain in GAINS:
        rates = [found_at(kept, number, gain) for number in NUMBERS]
        print(f"| {gain:.2f}x | " + " | ".join(map(str, rates)) + " |")


def found_at(kept: Kept, number: int, gain: float) -> Rate:
    lines = kept.select(kind="power", number=number, gain=gain)
    return Rate(hits=sum(line["found"] for line in lines), tries=sum(line["draws"] for line in lines))


if __name__ == "__main__":
    main()
