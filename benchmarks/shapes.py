"""Shapes of repositories and ways out of a run, pairwise: the user's repository is never touched.

    python benchmarks/shapes.py [--minutes 30] [--cells N] [--seed 1] [--file FILE] [--only kind=bare ...]

A cell is a real repository of some shape (what lies in its tree, its kind, what surrounds it) and one run of
the command line by some user that ends in some way. Any two levels meet in at least one cell. After it, all
that is the user's is what it was: content, mode, times, inode, links and owner of every path. Each cell is a
line of the file; a line that is there is not made again, so that a campaign can go on where it ended.
Exits 1 if any cell is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "tests"))

from aftermath import Picture  # noqa: E402
from cells import FAILURES, Cell, worked_through  # noqa: E402
from mounts import why_no_mounts  # noqa: E402
from pairwise import Row, covering_rows  # noqa: E402
from repository_shapes import AROUND, KINDS, USERS, WORK, fits, make_site  # noqa: E402
from sites import why_not_as  # noqa: E402
from ways_out import WAYS, attempt, left_behind  # noqa: E402

FACTORS: Mapping[str, Sequence[str]] = {
    "work": tuple(WORK),
    "kind": tuple(KINDS),
    "around": tuple(AROUND),
    "way": tuple(WAYS),
    "user": tuple(USERS),
    "process": ("warm", "new-process"),
}


def cell_of(row: Row, seed: int, probes: Mapping[str, str]) -> Cell:
    """Make one cell, and say how it ended: ``right``, ``refused: CODE``, ``wrong`` or ``skipped``."""
    why = why_skipped(row, probes)
    if why:
        return {"result": "skipped", "why": why}
    folder = Path(tempfile.mkdtemp(prefix="shapes-"))
    folder.chmod(0o755)
    try:
        return {"result": judged(folder / "site", row, seed)}
    except FAILURES as error:
        return {"result": "wrong", "why": str(error)[:3000]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def judged(folder: Path, row: Row, seed: int) -> str:
    site = make_site(folder, row)
    command = ("check", *(("--new-process",) if row["process"] == "new-process" else ()))
    tried = attempt(site, row["way"], command, f"{seed} {row}")
    before = site.pictures()
    try:
        result = WAYS[row["way"]](tried)
    finally:
        changed = list(differences(before, site.pictures()))
        assert not changed, f"the user's things have changed: {changed[:5]}"
        assert not list(site.marks.iterdir()), f"ran what must not: {list(site.marks.iterdir())}"
    left = left_behind(tried.place, folder)
    assert not left, f"left behind: {left[:5]}"
    return result


def differences(before: Mapping[str, Picture], after: Mapping[str, Picture]) -> Iterator[tuple[object, ...]]:
    for name in before.keys() | after.keys():
        one, other = before.get(name, {}), after.get(name, {})
        changed = sorted(path for path in one.keys() | other.keys() if one.get(path) != other.get(path))
        yield from ((name, path, one.get(path), other.get(path)) for path in changed)


def why_skipped(row: Row, probes: Mapping[str, str]) -> str:
    """Return what stands against a cell on this machine, in the machine's words."""
    asked = [probes["mounts"]] if row["way"] == "disk_full" or row["around"] == "read_only_git" else []
    asked += [probes["nobody"]] if row["user"] == "nobody" else []
    asked += [probes["root"]] if row["around"] == "other_owner" else []
    return next(filter(None, asked), "")


def probe() -> dict[str, str]:
    with tempfile.TemporaryDirectory(prefix="shapes-probe-") as folder:
        mounts = why_no_mounts(Path(folder))
    root = "" if os.geteuid() == 0 else f"only root may give files away; we are {os.geteuid()}"
    return {"mounts": mounts, "nobody": why_not_as(USERS["nobody"]), "root": root}


def report(cells: Sequence[Cell], rows: int) -> int:
    """Print what came out, by way and in all; return the exit code."""
    for way in WAYS:
        counted = Counter(cell["result"] for cell in cells if cell["row"]["way"] == way)
        print(f"{way:10} " + ", ".join(f"{count} {result}" for result, count in sorted(counted.items())))
    counted = Counter(cell["result"].partition(":")[0] for cell in cells)
    print(f"cells: {len(cells)} of {rows}: " + ", ".join(f"{n} {r}" for r, n in sorted(counted.items())))
    print("skipped: " + str(Counter(cell["why"] for cell in cells if cell["result"] == "skipped")))
    for cell in cells:
        if cell["result"] == "wrong":
            print(f"WRONG {json.dumps(cell['row'])}\n  {cell['why']}")
    return 1 if counted["wrong"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--cells", type=int, default=0, help="how many at most; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, default=Path("shapes.jsonl"))
    parser.add_argument("--only", nargs="*", default=[], help="cells of these levels alone, factor=level")
    options = parser.parse_args()
    only = dict(each.split("=", 1) for each in options.only)
    rows = [r for r in covering_rows(FACTORS, fits, options.seed) if only.items() <= r.items()]
    rows = sorted(rows[: options.cells or None], key=lambda row: row["kind"] == "many")  # minutes a cell
    probes = probe()
    cells = worked_through(
        rows, lambda row: cell_of(row, options.seed, probes), options.file, options.minutes
    )
    return report(cells, len(rows))


if __name__ == "__main__":
    sys.exit(main())
