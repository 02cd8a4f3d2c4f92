"""What a run of four kinds of fields takes: this program beside another one, in turn.

    python benchmarks/race_seconds.py [--program NAME=COMMAND ...] [--fields clear neutral] [--times 3]
                                      [--slots 2] [--file race_seconds.jsonl]

A program is a command that takes the arguments of codeflash-parallel, by default the one of this interpreter;
another checkout's is `old=/path/.venv/bin/codeflash-parallel`. Programs take turns within each field, so that
they meet the same machine. Each run is a line: seconds of the whole run, of its race and of the wait for
others, CPU seconds of all processes, verdict, winner and its speedup, load. The fields: a gain of 24 among
eight, eight neutral ones, 1.25 among eight, 1.05 alone; and calls whose inputs are dear to copy.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

#: One pass is 240 steps; what a candidate leaves out of them is its gain.
STEPS = 240
SOURCE = '''
def total(values):
    """Return the sum of the squares."""
    result = 0
    for value in values:
        {waste}
        result += value * value
    return result
'''
TESTS = """
import pytest
from shop.sums import total

@pytest.mark.parametrize("values", [range(10), range(20), range(-15, 0)])
def test_total(values):
    assert total(list(values)) == sum(v * v for v in values)
"""
#: A function that reads the root of a tree of which a copy costs a thousand times the call.
DEAR_SOURCE = '''
def total(tree):
    """Return the sum of the squares of the first level."""
    result = 0
    for node in tree[:40]:
        {waste}
        result += node["value"] ** 2
    return result
'''
DEAR_TESTS = """
import pytest
from shop.sums import total

@pytest.mark.parametrize("seed", range(60))
def test_total(seed):
    kids = [{"value": v, "seed": seed} for v in range(40)]
    tree = [{"value": v, "kids": [dict(kid) for kid in kids]} for v in range(400)]
    assert total(tree) == sum(v * v for v in range(40))
"""


def waste(steps: int, mark: int = 0) -> str:
    """Return a statement that costs so many steps; the mark makes equal ones different texts."""
    return f"for _ in range({steps}): mark = {mark}"


def fields() -> dict[str, tuple[str, str, list[int]]]:
    """Return source, tests and the steps of each candidate by field; 0 is about 24 times as fast."""
    eight = [STEPS] * 7
    return {
        "clear": (SOURCE, TESTS, [STEPS // 30, *eight]),
        "neutral": (SOURCE, TESTS, [STEPS, *eight]),
        "1.25": (SOURCE, TESTS, [round(STEPS / 1.26), *eight]),
        "alone": (SOURCE, TESTS, [round(STEPS / 1.055)]),
        "dear": (DEAR_SOURCE, DEAR_TESTS, [STEPS // 4, STEPS, STEPS]),
    }


def make(folder: Path, source: str, tests: str, candidates: list[int]) -> None:
    """Write a repository, and the candidates' patches beside it."""
    files = {
        "shop/__init__.py": "",
        "shop/sums.py": source.format(waste=waste(STEPS)),
        "tests/test_sums.py": tests,
    }
    for name, text in files.items():
        path = folder / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git = ["git", "-C", str(folder / "project"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    (folder / "patches").mkdir()
    for number, steps in enumerate(candidates):
        code = source.format(waste=waste(steps, number + 1)).lstrip()
        (folder / "patches" / f"c{number}.py").write_text(code, encoding="utf-8")


def run(command: str, folder: Path, slots: int, more: list[str]) -> dict[str, Any]:
    """Hold one run and return its figures."""
    words = [
        *command.split(),
        "run",
        "--candidates",
        str(folder / "patches"),
        "--function",
        "shop/sums.py::total",
    ]
    words += ["-j", str(slots), "--cache-dir", str(folder / "cache"), "--output-format", "jsonl", *more]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    phases: dict[str, float] = {}
    phase, before_wait, since, document = "", "", began, dict[str, Any]()
    with subprocess.Popen(words, cwd=folder / "project", stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            document, now = json.loads(line), time.monotonic()
            named = {"phase_started": document.get("phase"), "run_waits": document.get("why") and "waits"}
            if document["event"] in {*named, "run_finished"}:
                phases[phase] = phases.get(phase, 0.0) + now - since
                before_wait = phase if phase != "waits" else before_wait
                phase, since = named.get(document["event"]) or before_wait, now
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(time.monotonic() - began, 2),
        "race_s": round(phases.get("race", 0.0), 2),
        "waits_s": round(phases.get("waits", 0.0), 2),
        "cpu_s": round(cpu_s, 2),
        **told(document),
    }


def told(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a document says of its race."""
    by_id = {one["id"]: one for one in document.get("candidates", ())}
    winner = document.get("winner") or ""
    speedup = (by_id.get(winner) or {}).get("speedup") or {}
    return {
        "verdict": document.get("verdict"),
        "winner": winner,
        "speedup": speedup.get("estimate"),
        "interval": [speedup.get("low"), speedup.get("high")],
        "rounds": (document.get("race") or {}).get("rounds"),
        "summary": document.get("summary"),
        "codes": sorted(one["code"] for one in by_id.values()),
    }


def turns(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a line for every run."""
    programs = dict(program.split("=", 1) for program in options.program)
    for number in range(options.times):
        for name in options.fields:
            for program, command in programs.items():
                with tempfile.TemporaryDirectory(prefix="race-seconds-") as folder:
                    make(Path(folder), *fields()[name])
                    found = run(command, Path(folder), options.slots, options.more)
                yield {
                    "field": name,
                    "program": program,
                    "number": number,
                    "load": os.getloadavg()[0],
                    **found,
                }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    own = f"this={sys.executable} -m codeflash_parallel"
    parser.add_argument("--program", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--fields", nargs="+", choices=fields(), default=[*fields()])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument(
        "--more", nargs=argparse.REMAINDER, default=[], help="arguments for all programs, last"
    )
    parser.add_argument("--file", type=Path, default=Path("race_seconds.jsonl"))
    options = parser.parse_args()
    options.program.insert(0, own)
    for line in turns(options):
        with options.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
