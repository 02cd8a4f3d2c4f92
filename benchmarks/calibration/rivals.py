"""The usual ways of timing, each by its own rules: loops and minima, pyperf, pytest-benchmark.

Each times all of one arm, then all of the next one, and compares every arm with the baseline.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

#: Gain beyond which sums of minima, and pytest-benchmark's `min:5%`, call an arm faster.
THRESHOLD = 1.05

LOOP = """
import math, sys, time
import mod
end = time.monotonic() + float(sys.argv[1])
least = [math.inf] * int(sys.argv[2])
while time.monotonic() < end:
    for x in range(len(least)):
        began = time.perf_counter_ns()
        mod.work(x)
        least[x] = min(least[x], time.perf_counter_ns() - began)
print(sum(least))
"""
PYPERF = """
import pyperf
import mod

def work():
    for x in range({tests}):
        mod.work(x)

pyperf.Runner().bench_func("work", work)
"""
PYTEST_BENCHMARK = """
import pytest
import mod

@pytest.mark.parametrize("x", range({tests}))
def test_work(benchmark, x):
    benchmark(mod.work, x)
"""
#: What `pyperf compare_to` says of a difference that it takes for real.
FASTER = re.compile(r": ([0-9.]+)x faster")


@dataclass(frozen=True, kw_only=True, slots=True)
class Said:
    """What a way says of an arm: how many times as fast as the baseline, and whether it calls it faster."""

    gain: float
    is_faster: bool


class Rival(Protocol):
    """A way of timing arms. `needs` names a package that the interpreter must have."""

    needs: str

    @property
    def name(self) -> str:
        """What it is called in the table."""
        ...

    def time(self, root: Path) -> None:
        """Time the arm in a folder, and keep the figures there."""
        ...

    def compare(self, baseline: Path, root: Path) -> Said:
        """Say what the figures of two folders mean."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Loops:
    """Loops for some seconds; the sum over the tests of each one's least time."""

    python: Path
    tests: int
    seconds: float
    name: str = "loops, sums of minima > 5 %"
    needs: str = ""

    def time(self, root: Path) -> None:
        command = [str(self.python), "-c", LOOP, str(self.seconds), str(self.tests)]
        (root / "loops.txt").write_text(output_of(command, root))

    def compare(self, baseline: Path, root: Path) -> Said:
        one, other = (float((folder / "loops.txt").read_text()) for folder in (baseline, root))
        return Said(gain=one / other, is_faster=one / other > THRESHOLD)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pyperf:
    """pyperf's runner with its own defaults, or with options such as `--fast`, and its `compare_to`."""

    python: Path
    tests: int
    options: tuple[str, ...] = ()
    needs: str = "pyperf"

    @property
    def name(self) -> str:
        """What it is called in the table."""
        return f"pyperf {' '.join((*self.options, 'compare_to'))}"

    def time(self, root: Path) -> None:
        (root / "bench_pyperf.py").write_text(PYPERF.format(tests=self.tests))
        (root / "pyperf.json").unlink(missing_ok=True)
        options = ["--quiet", *self.options, "-o", "pyperf.json"]
        output_of([str(self.python), "bench_pyperf.py", *options], root)

    def compare(self, baseline: Path, root: Path) -> Said:
        files = [str(folder / "pyperf.json") for folder in (baseline, root)]
        return of_pyperf(output_of([str(self.python), "-m", "pyperf", "compare_to", *files], root))


@dataclass(frozen=True, kw_only=True, slots=True)
class PytestBenchmark:
    """pytest-benchmark as it comes; the rule is that of its `--benchmark-compare-fail=min:5%`."""

    python: Path
    tests: int
    name: str = "pytest-benchmark, `min:5%`"
    needs: str = "pytest_benchmark"

    def time(self, root: Path) -> None:
        (root / "bench_pytest.py").write_text(PYTEST_BENCHMARK.format(tests=self.tests))
        options = ["-q", "-p", "no:cacheprovider", "--benchmark-only", "--benchmark-json=benchmark.json"]
        output_of([str(self.python), "-m", "pytest", *options, "bench_pytest.py"], root)

    def compare(self, baseline: Path, root: Path) -> Said:
        return of_minima(*(json.loads((f / "benchmark.json").read_text()) for f in (baseline, root)))


def output_of(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])} failed: {(done.stderr or done.stdout)[-500:]}")
    return done.stdout


def of_pyperf(text: str) -> Said:
    """Return what `pyperf compare_to` said; what it takes for no difference it does not call faster."""
    found = FASTER.search(text)
    return Said(gain=float(found[1]) if found else 1.0, is_faster=bool(found))


def of_minima(baseline: Mapping, arm: Mapping) -> Said:
    """Return what two files of pytest-benchmark mean: the sum of the least times of all tests."""
    one, other = (sum(b["stats"]["min"] for b in file["benchmarks"]) for file in (baseline, arm))
    return Said(gain=one / other, is_faster=one / other > THRESHOLD)


def is_false(said: Mapping[str, Said]) -> bool:
    """Return whether any arm of a field without true differences is called faster."""
    return any(one.is_faster for one in said.values())


def is_found(said: Mapping[str, Said], fast: str) -> bool:
    """Return whether one arm is called faster, and no other one more so."""
    best = max(said, key=lambda arm: said[arm].gain)
    return said[fast].is_faster and best == fast
