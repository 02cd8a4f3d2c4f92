"""Time the targets of real cases, without the tool: alone on a workload of ours, and inside the tests.

    python benchmarks/real_cases/truth.py --repositories '/folder/{owner}+{name}/repo' a b --write

The base and each right candidate have a copy of the checkout, and take turns; a speedup is the median over
the rounds of the base's CPU seconds by the candidate's. `--write` puts it into the facts.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from build import Case, add_arguments, build, chosen

HERE = Path(__file__).parent
#: After so many wall seconds no other round is begun, once there were so many.
ENOUGH_S, LEAST_ROUNDS = 180.0, 3
#: Folder of the pytest plugin `outermost_calls`.
PLUGIN = HERE / "timing"
#: Decorators that make something other than a function: ours goes below them.
DESCRIPTORS = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "setter", "contextmanager"}
)

#: Runs `main` once, then for half a CPU second; prints the median CPU seconds and a digest of its result.
ALONE = """
import hashlib, os, runpy, statistics, sys, time
file, *targets = sys.argv[1:]
sys.path.insert(0, os.path.dirname(file))
main = runpy.run_path(file)["main"]
result = hashlib.sha256(repr(main()).encode()).hexdigest()
files = {os.path.realpath(getattr(each, "__file__", None) or "") for each in list(sys.modules.values())}
if not files.issuperset(targets):
    sys.exit(f"the workload imports something else than {targets}")
seconds, began = [], time.process_time()
while len(seconds) < 3 or time.process_time() - began < 0.5:
    before = time.process_time()
    main()
    seconds.append(time.process_time() - before)
print(statistics.median(seconds), result)
"""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The base or a candidate, in a tree of its own."""

    name: str
    case: Case
    tree: Path

    @property
    def targets(self) -> list[tuple[Path, str]]:
        """Return file and qualified name of each target."""
        places = [target.split("::") for target in self.case.facts["functions"]]
        return [(self.tree / path, name) for path, name in places]

    def run(self, *arguments: str, seed: int, code: Sequence[int] = (0,)) -> str:
        """Run the case's interpreter in the tree, whose own modules come first; return what it says."""
        roots = [self.tree / root for root in self.case.facts["src_roots"] or ["."]]
        paths = os.pathsep.join(map(str, [PLUGIN, *roots]))
        variables = {**self.case.environment, "PYTHONPATH": paths, "PYTHONHASHSEED": str(seed)}
        command = (self.case.python, *arguments)
        done = subprocess.run(
            command, cwd=self.tree, env=variables, text=True, capture_output=True, check=False
        )
        if done.returncode not in code:
            raise SystemExit(f"{self.case.name}, {self.name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def arms_of(case: Case, folder: Path) -> list[Arm]:
    """Make a tree for the base, the first, and for each candidate that is right or only slower than it."""
    right = [each["name"] for each in case.facts["candidates"] if each["class"] in {"right", "slower"}]
    arms = [Arm(name=name, case=case, tree=(folder / name).resolve()) for name in ("base", *right)]
    for arm in arms:
        shutil.copytree(case.checkout, arm.tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        if arm.name != "base":
            patch = (case.patches / f"{arm.name}.patch").resolve()
            subprocess.run(("git", "-C", arm.tree, "apply", patch), check=True)
    return arms


def alone(arm: Arm, seed: int) -> tuple[float, str]:
    """Return the CPU seconds of the case's workload, and a digest of what it returns."""
    files = sorted({os.path.realpath(path) for path, _ in arm.targets})
    seconds, digest = arm.run("-c", ALONE, str(arm.case.workload), *files, seed=seed).split()[-2:]
    return float(seconds), digest


def in_tests(arm: Arm, seed: int) -> tuple[float, float]:
    """Return the CPU seconds of the targets' outermost calls in the tests, and of the tests as a whole."""
    with tempfile.NamedTemporaryFile() as file:
        plugin = ("-p", "no:cacheprovider", "-p", "outermost_calls", "--outermost-calls", file.name)
        arm.run("-m", "pytest", "-q", *plugin, *arm.case.facts["test_args"], seed=seed, code=(0, 1))
        told = json.loads(Path(file.name).read_text(encoding="utf-8"))
    if not told["calls"]:
        raise SystemExit(f"{arm.case.name}, {arm.name}: the tests do not call the target")
    return told["target_s"], told["tests_s"]


def instrument(path: Path, name: str) -> None:
    """Decorate a target in its file, so that the plugin times it."""
    text = path.read_text(encoding="utf-8")
    line, column = _place(text, name)
    lines = text.splitlines(keepends=True)
    lines.insert(line - 1, f"{' ' * column}@__import__('outermost_calls').timed\n")
    path.write_text("".join(lines), encoding="utf-8")


def _place(text: str, name: str) -> tuple[int, int]:
    """Return the line, from 1, before which a decorator of a target goes, and its column."""
    nodes: list[ast.AST] = [ast.parse(text)]
    for part in name.split("."):
        nodes = [each for node in nodes for each in _scopes(node) if each.name == part]
    functions = [each for each in nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    if not functions:
        raise SystemExit(f"there is no function {name}")
    function = functions[-1]  # those before it may be overloads
    below = [*function.decorator_list, function]
    names = [ast.unparse(each).split("(")[0].split(".")[-1] for each in function.decorator_list]
    at = max((index + 1 for index, each in enumerate(names) if each in DESCRIPTORS), default=0)
    return below[at].lineno, function.col_offset


def _scopes(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the functions and classes right inside a node, those under conditions included."""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each
        else:
            yield from _scopes(each)


def medians(
    arms: Sequence[Arm], measure: Callable[[Arm, int], tuple[float, Any]], rounds: int
) -> tuple[dict[str, float], list[dict[str, tuple[float, Any]]]]:
    """Return each candidate's median speedup over rounds in which the arms take turns, and the rounds."""
    figures = []
    began = time.monotonic()
    for number in range(rounds):
        if number >= LEAST_ROUNDS and time.monotonic() - began > ENOUGH_S:
            break
        turn = number % len(arms)
        figures.append({arm.name: measure(arm, number) for arm in (*arms[turn:], *arms[:turn])})
    speedups = {
        arm.name: round(statistics.median(each["base"][0] / each[arm.name][0] for each in figures), 3)
        for arm in arms[1:]
    }
    return speedups, figures


def truth_of(case: Case, rounds: int, *, tests: bool = True) -> dict[str, Any]:
    """Return `alone` and `tests` (speedups by candidate), `share` of the tests' time, the highest `load`.

    Where the tests are not run, `tests` and `share` are not there.
    """
    with tempfile.TemporaryDirectory(prefix="truth-", dir=case.folder) as folder:
        arms = arms_of(case, Path(folder))
        loads = [os.getloadavg()[0]]
        by_itself, figures = medians(arms, alone, rounds)
        for each in figures:
            other = [name for name, (_, digest) in each.items() if digest != each["base"][1]]
            if other:
                print(f"{case.name}: the workload's result differs: {', '.join(other)}", file=sys.stderr)
        loads.append(os.getloadavg()[0])
        if not tests:
            return {"alone": by_itself, "load": round(max(loads), 1)}
        for path, name in (target for arm in arms for target in arm.targets):
            instrument(path, name)
        on_tests, figures = medians(arms, in_tests, rounds)
        loads.append(os.getloadavg()[0])
    share = statistics.median(each["base"][0] / each["base"][1] for each in figures)
    load = round(max(loads), 1)
    return {"alone": by_itself, "tests": on_tests, "share": float(f"{share:.3g}"), "load": load}


def write(truth: dict[str, Any], path: Path) -> None:
    """Put `share` and `load` into a file of facts, and `alone` and `tests` into its candidates."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    for each in facts["candidates"]:
        if each["name"] in truth["alone"]:
            measured = {name: truth[name][each["name"]] for name in ("alone", "tests") if name in truth}
            each["truth"] = each.get("truth", {}) | measured
    facts["truth"] = facts.get("truth", {}) | {
        name: truth[name] for name in ("share", "load") if name in truth
    }
    path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--alone", action="store_true", help="not in the tests: where these take minutes")
    parser.add_argument("--write", action="store_true", help="into the facts, which must be a folder")
    options = parser.parse_args()
    for case in chosen(options):
        build(case, options.repositories)
        truth = truth_of(case, options.rounds, tests=not options.alone)
        print(f"\n## {case.name}: share of the tests' time {truth.get('share')}, load {truth['load']}\n")
        print("| candidate | alone | in the tests |\n| --- | --- | --- |")
        for name, speedup in truth["alone"].items():
            print(f"| {name} | {speedup:.3f} | {truth.get('tests', {}).get(name)} |", flush=True)
        if options.write:
            write(truth, options.facts / f"{case.name}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
