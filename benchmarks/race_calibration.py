"""How often the race is wrong, what it finds and what it costs: recorded, replayed, live, and side by side.

    python benchmarks/race_calibration.py STATE record --minutes 60       # rounds of identical arms
    python benchmarks/race_calibration.py STATE replay --campaigns 2000   # campaigns drawn from them
    python benchmarks/race_calibration.py STATE live --races 60 40 40     # whole races, as witnesses
    python benchmarks/race_calibration.py STATE rivals --campaigns 15     # loops, pyperf, pytest-benchmark
    python benchmarks/race_calibration.py STATE packages                  # ten candidates on real packages
    python benchmarks/race_calibration.py STATE report --write docs/explanation/race.md

STATE is a folder; whatever is done is kept there as soon as it is done, and each step goes on where it was
ended. `--python` names an interpreter with numpy, pyperf and pytest-benchmark (`pip install -e '.[benchmark]'`);
what needs one that is absent is skipped, and the report counts it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import anyio
from calibration.load import background_load
from calibration.traces import Cell, Recorder, Traces
from calibration.work import LIMITS, WORKS, Course, has_package

from codeflash_parallel.benchmark.unit import Bench
from codeflash_parallel.process.guest import install_guest
from codeflash_parallel.process.launcher import open_launcher
from codeflash_parallel.process.token import hold_benchmark_token

#: Seconds to wait until no other benchmark has the host.
TOKEN_S = 3600.0

#: Seconds until the load average means something once the background has started to work.
SETTLE_S = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Where everything is run: a scratch folder, processes, an interpreter."""

    folder: Path
    bench: Bench
    interpreter: Path

    def course(self, label: str, work: str, tests: int) -> Course:
        return Course(
            folder=self.folder / label,
            work=WORKS[work],
            tests=tests,
            bench=self.bench,
            interpreter=self.interpreter,
        )


@asynccontextmanager
async def ground(interpreter: Path) -> AsyncIterator[Ground]:
    """Hold the host's benchmark token and a launcher."""
    with tempfile.TemporaryDirectory(prefix="race-calibration-") as name:
        async with hold_benchmark_token(TOKEN_S), open_launcher() as runner:
            bench = Bench(runner=runner, guest_dir=install_guest(Path(name) / "cache"), limits=LIMITS)
            yield Ground(folder=Path(name), bench=bench, interpreter=interpreter)


def usable(works: Sequence[str], interpreter: Path) -> list[str]:
    """Return the works whose packages the interpreter has; say which are skipped."""
    found = [name for name in works if has_package(interpreter, WORKS[name].needs)]
    for name in set(works) - set(found):
        print(f"skipped: {name}: {interpreter} has no {WORKS[name].needs}")
    return found


async def record(options: argparse.Namespace) -> None:
    """Record the cell on which the least time has been spent so far, again and again."""
    traces = Traces(options.state / "traces")
    works = usable(options.works, options.python)
    cells = [
        Cell(work=work, tests=tests, workers=workers)
        for work in works
        for tests in options.tests
        for workers in options.workers
    ]
    spent = {cell: traces.seconds(cell) for cell in cells}
    end = time.monotonic() + 60 * options.minutes
    recorders: dict[tuple[str, int], Recorder] = {}
    async with ground(options.python) as place:
        while time.monotonic() < end:
            cell = min(cells, key=spent.__getitem__)
            key = (cell.work, cell.tests)
            if key not in recorders:
                recorders[key] = await Recorder.on(place.course(f"{cell.work}-{cell.tests}", *key))
            with background_load(cell.workers):
                time.sleep(SETTLE_S if cell.workers else 0)
                layouts = await recorders[key].sit(Random())
            for layout in layouts:
                traces.add(cell, layout)
            spent[cell] += sum(layout.wall_s for layout in layouts)
            print(f"{cell.name}: {spent[cell]:.0f} s in all, load {layouts[-1].load:.1f}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0],
        epilog=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("state", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("record")
    step.set_defaults(step=record)
    step.add_argument("--minutes", type=float, default=60.0)
    step.add_argument("--works", nargs="+", choices=WORKS, default=[*WORKS])
    step.add_argument("--tests", nargs="+", type=int, default=[1, 6, 50])
    step.add_argument("--workers", nargs="+", type=int, default=[0, 4], help="processes of background load")
    return parser.parse_args()


def main() -> None:
    options = parse()
    anyio.run(options.step, options)


if __name__ == "__main__":
    main()
