"""What isolation levels cost, side by side with none: ``python benchmarks/isolation_cost.py --rounds 40``.

Forks of a template and new processes are made in turn, one of each level a round, so that a busy machine is
busy for all. A figure is the median, over the rounds, of what a level took longer than `none` did in the same
round: wall time, and CPU time, which says more where the machine is busy. The bars, of wall time, are 15 ms
for a fork and 60 ms for a new process.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy
from codeflash_parallel.sandbox.level_probe import LevelProber
from codeflash_parallel.sandbox.runner_command import PACKAGE, install_runner

#: Wall and CPU milliseconds.
_Spent = tuple[float, float]
_BARS_MS = {"fork": 15.0, "new-process": 60.0}
_FRESH = (
    "import sys; sys.path.append(sys.argv[1]);"
    f"import json; from {PACKAGE} import confining; confining.confine(json.load(open(sys.argv[2])))"
)
#: Holds as much as a small project's template does; forks when it is told to, and says how long that took.
_TEMPLATE = f"""
import json, os, resource, sys, time
def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
sys.path.append(sys.argv[1])
from {PACKAGE} import confining
spec = json.load(open(sys.argv[2]))
ballast = [[number] for number in range(int(sys.argv[3]))]
confining.confine_template(spec)
for line in sys.stdin:
    began, spent = time.perf_counter(), cpu()
    pid = os.fork()
    if not pid:
        confining.confine(spec, template=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print(1000 * (time.perf_counter() - began), 1000 * (cpu() - spent), flush=True)
"""


def main() -> int:
    """Print a table; return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--objects", type=int, default=200_000, help="lists that the template holds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isolation-cost-", dir=Path.cwd()) as folder:
        lab = _Lab(Path(folder))
        took = lab.measure(asked.rounds, asked.objects)
    missed = False
    for kind, by_level in took.items():
        base = by_level[IsolationLevel.NONE]
        print(f"{kind}: none {statistics.median(wall for wall, _ in base):.1f} ms, {asked.rounds} rounds")
        for level, times in list(by_level.items())[1:]:
            wall, cpu = _more(times, base, 0), _more(times, base, 1)
            missed |= wall > _BARS_MS[kind]
            least, bar = min(times)[0] - min(base)[0], _BARS_MS[kind]
            print(f"  {level} +{wall:.1f} ms (bar {bar:.0f}), CPU +{cpu:.1f} ms, least +{least:.1f} ms")
    return int(missed)


def _more(times: list[_Spent], base: list[_Spent], which: int) -> float:
    return statistics.median(one[which] - other[which] for one, other in zip(times, base, strict=True))


class _Lab:
    def __init__(self, folder: Path) -> None:
        self._cache = folder / "cache"
        self._user = folder / "user"
        self._tree, self._private = self._cache / "slot" / "tree", self._cache / "slot" / "private"
        for place in (self._tree, self._private, self._user):
            place.mkdir(parents=True)
        self._runner = install_runner(self._cache)
        prober = LevelProber(interpreter=Path(sys.executable), runner_dir=self._runner, cache=self._cache)
        self._levels = [probe.level for probe in prober.every() if not probe.why_not]

    def measure(self, rounds: int, objects: int) -> dict[str, dict[IsolationLevel, list[_Spent]]]:
        took: dict[str, dict[IsolationLevel, list[_Spent]]] = {
            kind: {level: [] for level in self._levels} for kind in _BARS_MS
        }
        templates = {level: self._template(level, objects) for level in self._levels}
        try:
            for number in range(rounds + 1):
                for level in self._levels:
                    fork, new_process = _forked(templates[level]), self._fresh(level)
                    if number:  # the first round only warms up
                        took["fork"][level].append(fork)
                        took["new-process"][level].append(new_process)
        finally:
            for template in templates.values():
                template.communicate()
        return took

    def _template(self, level: IsolationLevel, objects: int) -> subprocess.Popen[str]:
        argv = self._argv(level, _TEMPLATE, str(objects))
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self._tree
        )

    def _fresh(self, level: IsolationLevel) -> _Spent:
        began, spent = time.perf_counter(), _cpu_of_children()
        subprocess.run(self._argv(level, _FRESH), check=True, cwd=self._tree)
        return 1000 * (time.perf_counter() - began), 1000 * (_cpu_of_children() - spent)

    def _argv(self, level: IsolationLevel, script: str, *more: str) -> list[str]:
        policy = IsolationPolicy(level=level, hidden=(str(self._user),), cache=str(self._cache))
        path = self._private / f"spec-{level}.json"
        spec = {
            "mode": "tests",
            "root": str(self._tree),
            "project": str(self._tree),
            "private": str(self._private),
            "user_root": str(self._user),
            "runner": str(self._runner),
            "path": str(path),
            "isolation": policy.as_spec(),
        }
        if not path.exists():
            path.write_text(json.dumps(spec), encoding="utf-8")
        return [sys.executable, "-c", script, str(self._runner), str(path), *more]


def _cpu_of_children() -> float:
    return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def _forked(template: subprocess.Popen[str]) -> _Spent:
    assert template.stdin is not None
    assert template.stdout is not None
    template.stdin.write("\n")
    template.stdin.flush()
    wall, cpu = map(float, template.stdout.readline().split())
    return wall, cpu


if __name__ == "__main__":
    raise SystemExit(main())
