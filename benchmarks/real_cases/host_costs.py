"""What a host does once, and what a check costs it, on real cases: for `benchmarks/cluster_model.py`.

    python benchmarks/real_cases/host_costs.py --repositories '/folder/{owner}+{name}/repo' NAME NAME

Each case is checked twice, by one place of Slurm's local jobs: with nothing cached on the host, and with its
baseline there. Prints a Markdown row a case: seconds of a check (the mean; calls with fresh inputs included),
in multiples of it the baseline with its fresh inputs, the first shard of a process, and by how much the first
check of a process is longer than the others; and the size of the bundle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any

from build import Case, add_arguments, build, chosen, restore
from run import Program, tool_command

#: Runs the tool, and writes when each message of a host came.
NOTING = """
import json, sys, time
from codeflash_parallel.cli.main import main
from codeflash_parallel.hosts.cluster.slurm_executor import SlurmTask

messages = SlurmTask.messages

def noted(task):
    for message in messages(task):
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps([time.monotonic(), message["t"], message.get("candidate", "")]) + "\\n")
        yield message

SlurmTask.messages = noted
sys.exit(main(sys.argv[2:]))
"""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """One run of a case's candidates on one place.

    Attributes:
        check_s: mean of all candidates.
        longer_s: by which the first check is longer than the others.
    """

    overhead_s: float
    check_s: float
    longer_s: float


def checked(case: Case, cache: Path, number: int) -> Checked:
    """Check the candidates of a case on one place."""
    document, log = cache / f"{number}.json", cache / f"{number}.messages"
    command = tool_command(case, Program.parse(sys.executable), document, cache / "cache", _ENGINE)
    command[1:4] = ["-c", NOTING, str(log), "check"]
    environment = {**case.environment, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, cwd=case.folder, env=environment, capture_output=True, check=False)
    restore(case)
    if not document.exists():
        raise SystemExit(f"{case.name}: {done.stderr.decode(errors='replace')[-1000:]}")
    (host,) = json.loads(document.read_text(encoding="utf-8"))["hosts"]
    return Checked(
        overhead_s=host["overhead_s"],
        check_s=host["checks_s"] / len(host["checked"]),
        longer_s=_longer(log),
    )


_ENGINE = ("--executor", "slurm", "--cluster", "local", "--cluster-jobs", "1")


def _longer(log: Path) -> float:
    """Return by how much the first screening is longer than the mean of the others; `nan` without others."""
    notes: list[list[Any]] = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    seconds = [
        next((later for later, kind, _ in notes[at + 1 :] if kind in {"checking", "step", "judged"}), began)
        - began
        for at, (began, kind, _) in enumerate(notes)
        if kind == "checking"
    ]
    return seconds[0] - fmean(seconds[1:]) if seconds[1:] else float("nan")


def bundle_mb(case: Case) -> float:
    """Return the size of all objects of the case's base, packed."""
    git = ["git", "-C", str(case.checkout)]
    objects = subprocess.run(
        [*git, "rev-list", "--objects", "--no-object-names", "HEAD^{tree}"], capture_output=True, check=True
    ).stdout
    packed = [*git, "pack-objects", "--stdout", "-q"]
    return len(subprocess.run(packed, input=objects, capture_output=True, check=True).stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(
        "| case | check, s | baseline, checks | first shard, checks | first check, longer by | bundle, MB |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    rows = []
    for case in chosen(options):
        build(case, options.repositories)
        with tempfile.TemporaryDirectory(prefix="cluster-costs-") as folder:
            cold, warm = (checked(case, Path(folder), number) for number in range(2))
        check_s = warm.check_s
        shares = (cold.overhead_s - warm.overhead_s, warm.overhead_s, warm.longer_s)
        rows.append([check_s, *(share / check_s for share in shares), bundle_mb(case)])
        print(_row(case.name, rows[-1]), flush=True)
    print(_row("median", [median(column) for column in zip(*rows, strict=True)]))


def _row(name: str, values: list[float]) -> str:
    return f"| {name} | {' | '.join(f'{value:.2f}' for value in values)} |"


if __name__ == "__main__":
    main()
