"""What `check` takes, in multiples of one plain `python -m pytest` of the same tests in the same minute.

    python benchmarks/check_seconds.py [--program NAME=PYTHON ...] [--workloads short medium] [--warm]
        [--counts 1 12 100] [--times 3] [--slots 2] [--isolation LEVEL] [--file check_seconds.jsonl]

A program is a version of the tool, named by an interpreter that has it; the one of this interpreter goes
first. Each turn runs plain pytest, then every program: *cold* (no cache at all), then *repeated* (the same
command once more, other candidates), then with `--warm` *warm* (with `--keep-warm`, after one such command
that is not counted, nor is the CPU time of the background process). Half of a hundred candidates are wrong, a
quarter of fewer. A line has the seconds of the whole command, those from its start to the first verdict, CPU
seconds of all processes, the median of plain pytest, and the load; the table at the end has medians, in
multiples.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workloads import WORKLOADS, Candidate, Prepared, generated, machine, manifest_of, prepare

from harness import end_daemons  # isort: skip - `workloads` says where it is

#: Candidates of a command → how many of them are wrong.
WRONG = {1: 0, 12: 3, 100: 50}
#: States of a command with `--keep-warm`, if they are wanted; the first one opens what the second one finds.
OF_WARM = {False: (), True: ("opening", "warm")}


def plain_seconds(prepared: Prepared) -> float:
    """Run the tests as a developer does; bytecode is there from the run before."""
    began = time.monotonic()
    subprocess.run(
        prepared.pytest,
        cwd=prepared.place.repository,
        env=prepared.plain_environment(prepared.place.repository),
        capture_output=True,
        check=True,
    )
    return time.monotonic() - began


def check(
    prepared: Prepared, python: str, candidates: Sequence[Candidate], cache: Path, more: Sequence[str]
) -> dict[str, Any]:
    """Hold one `check`, and return its figures."""
    workload = prepared.workload
    manifest = manifest_of(prepared, candidates, prepared.place.state / "candidates.jsonl")
    keyword = ["-k", workload.keyword] if workload.keyword else []
    functions = [word for target in workload.targets for word in ("--function", target)]
    words = [
        *(python, "-m", "codeflash_parallel", "check", "--cache-dir", str(cache)),
        *("--python", prepared.python, *functions, "--candidates", str(manifest)),
        *("--tests", *workload.tests, *keyword, "--output-format", "jsonl", *more),
    ]
    before, began, first = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0.0
    document: dict[str, Any] = {}
    with subprocess.Popen(
        words,
        cwd=prepared.place.repository,
        env=dict(prepared.place.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            document = json.loads(line)
            if document["event"] == "candidate_finished" and not first:
                first = time.monotonic() - began
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if document.get("error") or not document.get("complete"):
        raise SystemExit(f"{workload.pin}: {document.get('error')}")
    rejected = sorted(c["id"] for c in document["candidates"] if c["status"] == "rejected")
    return {
        "seconds": seconds,
        "first_s": first or seconds,
        "cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "timings_ms": document["timings"],
        "wrong_accepted": sum(c.id.startswith("changed") for c in candidates) - len(rejected),
        "right_rejected": [name for name in rejected if name.startswith("right")],
    }


def turns(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Make all turns of all programs; return their lines."""
    programs = dict(program.split("=", 1) for program in options.program)
    more = ["-j", str(options.slots), *(["--isolation", options.isolation] if options.isolation else [])]
    lines = []
    for kind in options.workloads:
        prepared = prepare(WORKLOADS[kind], folder)
        plain_seconds(prepared)
        for turn in range(options.times):
            for count in options.counts:
                plain = statistics.median(plain_seconds(prepared) for _ in range(3))
                for program, python in programs.items():
                    with tempfile.TemporaryDirectory(dir=folder) as cache:
                        for seed, state in enumerate(("cold", "repeated", *OF_WARM[options.warm]), 1):
                            wrong = WRONG.get(count, count // 4)
                            candidates = generated(prepared, count - wrong, wrong, 100 * turn + seed)
                            flags = [*more, *(["--keep-warm"] if seed > 2 else [])]
                            found = check(prepared, python, candidates, Path(cache), flags)
                            if state == "opening":
                                continue
                            named = {"workload": kind, "program": program, "count": count, "state": state}
                            line = {**named, "plain_s": plain, "load": os.getloadavg()[0], **found}
                            lines.append(line)
                            with options.file.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(line) + "\n")
                            print(_row(line), flush=True)
                        end_daemons(Path(cache))
    return lines


def _row(line: dict[str, Any]) -> str:
    named = f"{line['workload']:16}{line['count']:5} {line['state']:9}{line['program']:8}"
    times = f"{line['seconds']:7.2f} s {line['seconds'] / line['plain_s']:6.1f} x"
    first = f"first {line['first_s'] / line['plain_s']:5.1f} x  cpu {line['cpu_s']:6.2f} s"
    return f"{named}{times}  {first}  plain {line['plain_s']:.2f} s  load {line['load']:.1f}"


def table(lines: Sequence[dict[str, Any]]) -> None:
    """Print medians, in multiples of plain pytest."""
    grouped: defaultdict[tuple[str, int, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        grouped[line["workload"], line["count"], line["state"], line["program"]].append(line)
    print(f"\n{'':40}whole   first verdict   s a candidate")
    for (kind, count, state, program), found in grouped.items():
        whole = statistics.median(one["seconds"] / one["plain_s"] for one in found)
        first = statistics.median(one["first_s"] / one["plain_s"] for one in found)
        each = statistics.median(one["seconds"] / count for one in found)
        print(f"{kind:16}{count:5} {state:9}{program:8} {whole:6.2f} x  {first:6.2f} x  {each:12.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--workloads", nargs="+", default=["short"], choices=list(WORKLOADS))
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 12, 100])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--isolation", default="")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--file", type=Path, default=Path("check_seconds.jsonl"))
    options = parser.parse_args()
    options.program.insert(0, f"this={sys.executable}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(machine())
    with tempfile.TemporaryDirectory(prefix="check-seconds-") as name:
        table(turns(options, Path(name)))
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
