"""Functions of real packages, written otherwise by rules that keep what they do: is any of them rejected?

    python benchmarks/honest.py [--by-hand] [--rewrites 350] [--minutes 30] [--file honest.jsonl]

Each candidate is a module with one place of one function rewritten (`tests/rewrites.py`: loops, branches,
comprehensions, f-strings, names, a helper that has the body ...). All of a module's are judged by `check`, in
batches, with its own tests, captured calls and derived inputs. Each is a line of the file; one that is
there is not made again. `--by-hand` races the faster ones of `honest_rewrites.py` instead, each by a `run` of
its own. Exits 1 if one was rejected or is said to gain on seen inputs only, or none was judged.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agreement import MODULES, Cells, batches, told
from honest_rewrites import REWRITES, written
from survivors import PACKAGES
from workloads import Candidate, Prepared, Workload, documented, machine, manifest_of, prepare, rewrites_of

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from selftest.table import most

#: Nothing here needs a second of CPU; the machine may be busy.
OPTIONS = ("--timeout", "10", "-j", "2")
#: What no honest rewrite is told, besides rejections.
FAULTS = frozenset({"GAIN_ONLY_ON_SEEN_INPUTS"})


def cells_of(prepared: Prepared, candidates: Sequence[Candidate], isolation: str) -> list[dict[str, Any]]:
    """Judge candidates by one `check`."""
    manifest = manifest_of(prepared, candidates, prepared.place.state / "rewrites.jsonl")
    document = prepared.check(manifest, *OPTIONS, "--isolation", isolation).document
    texts = {candidate.id: candidate.text for candidate in candidates}
    return [_cell(found, texts[found["id"]]) for found in document["candidates"]]


def _cell(found: Mapping[str, Any], text: str) -> dict[str, Any]:
    rejected = found["status"] == "rejected" or found["code"] in FAULTS
    cell = {"id": found["id"], "status": found["status"], "code": found["code"]}
    cell |= {"level": (found["values"] or {}).get("level")}
    return {**cell, "reason": found["reason"], "text": text} if rejected else cell


def work(
    chosen: Sequence[Workload], cells: Cells, folder: Path, options: argparse.Namespace
) -> Iterator[tuple[Prepared, Sequence[Candidate]]]:
    """Yield what has no line yet, in batches, the modules in turn."""
    count = -(-options.rewrites // len(chosen))
    prepared = [prepare(workload, folder) for workload in chosen]
    found = [[c for c in rewrites_of(own, count, options.seed) if c.id not in cells.done] for own in prepared]
    for row in itertools.zip_longest(*(batches(candidates, options.batch) for candidates in found)):
        yield from ((own, batch) for own, batch in zip(prepared, row, strict=True) if batch)


def campaign(
    found: Iterator[tuple[Prepared, Sequence[Candidate]]], cells: Cells, options: argparse.Namespace
) -> None:
    """Judge batches until the time is over."""
    deadline = time.monotonic() + 60 * options.minutes
    for prepared, batch in found:
        if time.monotonic() > deadline:
            return
        made = cells_of(prepared, batch, options.isolation)
        cells.add(made)
        rejected = sum(cell["status"] == "rejected" for cell in made)
        print(
            f"{prepared.workload.kind}: {rejected} of {len(made)} rejected, {len(cells.done)} in all",
            flush=True,
        )


def race(cells: Cells, folder: Path, options: argparse.Namespace) -> None:
    """Let each rewrite by hand run against its baseline."""
    deadline = time.monotonic() + 60 * options.minutes
    for package in REWRITES:
        if time.monotonic() > deadline:
            return
        prepared = prepare(PACKAGES[package], folder)
        source = prepared.file.read_text(encoding="utf-8")
        for function, candidate in written(package, source).items():
            if candidate.id in cells.done:
                continue
            own = replace(prepared, workload=replace(prepared.workload, functions=(function,)))
            found = documented(own, options.python, "run", [candidate], OPTIONS)["candidates"][0]
            speedup = (found["speedup"] or {}).get("estimate")
            cells.add([{**_cell(found, candidate.text), "speedup": speedup}])
            print(f"{candidate.id}: {found['status']} {found['code']} {speedup}", flush=True)


def report(cells: Cells) -> int:
    """Say how many were rejected, and which."""
    done = list(cells.done.values())
    rejected = [cell for cell in done if cell["status"] == "rejected" or cell["code"] in FAULTS]
    judged = [cell for cell in done if cell["status"] not in {"cancelled", "infra", "unappliable"}]
    print(f"\n{len(judged)} rewrites judged, {len(rejected)} rejected")
    if judged:
        print(f"bound of false rejections (95 %, one-sided): {100 * most(len(rejected), len(judged)):.2f} %")
    print("verdicts: " + told(Counter(f"{cell['status']} {cell['code']}" for cell in done)))
    print("level:    " + told(Counter(str(cell["level"]) for cell in done)))
    for cell in rejected:
        print(f"  {cell['id']} {cell['code']}: {cell['reason']}")
    return 1 if rejected or not judged else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [workload.kind for workload in MODULES]
    parser.add_argument("--modules", nargs="+", default=names, choices=names)
    parser.add_argument("--by-hand", action="store_true", help="those of honest_rewrites.py")
    parser.add_argument("--python", default=sys.executable, help="whose version of the tool races by hand")
    parser.add_argument("--rewrites", type=int, default=350, help="of all modules together")
    parser.add_argument("--minutes", type=float, default=30.0, help="no new batch after that")
    parser.add_argument("--isolation", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=25)
    parser.add_argument(
        "--file", type=Path, default=None, help="lines of what is done; default: none is kept"
    )
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory(prefix="honest-") as name:
        cells = Cells(options.file or Path(name) / "cells.jsonl")
        chosen = [workload for workload in MODULES if workload.kind in options.modules]
        if options.by_hand:
            race(cells, Path(name), options)
        else:
            campaign(work(chosen, cells, Path(name), options), cells, options)
        status = report(cells)
    print(f"load {os.getloadavg()[0]:.2f}")
    return status


if __name__ == "__main__":
    sys.exit(main())
