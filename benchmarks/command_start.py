"""How long commands take that agents call all the time: wall and CPU time of each, process and children.

Usage: command_start.py [--rounds N] [--packages DIR ...]

Commands of the queue are run on a small repository of their own, those of several checkouts (`--packages`:
folders that hold the package, e.g. one of an earlier commit) and two bare interpreters in turn, so that all
meet the same machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
FLOOR = {
    "pass": "pass",
    "imports alone": "import sqlite3, argparse, json, dataclasses",
}
#: What the installed script does; of commits that had no `start`, what theirs did.
START = """
import sys
from codeflash_parallel import __main__ as entry
sys.exit(entry.start() if hasattr(entry, "start") else entry.main())
"""
#: What is installed has its byte code; who forbids writing it would time the compiler.
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
WORDS = 'def shout(text):\n    return text.upper() + "!"\n'


@dataclass
class Figures:
    """What the runs of one command took."""

    wall_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        wall, cpu = sorted(self.wall_ms), sorted(self.cpu_ms)
        p95 = wall[min(len(wall) - 1, round(0.95 * len(wall)))]
        return (
            f"CPU {statistics.median(cpu):6.1f} ms (least {cpu[0]:5.1f})   "
            f"wall {statistics.median(wall):6.1f} ms (least {wall[0]:5.1f}, p95 {p95:5.1f})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--packages", type=Path, nargs="*", default=[HERE])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="command-start-") as name:
        commands = dict(_commands(Path(name), options.packages))
        found = {label: Figures() for label in commands}
        for number in range(options.rounds + 1):
            for label, (argv, environment) in commands.items():
                told = [text.replace("{n}", str(number)) for text in argv]
                figures = _run(told, environment, Path(name) / "project")
                if number:  # the first round writes byte code
                    found[label].wall_ms.append(figures[0])
                    found[label].cpu_ms.append(figures[1])
    for label, told in found.items():
        print(f"{label:<40} {told}")
    return 0


def _commands(base: Path, packages: Sequence[Path]):
    plain = {name: value for name, value in os.environ.items() if name != NO_BYTE_CODE}
    for label, code in FLOOR.items():
        yield f"python -c, {label}", ([sys.executable, "-c", code], plain)
    project = _project(base / "project")
    for number, package in enumerate(map(Path.resolve, packages)):
        environment = {
            **plain,
            "PYTHONPATH": str(package),
            "CODEFLASH_PARALLEL_CACHE_DIR": str(base / f"cache-{number}"),
        }
        for words in _calls(project):
            argv = [sys.executable, "-c", START, *words]
            yield (
                f"{number} {package.name}: {' '.join(words[:2])} {'--json' if '--json' in words else ''}",
                (argv, environment),
            )


def _calls(project: Path) -> list[list[str]]:
    submit = [
        "queue",
        "submit",
        "--candidates",
        str(project.parent / "right.py"),
        "--function",
        "words.py::shout",
    ]
    new = [*submit, "--seed", "{n}"]  # another key each time
    return [
        new,
        [*new, "--json"],
        ["queue", "status", "--json"],
        ["queue", "list", "--json"],
        ["queue", "--help"],
        ["--version"],
        ["run", "--help"],
    ]


def _project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "words.py").write_text(WORDS)
    (folder.parent / "right.py").write_text(WORDS)
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    return folder


def _run(argv: Sequence[str], environment: Mapping[str, str], cwd: Path) -> tuple[float, float]:
    begun = time.perf_counter()
    process = subprocess.Popen(
        argv, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    assert status == 0, (argv, said)
    return 1000 * wall_s, 1000 * (usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
