"""What the gate's canaries and seals cost: the same check with them and without, side by side.

A project whose tests take about two seconds is checked again and again, in forks of a warm server and in new
processes; the gate's parts are switched off from outside (there is no such option). CPU time is the figure to
look at where the machine does other things, too.
Usage: ``python benchmarks/gate.py [--pairs 15] [--seconds 2.0] [--tests 20]``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest import mock

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/integration"))

from check_lab import CheckLab, SomeServers, open_check_lab
from compiled_runner import keep_runners_in

from codeflash_parallel.check.dispatch import run_dispatch
from codeflash_parallel.check.dispatch.fork_points import ForkPoint
from codeflash_parallel.check.integrity.canaries import CanaryPlace, RunSecrets
from codeflash_parallel.check.session import runner_session

_TESTS = """
import math
import time
import unittest

import pytest
from shop.sums import total

@pytest.mark.parametrize("number", range({tests}))
def test_many(number):
    time.sleep({each})
    assert total([number, 1]) == number + 1
    assert math.isclose(total([0.5]), 0.5)
    assert total([0.5]) == pytest.approx(0.5)
    with pytest.raises(TypeError):
        total(["x"])

class TestTotals(unittest.TestCase):
    def test_pair(self):
        self.assertEqual(total([1, 2]), 3)
        self.assertTrue(total([1]))
"""


@contextmanager
def _without_seals() -> Iterator[None]:
    """Start runners without a key: nothing is sealed and no seal is looked at."""

    def plain(_workspace: object, spec: Mapping[str, object], _canaries: object) -> tuple[object, RunSecrets]:
        return dict(spec), RunSecrets()

    with (
        mock.patch.object(run_dispatch, "arm", plain),
        mock.patch.object(runner_session, "broken_seal", return_value=False),
    ):
        yield


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one check took."""

    wall_ms: float
    cpu_ms: float
    gate_ms: float


async def _cost(lab: CheckLab, servers: SomeServers | None, places: tuple[CanaryPlace, ...]) -> Cost:
    baseline = replace(lab.baseline, places=places)
    began = perf_counter()
    outcome = await lab.check(
        lab.body("result = value + result"), servers, baseline=baseline, compare_values=False
    )
    wall_ms = 1e3 * (perf_counter() - began)
    assert outcome.code == "OK", outcome.reason
    return Cost(wall_ms=wall_ms, cpu_ms=outcome.used.cpu_ns / 1e6, gate_ms=outcome.gate_ns / 1e6)


def _tell(name: str, pairs: Sequence[tuple[Cost, Cost]]) -> None:
    wall_ms = median(off.wall_ms for _, off in pairs)
    more_wall = [on.wall_ms - off.wall_ms for on, off in pairs]
    more_cpu = [on.cpu_ms - off.cpu_ms for on, off in pairs]
    print(
        f"{name}: {wall_ms:.0f} ms without; with, {median(more_wall):+.1f} ms of wall time "
        f"({min(more_wall):+.1f} to {max(more_wall):+.1f}; {100 * median(more_wall) / wall_ms:.1f} %), "
        f"{median(more_cpu):+.1f} ms of CPU time ({min(more_cpu):+.1f} to {max(more_cpu):+.1f}); "
        f"gate_ms {median(on.gate_ms for on, _ in pairs):.1f}; medians of {len(pairs)} pairs"
    )


async def measure(pairs: int, seconds: float, tests: int) -> None:
    """Measure pairs of checks and print one line for each way to run them."""
    files = {"tests/test_styles.py": _TESTS.format(tests=tests, each=seconds / tests)}
    with tempfile.TemporaryDirectory() as runners, tempfile.TemporaryDirectory() as folder:
        keep_runners_in(Path(runners))
        async with open_check_lab(Path(folder), files=files) as lab:
            why = await lab.start("tests", ForkPoint.IMPORTED)
            assert not why, why
            for name, servers in (("forks (imported)", SomeServers(lab.servers)), ("new processes", None)):
                found = []
                for _ in range(pairs):
                    on = await _cost(lab, servers, lab.baseline.places)
                    with _without_seals():
                        found.append((on, await _cost(lab, servers, ())))
                _tell(name, found)


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=2.0, help="what the tests take, asleep")
    parser.add_argument("--tests", type=int, default=20)
    given = parser.parse_args()
    anyio.run(measure, given.pairs, given.seconds, given.tests)


if __name__ == "__main__":
    main()
