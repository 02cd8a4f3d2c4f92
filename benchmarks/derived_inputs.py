"""What derived inputs cost a check: warm checks of one candidate with and without them, side by side.

    python benchmarks/derived_inputs.py [pairs]

The project is the one of `tests/integration/test_check_derived.py`: eight small targets.
"""

# ruff: noqa: E402 - the tests' helpers must be found first

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import anyio

sys.path[:0] = [
    str(Path(__file__).parents[1] / "tests"),
    str(Path(__file__).parents[1] / "tests/integration"),
]

from check_lab import CheckLab, SomeServers, open_check_lab
from compiled_guest import keep_guests_in
from test_check_derived import FILES, HONEST, NAMES

from codeflash_parallel.behavior.check import check
from codeflash_parallel.behavior.points import Point

PAIRS = 15


async def measured(lab: CheckLab, *, derived: bool) -> tuple[float, float, int]:
    """Return wall and CPU milliseconds of one check, and with how many inputs it was made."""
    name, body = HONEST["equal container"]
    text = FILES["shop/sums.py"].replace("    return sorted(one + two)\n", body)
    assert name == "merged"
    candidate = lab.candidate(shop__sums=text)
    plan = lab.plan()
    if not derived:
        plan = replace(plan, baseline=replace(plan.baseline, derived={}, breaks={}))
    with lab.staged(candidate):
        outcome = await check(plan, lab.workspace, candidate, SomeServers(lab.servers))
    assert outcome.code.value == "OK", outcome.reason
    return sum(outcome.timings_ms.values()), outcome.used.cpu_ns / 1e6, len(plan.baseline.derived)


async def main() -> None:
    """Measure pairs of checks and print medians."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    targets = tuple(f"shop/sums.py::{name}" for name in NAMES)
    with tempfile.TemporaryDirectory() as guests, tempfile.TemporaryDirectory() as folder:
        keep_guests_in(Path(guests))
        async with open_check_lab(Path(folder), files=FILES, targets=targets, derives=True) as lab:
            for mode in ("tests", "replay"):
                why = await lab.start(mode, Point.F1)
                assert not why, why
            without, having = [], []
            for _ in range(pairs):
                without.append(await measured(lab, derived=False))
                having.append(await measured(lab, derived=True))
    for title, rows in (("without", without), ("with", having)):
        wall, cpu = (statistics.median(row[at] for row in rows) for at in (0, 1))
        print(
            f"{title:8} {rows[0][2]:5} inputs  wall {wall:7.1f} ms  CPU {cpu:7.1f} ms  ({len(rows)} checks)"
        )
    extra = statistics.median(b[1] - a[1] for a, b in zip(without, having, strict=True))
    print(f"derived inputs: {extra:.1f} ms of CPU a check, {1000 * extra / having[0][2]:.0f} us each")


if __name__ == "__main__":
    anyio.run(main)
