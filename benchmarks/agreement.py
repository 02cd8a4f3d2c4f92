"""The same verdicts with and without `--new-process`, on generated mutants of real packages.

    python benchmarks/agreement.py [--mutants 500] [--minutes 20] [--seed 1] [--file agreement.jsonl]

Mutants are changes inside of functions (arithmetic, comparisons, constants, booleans, returns, removals) and
of what modules do when they are imported (defaults, decorators, imports, class bodies, state, helpers). A
batch of them is judged by one `check` each way; what differs is judged once more alone. Each mutant is a line
of the file; a line that is there is not made again, so that a campaign can go on where it ended.
Exits 1 if any verdict differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, Candidate, Prepared, Workload, machine, manifest_of, mutants_of, prepare

#: Where no function is named, all are targets and calls are recorded inside tests; named ones can be swapped.
MODULES = (
    Workload(
        kind="boltons",
        pin="boltons==26.2.0",
        path="boltons/urlutils.py",
        functions=(),
        tests=("tests/test_urlutils.py",),
    ),
    WORKLOADS["short-strings"],
    WORKLOADS["short-iterators"],
    Workload(
        kind="more-itertools",
        pin="more-itertools==11.2.1",
        path="more_itertools/recipes.py",
        functions=(
            "all_equal",
            "quantify",
            "dotproduct",
            "first_true",
            "nth",
            "polynomial_eval",
            "polynomial_derivative",
            "polynomial_from_roots",
            "sum_of_squares",
            "nth_combination",
        ),
        tests=("tests/test_recipes.py",),
        keyword="not Prime and not Sieve",
    ),
    WORKLOADS["medium"],
    Workload(
        kind="packaging-utils",
        pin="packaging==26.3",
        path="src/packaging/utils.py",
        functions=(
            "canonicalize_name",
            "canonicalize_version",
            "is_normalized_name",
            "parse_wheel_filename",
            "parse_sdist_filename",
        ),
        tests=("tests/test_utils.py",),
        editable=True,
    ),
)
#: Mutants hang now and then; nothing here needs a second of CPU.
OPTIONS = ("--timeout", "2", "-j", "2")

Cell = dict[str, Any]
Work = tuple[Prepared, Sequence[Candidate]]


class Cells:
    """Cells that are done, as lines of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.done: dict[str, Cell] = {cell["id"]: cell for cell in map(json.loads, lines)}

    def add(self, cells: Sequence[Cell]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(cell) + "\n" for cell in cells)
        self.done |= {cell["id"]: cell for cell in cells}


def verdicts(prepared: Prepared, candidates: Sequence[Candidate], *flags: str) -> Mapping[str, Any]:
    """Return each candidate's entry in the document of one `check`."""
    manifest = manifest_of(prepared, candidates, prepared.place.state / "mutants.jsonl")
    document = prepared.check(manifest, *OPTIONS, *flags).document
    return {candidate["id"]: candidate for candidate in document["candidates"]}


def judged(prepared: Prepared, candidates: Sequence[Candidate]) -> list[Cell]:
    """Judge candidates both ways; those that differ once more, each alone."""
    warm = verdicts(prepared, candidates)
    new_process = verdicts(prepared, candidates, "--new-process")
    cells = [cell_of(warm[c.id], new_process[c.id]) for c in candidates]
    texts = {c.id: c for c in candidates}
    return [cell if cell["same"] else again(prepared, texts[cell["id"]], cell) for cell in cells]


def again(prepared: Prepared, candidate: Candidate, first: Cell) -> Cell:
    """Judge one alone: what was the machine's doing (a deadline reached under load) does not come again."""
    warm = verdicts(prepared, [candidate])
    new_process = verdicts(prepared, [candidate], "--new-process")
    return {**cell_of(warm[candidate.id], new_process[candidate.id]), "first": first, "text": candidate.text}


def cell_of(warm: Mapping[str, Any], new_process: Mapping[str, Any]) -> Cell:
    both = [f"{one['status']} {one['code']}" for one in (warm, new_process)]
    return {
        "id": warm["id"],
        "same": both[0] == both[1],
        "warm": both[0],
        "new-process": both[1],
        "served": warm["served"],
        "why": warm["served_why"],
        "reasons": [warm["reason"], new_process["reason"]],
    }


def batches(candidates: Sequence[Candidate], size: int) -> Iterator[Sequence[Candidate]]:
    for begin in range(0, len(candidates), size):
        yield candidates[begin : begin + size]


def work(
    chosen: Sequence[Workload], cells: Cells, folder: Path, options: argparse.Namespace
) -> Iterator[Work]:
    """Yield what has no line yet, in batches, the modules in turn."""
    count = -(-options.mutants // len(chosen))
    prepared = [prepare(workload, folder) for workload in chosen]
    found = [[c for c in mutants_of(own, count, options.seed) if c.id not in cells.done] for own in prepared]
    rows = itertools.zip_longest(*(batches(candidates, options.batch) for candidates in found))
    for row in rows:
        yield from ((own, batch) for own, batch in zip(prepared, row, strict=True) if batch)


def campaign(found: Iterator[Work], cells: Cells, deadline: float) -> None:
    """Judge batches until the time is over."""
    for prepared, batch in found:
        if time.monotonic() > deadline:
            return
        made = judged(prepared, batch)
        cells.add(made)
        same = sum(cell["same"] for cell in made)
        print(f"{prepared.workload.kind}: {same} of {len(made)} agree, {len(cells.done)} in all", flush=True)


def report(cells: Cells) -> int:
    done = cells.done.values()
    apart = [cell for cell in done if not cell["same"]]
    print(f"\n{len(done)} mutants, {len(apart)} verdicts differ")
    print("verdicts: " + told(Counter(cell["new-process"] for cell in done)))
    print("served:   " + told(Counter(cell["served"] for cell in done)))
    settled = [cell for cell in done if "first" in cell and cell["same"]]
    print(f"settled when judged alone: {len(settled)}")
    for cell in [*apart, *settled]:
        first = cell["first"]
        print(f"  {cell['id']} ({cell['served']}: {cell['why']})")
        print(
            f"    first {first['warm']} / {first['new-process']};"
            f" alone {cell['warm']} / {cell['new-process']}"
        )
        print(f"    {cell['reasons']}")
    return 1 if apart else 0


def told(counted: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counted.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [workload.kind for workload in MODULES]
    parser.add_argument("--modules", nargs="+", default=names, choices=names)
    parser.add_argument("--mutants", type=int, default=500, help="of all modules together")
    parser.add_argument("--minutes", type=float, default=20.0, help="no new batch after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument(
        "--file", type=Path, default=None, help="lines of what is done; default: none is kept"
    )
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    print(machine())
    with tempfile.TemporaryDirectory(prefix="agreement-") as name:
        cells = Cells(options.file or Path(name) / "cells.jsonl")
        chosen = [workload for workload in MODULES if workload.kind in options.modules]
        campaign(work(chosen, cells, Path(name), options), cells, deadline)
        status = report(cells)
    print(f"load {os.getloadavg()[0]:.2f}")
    return status


if __name__ == "__main__":
    sys.exit(main())
