"""codeflash alone and with its candidates raced here: seconds and chosen winner on the same candidates.

    python benchmarks/codeflash_beside.py [--case eight memo] [--rounds 1] [--parallel-candidates 2]

Runs in an environment with `codeflash-parallel[codeflash]`, and asks nothing of the network: candidates and
generated tests come from `codeflash_service.py`. Each round runs both, one right after the other, each on a
new copy of the project. `evaluation` is from codeflash's request for further candidates, with which its
evaluation begins, to its report of the results; `whole` is the command. The truth is the time of each right
candidate on inputs that come once.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from codeflash_service import (
    CANDIDATES,
    FUNCTION,
    MEMO,
    MODULE,
    ORIGINAL,
    Prepared,
    Service,
    make_project,
    serving,
)

_BY_NAME = {one.name: one for one in (*CANDIDATES, MEMO)}
#: Eight as models write them, three of them wrong; and four, of which one remembers.
CASES = {
    "eight": CANDIDATES,
    "memo": tuple(_BY_NAME[name] for name in ("counter", "set-and-list", "memo", "two-sets")),
}
WAYS = ("codeflash", "codeflash-parallel codeflash")
#: One command, at most.
LONGEST_S = 900
#: Calls with new inputs that the truth is measured on, and how long an input is.
CALLS, WORDS = 400, 700


def main() -> int:
    """Run the rounds and print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--parallel-candidates", type=int, default=2)
    args = parser.parse_args()
    print(
        f"codeflash {importlib.metadata.version('codeflash')}, Python {sys.version.split()[0]}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the beginning"
    )
    for case in args.case:
        candidates = CASES[case]
        print(f"\n{case}: {len(candidates)} candidates, {sum(not one.is_right for one in candidates)} wrong")
        print("times as fast as the original on new inputs:", "; ".join(_truth(candidates)))
        print(f"{'way':<30} {'whole':>8} {'evaluation':>11} {'load':>6}  winner")
        for _ in range(args.rounds):
            for way in WAYS:
                print(_row(way, candidates, args.parallel_candidates), flush=True)
    return 0


def _row(way: str, candidates: Sequence[Prepared], parallel: int) -> str:
    with tempfile.TemporaryDirectory(prefix="codeflash-beside-") as folder:
        home = Path(folder, "home")
        home.mkdir()
        project = make_project(Path(folder, "shop"))
        words = ["--file", MODULE, "--function", FUNCTION, "--no-pr", "--yes"]
        command = [sys.executable, "-P", "-m", "codeflash.main", *words]
        if way != WAYS[0]:
            ours = [
                "codeflash_parallel",
                "codeflash",
                "-j",
                str(parallel),
                "--cache-dir",
                str(home / "cache"),
            ]
            command = [sys.executable, "-P", "-m", *ours, "--", *words]
        with serving(Service(candidates=candidates)) as service:
            began = time.monotonic()
            done = subprocess.run(
                command,
                cwd=project,
                env=service.environment(home),
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
            whole = time.monotonic() - began
        if done.returncode:
            print(done.stdout[-3000:], done.stderr[-3000:])
        moments = dict(zip(service.asked, service.moments, strict=True))
        marks = moments.get("/ai/optimize-line-profiler"), moments.get("/ai/log_features")
        evaluation = f"{marks[1] - marks[0]:.1f} s" if marks[0] and marks[1] else "-"
        winner = _winner((project / MODULE).read_text(), candidates)
        return f"{way:<30} {whole:>6.1f} s {evaluation:>11} {os.getloadavg()[0]:>6.1f}  {winner}"


def _winner(text: str, candidates: Sequence[Prepared]) -> str:
    written = _body(text)
    return next((one.name for one in candidates if _body(one.code) == written), "none: the original stays")


def _body(text: str) -> str:
    tree = ast.parse(text)
    return next(ast.dump(node) for node in tree.body if getattr(node, "name", "") == FUNCTION)


def _truth(candidates: Sequence[Prepared]) -> Iterator[str]:
    """Yield how many times as fast each right candidate is, on inputs that come once."""
    functions = {one.name: _made(one.code) for one in candidates if one.is_right}
    functions["original"] = _made(ORIGINAL)
    seconds = dict.fromkeys(functions, 0.0)
    draw = random.Random(1)
    for _ in range(CALLS):
        words = [f"w{draw.randrange(WORDS)}" for _ in range(WORDS)]
        for name, function in functions.items():
            began = time.process_time()
            function(list(words))
            seconds[name] += time.process_time() - began
    for name in sorted(functions, key=seconds.__getitem__):
        yield f"{name} {seconds['original'] / seconds[name]:.1f}"


def _made(code: str) -> Callable[[list[str]], list[str]]:
    names: dict[str, Callable[[list[str]], list[str]]] = {}
    exec(code, names)
    return names[FUNCTION]


if __name__ == "__main__":
    sys.exit(main())
