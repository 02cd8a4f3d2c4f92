"""Seconds per candidate: a serial loop, two worktrees, xdist, and ours with and without `--new-process`.

    python benchmarks/checks.py [--workloads short medium] [--candidates 20] [--wrong 5] [--slots 2]
        [--seed 1]

All ways judge the same candidates of the same function with the same test files, one way after the other, in
one run. The plain ways are what a careful script does: write the candidate, remove the file's bytecode (it
may be taken for the new one), `python -m pytest -x --tb=native`, restore. Bytecode is written in all ways.
Ours is the whole command from a cold cache; beside it, the seconds in which candidates were judged (snapshot
and baseline left out), for the plain ways have none. `overhead_ms` is what a candidate held its slot for
besides its tests' own setup, call and teardown.

Whom the loop rejects and ours does not is listed (NOT), and whom only ours rejects, with the reason: values
that differ are not seen by tests, so that is right for a candidate that was changed, and false for one that
was only written otherwise.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workloads import (
    PLAIN_FLAGS,
    WORKLOADS,
    Candidate,
    Checked,
    Prepared,
    generated,
    machine,
    manifest_of,
    prepare,
    seconds_of,
)

#: What takes longer in a plain run hangs, and may fill the memory meanwhile.
HANG_S = 60.0


def judge_plainly(prepared: Prepared, tree: Path, candidate: Candidate, *flags: str) -> bool:
    """Apply, run, revert; say whether the tests passed. One that hangs has failed."""
    file = tree / prepared.workload.path
    original = file.read_bytes()
    try:
        write(file, candidate.text.encode())
        done = subprocess.run(
            [*prepared.pytest, *flags],
            cwd=tree,
            env=prepared.plain_environment(tree),
            capture_output=True,
            timeout=HANG_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    finally:
        write(file, original)
    return done.returncode == 0


def write(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        cached.unlink(missing_ok=True)


def serial_loop(prepared: Prepared, candidates: Sequence[Candidate], *flags: str) -> set[str]:
    """Return the ids of those that fail."""
    tree = prepared.place.repository
    return {c.id for c in candidates if not judge_plainly(prepared, tree, c, *flags)}


def in_worktrees(prepared: Prepared, candidates: Sequence[Candidate], trees: Sequence[Path]) -> set[str]:
    """Judge with a thread for each worktree, each taking its share."""

    def share(number: int) -> set[str]:
        own = candidates[number :: len(trees)]
        return {c.id for c in own if not judge_plainly(prepared, trees[number], c)}

    with ThreadPoolExecutor(len(trees)) as threads:
        return set().union(*threads.map(share, range(len(trees))))


def make_worktrees(prepared: Prepared, count: int) -> list[Path]:
    trees = [prepared.place.state / f"tree{number}" for number in range(count)]
    for tree in trees:
        command = ["git", "worktree", "add", "-q", "--detach", str(tree)]
        subprocess.run(command, cwd=prepared.place.repository, check=True)
    return trees


def drop_worktrees(prepared: Prepared, trees: Sequence[Path]) -> None:
    for tree in trees:
        command = ["git", "worktree", "remove", "--force", str(tree)]
        subprocess.run(command, cwd=prepared.place.repository, check=True)


def overheads(checked: Checked) -> str:
    """Return the median overhead of right candidates, by the point that served them."""
    by_point: defaultdict[str, list[float]] = defaultdict(list)
    for candidate in checked.document["candidates"]:
        if candidate["status"] == "undecided" and candidate["overhead_ms"] is not None:
            by_point[candidate.get("served") or "new-process"].append(candidate["overhead_ms"])
    medians = {point: statistics.median(found) for point, found in sorted(by_point.items())}
    return ", ".join(f"{point} {ms:.0f} ms ({len(by_point[point])})" for point, ms in medians.items())


def only_ours(checked: Checked, failing: set[str]) -> list[str]:
    """Return whom we reject though its tests pass, and why."""
    return [
        checked.told(name) + (" - FALSE, it was only written otherwise" if name.startswith("right") else "")
        for name in sorted(checked.rejected - failing)
    ]


def show(name: str, wall_s: float, serial_s: float, count: int, remark: str = "") -> None:
    print(f"  {name:22}{wall_s / count:8.3f} s each {serial_s / wall_s:6.1f} x serial   {remark}", flush=True)


def measure(kind: str, options: argparse.Namespace, folder: Path) -> None:
    prepared = prepare(WORKLOADS[kind], folder)
    candidates = generated(prepared, options.candidates - options.wrong, options.wrong, options.seed)
    count = len(candidates)
    failing: dict[str, set[str]] = {}
    print(f"\n{kind}: {prepared.workload.pin}, {', '.join(prepared.workload.functions)}, {count} candidates")
    # Nobody pays for the first bytecode of tests and dependencies.
    serial_loop(prepared, candidates[:1])
    serial_s = seconds_of(lambda: failing.update(serial=serial_loop(prepared, candidates)))
    show("serial loop", serial_s, serial_s, count, f"{len(failing['serial'])} fail")
    trees = make_worktrees(prepared, options.slots)
    in_worktrees(prepared, candidates[: options.slots], trees)
    wall_s = seconds_of(lambda: failing.update(trees=in_worktrees(prepared, candidates, trees)))
    show(f"{options.slots} plain worktrees", wall_s, serial_s, count, f"{len(failing['trees'])} fail")
    drop_worktrees(prepared, trees)
    workers = ("-p", "xdist", "-n", str(options.slots))
    wall_s = seconds_of(lambda: failing.update(xdist=serial_loop(prepared, candidates, *workers)))
    show(f"xdist -n {options.slots}", wall_s, serial_s, count, f"{len(failing['xdist'])} fail")
    manifest = manifest_of(prepared, candidates, prepared.place.state / "candidates.jsonl")
    for way, flags in (("ours", ()), ("ours --new-process", ("--new-process",))):
        checked = prepared.with_cache(f"cache-{len(flags)}").check(manifest, "-j", str(options.slots), *flags)
        missed = sorted(failing["serial"] - checked.rejected)
        remark = f"{len(checked.rejected)} fail" + (f", NOT {missed}" if missed else "")
        show(way, checked.wall_s, serial_s, count, remark)
        show("  judging only", checked.judging_s, serial_s, count, f"overhead {overheads(checked)}")
        counted = checked.document["tests_selected"]
        print(f"  {'':22}{counted} tests selected; {checked.steps}")
        if not flags:
            print(f"  {'':22}{checked.reasons}", flush=True)
        for line in only_ours(checked, failing["serial"]):
            print(f"  {'':22}only ours rejects {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--wrong", type=int, default=5, help="how many of them are changed, not rewritten")
    parser.add_argument("--seed", type=int, default=1, help="of what is changed")
    parser.add_argument("--slots", type=int, default=2)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{machine()}; plain flags: {' '.join(PLAIN_FLAGS)}")
    with tempfile.TemporaryDirectory(prefix="checks-") as name:
        for kind in options.workloads:
            measure(kind, options, Path(name))
    print(f"\nload {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
