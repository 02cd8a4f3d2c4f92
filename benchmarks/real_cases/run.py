"""Run the real cases: the project's tests alone, then the tool, by one version of it or by several in turn.

    python benchmarks/real_cases/run.py --repositories '/folder/{owner}+{name}/repo' --output runs.jsonl \\
        --program old=/old/venv/bin/python --program new=/new/venv/bin/python NAME NAME

Appends a JSON line a run to the output, and says how each is judged; a run that the output has already is not
made again. What stands after `--` is for the tool.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build import Case, add_arguments, build, chosen, pytest_command, restore
from judge import AIM_BASE_S, AIM_FACTOR, judge

#: The name that our workload has in the checkout of a run with `--supplied`.
SUPPLIED = "codeflash_bench_workload.py"
#: A run that was interrupted has so long to end by itself.
GRACE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Wall seconds that a run may take: a figure, or a base and a multiple of the tests alone."""

    fixed_s: float | None
    base_s: float
    factor: float

    def seconds(self, plain_s: float) -> float:
        return self.fixed_s if self.fixed_s is not None else self.base_s + self.factor * plain_s


@dataclass(frozen=True, kw_only=True)
class Program:
    """A version of the tool: an interpreter that has it."""

    label: str
    python: str

    @classmethod
    def parse(cls, text: str) -> Program:
        label, _, python = text.rpartition("=")
        return cls(label=label or "program", python=str(Path(python).absolute()))


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended: its exit code, its seconds, and those it took to end once it was interrupted."""

    exit_code: int
    wall_s: float
    interrupted_after_s: float | None = None
    ended_within_s: float | None = None
    killed: bool = False


def plain_seconds(case: Case, times: int) -> float:
    """Return the wall seconds of the project's tests alone, the best of some runs."""
    seconds = []
    for _ in range(times):
        began = time.monotonic()
        done = subprocess.run(
            pytest_command(case), cwd=case.checkout, env=case.environment, capture_output=True, check=False
        )
        seconds.append(time.monotonic() - began)
        if done.returncode not in {0, 1}:
            raise SystemExit(f"{case.name}: its tests do not run:\n{done.stdout.decode(errors='replace')}")
    restore(case)
    return min(seconds)


def tool_command(case: Case, program: Program, document: Path, cache: Path, more: Sequence[str]) -> list[str]:
    """Return the command that evaluates the case's candidates."""
    arguments = list(case.facts["test_args"])
    keyword: list[str] = []
    if "-k" in arguments:
        at = arguments.index("-k")
        keyword = arguments[at : at + 2]
        del arguments[at : at + 2]
    targets = [word for target in case.facts["functions"] for word in ("--function", target)]
    accept = ["--accept", case.facts["accept"]] if "accept" in case.facts else []
    return [
        *(program.python, "-m", "codeflash_parallel", "run", "--project", str(case.checkout)),
        *("--python", str(case.python), *targets, *accept, "--tests", *arguments, *keyword),
        *("--candidates", str(case.patches), "-j", "2", "--cache-dir", str(cache)),
        *("--output-format", "json", "--output", str(document), *more),
    ]


def run_limited(command: Sequence[str], case: Case, cache: Path, said: Path, limit_s: float) -> Ended:
    """Run a command; interrupt it at its limit, and kill it where that does not end it."""
    environment = {**case.environment, "XDG_CACHE_HOME": str(cache)}
    began = time.monotonic()
    with said.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=case.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            code = process.wait(limit_s)
            return Ended(exit_code=code, wall_s=time.monotonic() - began)
        except subprocess.TimeoutExpired:
            return _end(process, began)
        except BaseException:
            _end(process, began)
            raise


def _end(process: subprocess.Popen[bytes], began: float) -> Ended:
    interrupted = time.monotonic()
    process.send_signal(signal.SIGINT)
    killed = False
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        killed = True
    # What the tool has left behind in its session goes with it.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    code = process.wait()
    now = time.monotonic()
    return Ended(
        exit_code=code,
        wall_s=now - began,
        interrupted_after_s=interrupted - began,
        ended_within_s=now - interrupted,
        killed=killed,
    )


def run_tool(
    case: Case, program: Program, limit_s: float, more: Sequence[str], *, supplied: bool
) -> dict[str, Any]:
    """Evaluate the case's candidates with nothing cached; return the line that is kept.

    Args:
        case: to be run.
        program: the version of the tool.
        limit_s: wall seconds after which it is interrupted.
        more: arguments for the tool.
        supplied: time our workload of the targets in place of what the tool chooses.
    """
    if supplied:
        if not case.workload.exists():
            raise SystemExit(f"{case.name} has no workload that could be supplied")
        shutil.copyfile(case.workload, case.checkout / SUPPLIED)
    runs = case.folder / "runs"
    runs.mkdir(exist_ok=True)
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{program.label}{'-supplied' * supplied}"
    document, said = runs / f"{stem}.json", runs / f"{stem}.txt"
    cache = Path(tempfile.mkdtemp(prefix="cache-", dir=case.folder))
    load_before = os.getloadavg()[0]
    try:
        benchmark = ("--benchmark", f"{SUPPLIED}::main") if supplied else ()
        command = tool_command(case, program, document, cache, [*benchmark, *more])
        ended = run_limited(command, case, cache, said, limit_s)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
        restore(case)
    words = [line for line in said.read_text(errors="replace").splitlines() if line.strip()]
    return {
        "case": case.name,
        "label": program.label,
        "wall_s": ended.wall_s,
        "limit_s": limit_s,
        "supplied": supplied,
        "unfinished": ended.interrupted_after_s is not None,
        "ended_within_s": ended.ended_within_s,
        "killed": ended.killed,
        "exit_code": ended.exit_code,
        "cores": os.cpu_count(),
        "load_before": load_before,
        "load_after": os.getloadavg()[0],
        "options": list(more),
        "last_words": words[-3:],
        "document": _useful(_read(document)),
    }


def _read(document: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


#: What is kept of a result document, and of each of its candidates.
OF_DOCUMENT = (
    *(
        "schema_version",
        "complete",
        "error",
        "verdict",
        "winner",
        "tie_set",
        "isolation",
        "tests_selected",
        "level",
    ),
    *(
        "derivation",
        "quarantined",
        "warnings",
        "timings",
        "steps_ms",
        "load",
        "slots",
        "warm",
        "race",
        "summary",
    ),
)
OF_CANDIDATE = (
    *(
        "id",
        "status",
        "code",
        "reason",
        "duplicate_of",
        "tests",
        "values",
        "speedup",
        "group_speedups",
        "race",
    ),
    *("difference", "outside", "failures", "flags", "notes", "timings_ms", "served", "served_why"),
)


def _useful(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if document is None:
        return None
    candidates = [{name: each.get(name) for name in OF_CANDIDATE} for each in document["candidates"]]
    return {**{name: document.get(name) for name in OF_DOCUMENT}, "candidates": candidates}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON lines are appended")
    parser.add_argument(
        "--program", action="append", default=[], metavar="[LABEL=]PYTHON", help="default: this one"
    )
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="of a run; default: base and factor")
    parser.add_argument("--limit-base", type=float, default=AIM_BASE_S, metavar="SECONDS")
    parser.add_argument(
        "--limit-factor", type=float, default=AIM_FACTOR, metavar="X", help="of the tests alone"
    )
    parser.add_argument(
        "--plain", type=int, default=2, metavar="N", help="runs of the tests alone; the best counts"
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="runs of each program")
    parser.add_argument(
        "--supplied", action="store_true", help="the tool is given the case's workload as --benchmark"
    )
    ours, more = _split(sys.argv[1:])
    options = parser.parse_args(ours)
    limit = Limit(fixed_s=options.limit, base_s=options.limit_base, factor=options.limit_factor)
    programs = [Program.parse(text) for text in options.program] or [Program.parse(sys.executable)]
    before = made(options.output)
    for case in chosen(options):
        kinds = [(case.name, each.label, options.supplied, tuple(more)) for each in programs]
        missing = [
            program
            for number in range(options.repeat)
            for program, kind in zip(programs, kinds, strict=True)
            if number >= before[kind]
        ]
        if not missing:
            continue
        build(case, options.repositories)
        plain_s = plain_seconds(case, options.plain)
        print(f"{case.name}: its tests alone take {plain_s:.1f} s", file=sys.stderr, flush=True)
        for program in missing:
            told = run_tool(case, program, limit.seconds(plain_s), more, supplied=options.supplied)
            line = {**told, "plain_s": plain_s}
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{case.name}, {program.label}: {judge(case.facts, line)}", file=sys.stderr, flush=True)
    return 0


def made(output: Path) -> Counter[tuple[str, str, bool, tuple[str, ...]]]:
    """Return how many runs an output has, by case, label, whether a workload was supplied, and options."""
    lines = [json.loads(text) for text in output.read_text("utf-8").splitlines()] if output.exists() else []
    return Counter(
        (line["case"], line["label"], line.get("supplied", False), tuple(line["options"])) for line in lines
    )


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before `--`, and those behind it."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


if __name__ == "__main__":
    sys.exit(main())
