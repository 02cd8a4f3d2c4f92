"""How often `gate` is red without a reason, and how often it finds a planted slowdown.

    python benchmarks/regression_gate.py STATE record --gates 3     # the base against itself, whole budgets
    python benchmarks/regression_gate.py STATE draw --gates 300     # gates drawn from that, real decisions
    python benchmarks/regression_gate.py STATE live --gates 40 20 20    # whole gates: +0, +5 and +10 %
    python benchmarks/regression_gate.py STATE report

STATE is a folder: what is done is kept there at once, and each step goes on where it was ended. A slowdown is
planted as more turns of a loop in a benchmarked function. `--workers` adds background load. Drawn gates take
sets of processes with replacement, and exchange base and head by lot: their code is the same.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import log1p
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import anyio

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from calibration.exact import Rate  # noqa: E402
from calibration.kept import Kept  # noqa: E402
from calibration.load import background_load  # noqa: E402

from codeflash_parallel.config.environment import QUIET_VARIABLE  # noqa: E402
from codeflash_parallel.config.settings import Settings  # noqa: E402
from codeflash_parallel.gate import gate_race  # noqa: E402
from codeflash_parallel.gate.regression_gate import GateRequest, gate  # noqa: E402
from codeflash_parallel.race.plan import NULL  # noqa: E402
from codeflash_parallel.race.statistics.slowdown_test import Change, GateRules, decide  # noqa: E402

BUDGET_S = 60.0
PLANTED = (0.0, 0.05, 0.10)

CODE = """
def loop(turns={turns}):
    total = 0
    for i in range(turns):
        total += i & 3
    return total


def allocate():
    return [{{"number": i, "text": str(i)}} for i in range(2_000)]


def words():
    return sorted("one two three four five".replace("o", str(i)) for i in range(1_500))
"""
BENCHMARKS = """
import shop


def run():
    shop.loop()


def test_loop(benchmark):
    benchmark(shop.loop)


def test_allocate(benchmark):
    benchmark(shop.allocate)


def test_words(benchmark):
    benchmark(shop.words)
"""
CONFIGURATION = '[tool.pytest.ini_options]\naddopts = "-p pytest_benchmark.plugin"\n'
GIT = ("git", "-c", "user.name=gate", "-c", "user.email=gate@localhost", "-c", "init.defaultBranch=main")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What is raced; a slowdown is planted in its first benchmark."""

    turns: int
    benchmarks: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


CALLABLE = ("test_speed.py::run",)
WORKS = {
    "one callable of 0.1 ms": Work(turns=3_500, benchmarks=CALLABLE),
    "three pytest-benchmark tests, one slower": Work(turns=3_500, tests=("test_speed.py",)),
    "one callable of 80 ms": Work(turns=2_500_000, benchmarks=CALLABLE),
}


def repository(folder: Path, work: Work) -> Path:
    """Make a repository with a branch for each slowdown."""
    if folder.exists():
        return folder
    folder.mkdir(parents=True)
    subprocess.run([*GIT, "init", "-q"], cwd=folder, check=True)
    (folder / "test_speed.py").write_text(BENCHMARKS)
    (folder / "pyproject.toml").write_text(CONFIGURATION)
    for planted in (None, *PLANTED):
        if planted is not None:
            subprocess.run([*GIT, "checkout", "-q", "-B", name_of(planted), "main"], cwd=folder, check=True)
        turns = work.turns * (1 + (planted or 0))
        (folder / "shop.py").write_text(CODE.format(turns=round(turns)))
        (folder / "README").write_text(f"{planted}")
        subprocess.run([*GIT, "add", "-A"], cwd=folder, check=True)
        subprocess.run([*GIT, "commit", "-q", "-m", f"{planted}"], cwd=folder, check=True)
    return folder


def name_of(planted: float) -> str:
    return f"slower-{100 * planted:.0f}"


async def held(state: Path, name: str, planted: float, python: str) -> Any:
    work = WORKS[name]
    place = repository(state / "repositories" / name.replace(" ", "-").replace(",", ""), work)
    settings = Settings(cache_dir=str(state / "cache"), python=python, tests=work.tests)
    request = GateRequest(base="main", head=name_of(planted), benchmarks=work.benchmarks, budget_s=BUDGET_S)
    return await gate(place, settings, request)


class Recorder(gate_race.GateLook):
    """A look that decides nothing, and keeps what was measured and when."""

    made: Recorder

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Recorder.made = self

    def __call__(self, *arguments: Any) -> Any:
        super().__call__(*arguments)
        return arguments[0]


def record(options: argparse.Namespace) -> None:
    kept = Kept(options.state / "records.jsonl")
    with _looked_at_by(Recorder):
        for number in range(options.gates):
            for name in options.works:
                if len(kept.select(work=name)) > number:
                    continue
                began, load = time.monotonic(), os.getloadavg()[0]
                with background_load(options.workers):
                    anyio.run(held, options.state, name, 0.0, options.python)
                look = Recorder.made
                assert look.taken is not None
                lanes = {
                    arm: [list(lane.values()) for lane in look.taken.lanes(arm)] for arm in ("head", NULL)
                }
                seconds = BUDGET_S / max(1, look.layouts)
                kept.add({"work": name, "load": load, "layout_s": seconds, "lanes": lanes})
                print(
                    f"{name}: {look.layouts} sets, {time.monotonic() - began:.0f} s, load {load:.1f}",
                    flush=True,
                )


@contextmanager
def _looked_at_by(look: type) -> Iterator[None]:
    """Put another look in the place of the gate's while the block lasts."""
    own, gate_race.GateLook = gate_race.GateLook, look
    try:
        yield
    finally:
        gate_race.GateLook = own


def drawn(lines: list[dict[str, Any]], planted: float, random: Random) -> tuple[str, float]:
    """Return the verdict of one gate, and after how many seconds."""
    line = random.choice(lines)
    rows = [*zip(*line["lanes"]["head"], strict=True)]
    most = int(BUDGET_S / line["layout_s"])
    lanes: list[dict[int, float]] = [{} for _ in rows[0]]
    decision = None
    for layout in range(most):
        sign = random.choice((-1, 1))
        for number, value in enumerate(random.choice(rows)):
            lanes[number][layout] = sign * value - (log1p(planted) if number == 0 else 0.0)
        decision = decide(lanes, GateRules())
        if decision.is_final:
            return decision.verdict.value, line["layout_s"] * (layout + 1)
    return (decision.verdict.value if decision else Change.TOO_NOISY.value), BUDGET_S


def draw(options: argparse.Namespace) -> None:
    records, kept = Kept(options.state / "records.jsonl"), Kept(options.state / "drawn.jsonl")
    for name in options.works:
        lines = records.select(work=name)
        for planted in PLANTED:
            done = len(kept.select(work=name, planted=planted))
            for number in range(done, options.gates):
                verdict, seconds = drawn(lines, planted, Random(f"{name} {planted} {number}"))
                kept.add({"work": name, "planted": planted, "verdict": verdict, "seconds": seconds})


def live(options: argparse.Namespace) -> None:
    """Hold whole gates; slowdowns and works take turns."""
    kept = Kept(options.state / "live.jsonl")
    wanted = dict(zip(PLANTED, options.gates, strict=True))
    for number in range(max(options.gates)):
        for planted, gates in wanted.items():
            name = options.works[number % len(options.works)]
            if number >= gates or len(kept.select(planted=planted)) > number:
                continue
            load = os.getloadavg()[0]
            with background_load(options.workers):
                found = anyio.run(held, options.state, name, planted, options.python)
            line = {
                "work": name,
                "planted": planted,
                "load": max(load, *found.load),
                "seconds": found.seconds,
            }
            kept.add({**line, "verdict": found.verdict.value, "layouts": found.layouts, "why": found.why})
            print(
                f"{name} +{planted:.0%}: {found.verdict.value} {found.seconds:.0f} s, load {load:.1f}",
                flush=True,
            )


def report(options: argparse.Namespace) -> None:
    """Print the table."""
    print(f"{len(os.sched_getaffinity(0))} cores, budget {BUDGET_S:.0f} s, Python {sys.version.split()[0]}\n")
    print("| gates | work | planted | gates | red | green | too noisy | seconds, median | load |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    records = Kept(options.state / "records.jsonl")
    for kind in ("drawn", "live"):
        lines = [*Kept(options.state / f"{kind}.jsonl")]
        for planted in PLANTED:
            for name in (*WORKS, ""):
                some = [o for o in lines if o["planted"] == planted and (not name or o["work"] == name)]
                if not some:
                    continue
                loads = [
                    o["load"] for o in (records if kind == "drawn" else some) if not name or o["work"] == name
                ]
                print(row(kind, name or "all", planted, some, loads))


def row(kind: str, name: str, planted: float, lines: list[dict[str, Any]], loads: list[float]) -> str:
    counts, count = Counter(line["verdict"] for line in lines), len(lines)
    red = str(Rate(hits=counts["slower"], tries=count))
    green = counts["not_slower"] + counts["faster"]
    seconds = median(line["seconds"] for line in lines)
    load = f"{min(loads):.1f} to {max(loads):.1f}"
    cells = (kind, name, f"+{planted:.0%}", count, red, green, counts["too_noisy"], f"{seconds:.0f}", load)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("state", type=Path)
    steps = parser.add_subparsers(required=True)
    for step, gates in ((record, 3), (draw, 300), (live, [40, 20, 20]), (report, 0)):
        one = steps.add_parser(step.__name__)
        one.set_defaults(step=step)
        one.add_argument("--gates", type=int, nargs=3 if step is live else None, default=gates)
        one.add_argument("--works", nargs="+", choices=list(WORKS), default=list(WORKS))
        one.add_argument("--workers", type=int, default=0)
        one.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    options.state = options.state.resolve()
    quiet = options.state / "quiet"
    quiet.mkdir(parents=True, exist_ok=True)
    # The rest of the machine is the load; plugins of this project's developers are not what is timed.
    os.environ |= {QUIET_VARIABLE: str(quiet), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options.step(options)


if __name__ == "__main__":
    main()
