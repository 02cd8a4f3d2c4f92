"""Seconds of a whole `check` and of each candidate, for 1 to 200 candidates and 1 to 8 slots.

    python benchmarks/scaling.py [--quick] [--candidates 1 5 20 50 100 200] [--slots 1 2 4 8]
        [--workload short] [--write FILE]

Each cell is one command from a cold cache. `--write` makes a page of it, for docs/explanation/figures.md.
At full size these are 30 commands and 1,900 checks: six to ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workloads import WORKLOADS, Prepared, generated, machine, manifest_of, prepare

PAGE = """# Scaling

_Written by `benchmarks/scaling.py` on {day}: {machine}._

Candidates made by a program for `{function}` of {pin}, a quarter of them wrong;
`check` from a cold cache. Each cell: seconds of the whole command, and in brackets seconds a candidate once
the baseline was known. More slots than cores only help where checks wait.

{table}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One command: all its seconds, and those in which candidates were judged."""

    whole_s: float
    judging_s: float
    count: int

    def __str__(self) -> str:
        return f"{self.whole_s:.1f} ({self.judging_s / self.count:.3f})"


def measure(prepared: Prepared, count: int, slots: int, *flags: str) -> Cell:
    candidates = generated(prepared, count - count // 4, count // 4)
    manifest = manifest_of(prepared, candidates, prepared.place.state / "candidates.jsonl")
    own = prepared.with_cache(f"cache-{count}-{slots}-{len(flags)}")
    checked = own.check(manifest, "-j", str(slots), *flags)
    return Cell(whole_s=checked.wall_s, judging_s=checked.judging_s, count=count)


def table_of(prepared: Prepared, counts: Sequence[int], slots: Sequence[int], new_process: int) -> str:
    """Return a Markdown table: a line for each number of candidates, a column for each of slots."""
    columns = [f"{n} slot{'s' * (n > 1)}" for n in slots] + [f"{new_process} slots, `--new-process`"]
    lines = ["| candidates | " + " | ".join(columns) + " |", "| ---: |" + " ---: |" * len(columns)]
    print(lines[0], flush=True)
    for count in counts:
        cells = [measure(prepared, count, n) for n in slots] + [
            measure(prepared, count, new_process, "--new-process")
        ]
        lines.append(f"| {count} | " + " | ".join(map(str, cells)) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def page(prepared: Prepared, said: str, table: str) -> str:
    workload = prepared.workload
    return PAGE.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=said,
        function=workload.targets[0],
        pin=workload.pin,
        table=table,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1, 5 and 20 candidates, 1 and 2 slots")
    parser.add_argument("--workload", default="short", choices=list(WORKLOADS))
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 5, 20, 50, 100, 200])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--write", type=Path, default=None, help="page that the table is written to")
    options = parser.parse_args()
    if options.quick:
        options.candidates, options.slots = [1, 5, 20], [1, 2]
    said = machine()
    print(said)
    with tempfile.TemporaryDirectory(prefix="scaling-") as name:
        prepared = prepare(WORKLOADS[options.workload], Path(name))
        new_process = min(2, max(options.slots))
        table = table_of(prepared, options.candidates, options.slots, new_process)
        if options.write:
            options.write.write_text(page(prepared, said, table), encoding="utf-8")
    print(f"load {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
