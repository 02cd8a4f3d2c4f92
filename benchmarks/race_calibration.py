"""How often the race is wrong, what it finds and what it costs: recorded, drawn again, live, side by side.

    python benchmarks/race_calibration.py STATE record --minutes 60       # rounds of identical arms
    python benchmarks/race_calibration.py STATE replay --campaigns 2000   # campaigns drawn from them
    python benchmarks/race_calibration.py STATE live --races 60 40 40     # whole races, as witnesses
    python benchmarks/race_calibration.py STATE rivals --campaigns 15     # loops, pyperf, pytest-benchmark
    python benchmarks/race_calibration.py STATE packages                  # ten candidates on real packages
    python benchmarks/race_calibration.py STATE report --write docs/explanation/figures.md

STATE is a folder; whatever is done is kept there as soon as it is done, and each step goes on where it was
ended. `--python` names an interpreter with pytest, numpy, pyperf and pytest-benchmark (the extra `benchmark`
of this project); what needs one that is absent is skipped, and says so. `record` and `live` hold the host's
benchmark token.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random

import anyio
from calibration.campaigns import SCENARIOS, Pool, Scenario, campaign
from calibration.ground import ground, usable
from calibration.kept import Kept, Line
from calibration.live import Contest
from calibration.load import background_load
from calibration.page import with_figures
from calibration.report import figures
from calibration.traces import Cell, Recorder, Traces
from calibration.work import WORKS

from codeflash_parallel.race.plan import RaceStage

#: Seconds until a background load has begun to be one.
SETTLE_S = 2.0

#: Campaigns that are drawn before they are kept.
BATCH = 10

BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}

#: What `--races` counts.
LIVE = ("8 identical", "1.05 alone", "1.03 among 8")


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """Return what is asked for and can be run: one cell at least, or the program ends."""
    works = usable(options.works, options.python)
    if not works:
        sys.exit(f"nothing to do: {options.python} can run none of {', '.join(options.works)}")
    return [
        Cell(work=work, tests=tests, workers=workers)
        for work in works
        for tests in options.tests
        for workers in options.workers
    ]


def record(options: argparse.Namespace) -> None:
    anyio.run(recorded, options)


async def recorded(options: argparse.Namespace) -> None:
    """Record the cell on which the least time has been spent so far, again and again."""
    traces, cells = Traces(options.state / "traces"), cells_of(options)
    spent = {cell: traces.seconds(cell) for cell in cells}
    recorders: dict[tuple[str, int], Recorder] = {}
    async with ground(options.python) as place:
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            cell = min(cells, key=spent.__getitem__)
            key = (cell.work, cell.tests)
            if key not in recorders:
                recorders[key] = await Recorder.on(place.course(f"{cell.work}-{cell.tests}", *key))
            with background_load(cell.workers):
                await anyio.sleep(SETTLE_S if cell.workers else 0)
                layouts = await recorders[key].sit(Random())
            for layout in layouts:
                traces.add(cell, layout)
            spent[cell] += sum(layout.wall_s for layout in layouts)
            print(f"{cell.name}: {spent[cell]:.0f} s in all, load {layouts[-1].load:.1f}", flush=True)


@cache
def pool_of(state: Path, cell: Cell) -> Pool:
    traces = Traces(state / "traces")
    race, confirmation = (traces.layouts(cell, stage) for stage in RaceStage)
    return Pool.of(race, confirmation)


def draw(state: Path, cell: Cell, scenario: Scenario, seeds: range) -> list[Line]:
    """Draw some campaigns; a campaign's seed is its number."""
    pool = pool_of(state, cell)
    names = {"cell": asdict(cell), "scenario": scenario.name}
    drawn = [campaign(pool, scenario.arms, Random(f"{cell.name} {seed}")) for seed in seeds]
    return [{**names, "campaign": found.to_json()} for found in drawn]


def batches(state: Path, cells: list[Cell], campaigns: int) -> Iterator[tuple[Cell, Scenario, range]]:
    """Yield what is still to be drawn: as many of every cell, `campaigns` at least for each load."""
    done = Counter((line["scenario"], Cell(**line["cell"])) for line in Kept(state / "replay.jsonl"))
    for scenario in SCENARIOS:
        for cell in cells:
            beside = sum(other.workers == cell.workers for other in cells)
            start, end = done[scenario.name, cell], -(-campaigns // beside)
            for first in range(start, end, BATCH):
                yield cell, scenario, range(first, min(first + BATCH, end))


def replay(options: argparse.Namespace) -> None:
    """Draw campaigns from the records, on all cores."""
    traces = Traces(options.state / "traces")
    path = options.state / "replay.jsonl"
    if options.anew:
        path.unlink(missing_ok=True)
    kept = Kept(path)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        todo = batches(options.state, traces.cells(), options.campaigns)
        futures = [workers.submit(draw, options.state, *batch) for batch in todo]
        for number, future in enumerate(futures):
            for line in future.result():
                kept.add(line)
            print(f"\r{number + 1} of {len(futures)} batches", end="", flush=True)
    print()


def live(options: argparse.Namespace) -> None:
    anyio.run(raced, options)


async def raced(options: argparse.Namespace) -> None:
    """Hold whole races; the works take turns."""
    kept, cells = Kept(options.state / "live.jsonl"), cells_of(options)
    contests: dict[tuple[str, Cell], Contest] = {}
    async with ground(options.python) as place:
        for name, races in zip(LIVE, options.races, strict=True):
            gains = BY_NAME[name].arms
            done = [line for line in kept.select(scenario=name) if Cell(**line["cell"]) in cells]
            for number in range(len(done), races):
                cell = cells[number % len(cells)]
                if (name, cell) not in contests:
                    course = place.course(f"{name} {cell.name}", cell.work, cell.tests)
                    contests[name, cell] = await Contest.on(course, gains)
                load = os.getloadavg()[0]
                with background_load(cell.workers):
                    held = await contests[name, cell].hold(gains, Random())
                line = {"scenario": name, "cell": asdict(cell), "load": load, "campaign": held.to_json()}
                kept.add(line)
                print(f"{name}, {cell.name}: {held.verdict} {held.named} {held.wall_s:.1f} s", flush=True)


def rivals(options: argparse.Namespace) -> None:
    """Time the same arms by every way, in turn."""
    from calibration.side_by_side import side_by_side, ways

    kept = Kept(options.state / "rivals.jsonl")
    known = ways(options.python, options.count, options.loop_seconds, options.pyperf_options.split())
    about: Line = {
        "work": options.work,
        "tests": options.count,
        "workers": options.background,
        "loop_s": options.loop_seconds,
    }
    done = len(kept.select(way="race", **about))
    for number in range(done, options.campaigns):
        with background_load(options.background):
            found = side_by_side(options.python, options.work, options.count, gain=1.05, rivals=known)
            for line in found:
                kept.add({**about, "load": os.getloadavg()[0], **line})
                print(f"{number + 1}: {line}", flush=True)


def packages(options: argparse.Namespace) -> None:
    """Evaluate ten candidates of real packages, by a serial loop and by one run of ours."""
    from calibration.real import compared

    kept = Kept(options.state / "packages.jsonl")
    for name in options.packages:
        if not kept.select(package=name, loop_s=options.loop_seconds):
            kept.add(compared(name, options.loop_seconds))


def report(options: argparse.Namespace) -> None:
    """Print the figures, or write them into a page."""
    text = figures(options.state)
    if options.write is None:
        print(text)
    else:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_figures(page, text), encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("state", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    steps = parser.add_subparsers(required=True, metavar="STEP")
    add_measured(steps)
    step = steps.add_parser("replay", help=replay.__doc__)
    step.set_defaults(step=replay)
    step.add_argument("--campaigns", type=int, default=2000, help="of each kind, for each background load")
    step.add_argument("--anew", action="store_true", help="forget campaigns drawn from fewer records")
    step = steps.add_parser("report", help=report.__doc__)
    step.set_defaults(step=report)
    step.add_argument("--write", type=Path, help="page of which the end is replaced")
    return parser.parse_args()


def add_measured(steps: argparse._SubParsersAction) -> None:
    step = steps.add_parser("record", help=recorded.__doc__)
    step.set_defaults(step=record)
    step.add_argument("--minutes", type=float, default=60.0)
    add_cells(step, works=[*WORKS], tests=[1, 6, 50], workers=[0, 4])
    step = steps.add_parser("live", help=raced.__doc__)
    step.set_defaults(step=live)
    step.add_argument("--races", nargs=3, type=int, default=[60, 40, 40], metavar="N", help=", ".join(LIVE))
    add_cells(step, works=[work for work in WORKS if work != "python-300ms"], tests=[6], workers=[0])
    step = steps.add_parser("rivals", help=rivals.__doc__)
    step.set_defaults(step=rivals)
    step.add_argument("--campaigns", type=int, default=15)
    step.add_argument("--loop-seconds", type=float, default=10.0)
    step.add_argument("--pyperf-options", default="", help='such as "--fast"; for none, its own defaults')
    step.add_argument("--work", choices=WORKS, default="python-100us")
    step.add_argument("--tests", dest="count", type=int, default=1)
    step.add_argument("--workers", dest="background", type=int, default=0)
    step = steps.add_parser("packages", help=packages.__doc__)
    step.set_defaults(step=packages)
    step.add_argument("--loop-seconds", type=float, default=10.0)
    step.add_argument("--packages", nargs="+", default=["packaging", "more_itertools", "toolz"])


def add_cells(
    step: argparse.ArgumentParser, *, works: list[str], tests: list[int], workers: list[int]
) -> None:
    step.add_argument("--works", nargs="+", choices=WORKS, default=works)
    step.add_argument("--tests", nargs="+", type=int, default=tests)
    step.add_argument("--workers", nargs="+", type=int, default=workers, help="processes of background load")


def main() -> None:
    options = parse()
    try:
        options.step(options)
    except KeyboardInterrupt:
        sys.exit("Ended; the same command goes on from here.")


if __name__ == "__main__":
    main()
