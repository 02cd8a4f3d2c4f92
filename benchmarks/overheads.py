"""What a job of the launcher and a call that is passed by cost: ``python benchmarks/overheads.py``.

Each is timed in turns with the same thing without us, so that a busy machine is busy for both: a job of the
launcher beside a process that `subprocess` starts, a call of a recorded target whose sample is full beside a
call of the function itself. A figure is the median, over the rounds, of the ratio; what each costs by itself
is told beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "tests"), str(HERE / "tests" / "integration")]

from compiled_runner import keep_runners_in  # noqa: E402
from runner_sessions import budget, run_session, write_files  # noqa: E402

from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher  # noqa: E402
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits  # noqa: E402

#: Seconds of each round: with us, without us.
Rounds = list[tuple[float, float]]
_TRUE = ("/bin/true",)
_SUITE = """
import json, time, mod
def cost(function):
    started = time.process_time()
    for n in range({calls}): function(n)
    return (time.process_time() - started) / {calls}
def test_cost():
    cost(mod.f)  # fills the sample
    rounds = [(cost(mod.f), cost(mod.f.__wrapped__)) for _ in range({rounds})]
    with open({out!r}, "w") as file:
        json.dump(rounds, file)
"""


async def jobs(rounds: int) -> Rounds:
    """Time jobs of a launcher in turns with processes of our own."""
    async with open_launcher() as launcher:
        await _job(launcher)
        return [(await _job(launcher), _process()) for _ in range(rounds)]


async def _job(launcher: Launcher) -> float:
    command = ChildCommand(argv=_TRUE, cwd=Path("/"), environment={}, limits=ProcessLimits(wall_s=60))
    begun = time.perf_counter()
    await launcher.run(command)
    return time.perf_counter() - begun


def _process() -> float:
    begun = time.perf_counter()
    subprocess.run(_TRUE, cwd="/", env={}, check=True, capture_output=True)
    return time.perf_counter() - begun


def passed_by(folder: Path, rounds: int, calls: int) -> Rounds:
    """Time calls that are counted and not sampled in turns with calls that nobody counts."""
    keep_runners_in(folder)
    out = folder / "rounds.json"
    suite = _SUITE.format(calls=calls, rounds=rounds, out=str(out))
    root = write_files(folder / "root", {"mod.py": "def f(x): return x\n", "test_it.py": suite})
    run = run_session(folder, root, targets=("mod.py::f",), wrap="capture", budget=budget(50))
    if run.outcomes != {"test_cost": "passed"}:
        sys.exit(run.output)
    return [(ours, plain) for ours, plain in json.loads(out.read_text(encoding="utf-8"))]


def told(name: str, rounds: Rounds) -> str:
    """Return one line: the ratio, and what each costs by itself."""
    ratio = statistics.median(ours / plain for ours, plain in rounds)
    ours, plain = (1e6 * statistics.median(side) for side in zip(*rounds, strict=True))
    return f"{name}: {ratio:.2f} times as long (median of {len(rounds)}): {ours:.3f} beside {plain:.3f} us"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=100_000)
    given = parser.parse_args()
    print(told("a job", anyio.run(jobs, given.rounds)))
    with tempfile.TemporaryDirectory(prefix="overheads-") as folder:
        print(told("a call that is passed by", passed_by(Path(folder), given.rounds, given.calls)))


if __name__ == "__main__":
    main()
