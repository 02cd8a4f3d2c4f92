"""Calls timed inside their tests, against copies of the same calls; and cheats, timed inside their tests.

    python benchmarks/in_place.py [--functions roman ...] [--cheats work_in_a_thread ...] [--budget 40]
        [--file in_place.jsonl]

Ten functions, each with an honest rewrite, are timed in both ways by the rules of a confirmation: the
intervals of the two gains must overlap. (Calls of 0.2 to 5 ms: short ones run colder inside of a test.) Of
the self-test's cheats on clocks, and of two that forge announcements, none may be credited with more than 1.1
where calls are timed in place. Exits 1 if two intervals are apart, or a cheat was credited.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, isfinite
from pathlib import Path
from random import Random
from typing import Any

import anyio
from workloads import machine

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.race.cost_groups import cost_groups, whole_test_groups
from codeflash_parallel.race.plan import Arm, RacePlan, WorkKind
from codeflash_parallel.race.race import race
from codeflash_parallel.race.race_result import RaceOutcome
from codeflash_parallel.race.ranking.arm_comparison import ArmComparison, confirmation_of, contenders
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.outcome_codes import CandidateStatus
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox.runner_command import install_runner, parse_records, start_command

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from selftest.entries import TOKEN, bases, corpus

#: A cheat may be credited with so much.
CREDIT = 1.1
LIMITS = ProcessLimits(wall_s=60, cpu_s=60)

#: Function → its text, an honest rewrite, and expressions of the arguments that its tests hand over.
FUNCTIONS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "roman": (
        """def roman(numbers):
    found = []
    for number in numbers:
        text = ""
        for value, letters in [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
                               (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]:
            while number >= value:
                text += letters
                number -= value
        found.append(text)
    return found
""",
        """ONES, TENS, HUNDREDS = ([""] + [w.translate({105: a, 118: b, 120: c}) for w in
    ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")] for a, b, c in ("IVX", "XLC", "CDM"))


def roman(numbers):
    return ["M" * (n // 1000) + HUNDREDS[n // 100 % 10] + TENS[n // 10 % 10] + ONES[n % 10] for n in numbers]
""",
        [
            *(f"list(range({start}, {start} + 900))" for start in (1, 300, 1500, 2900)),
        ],
    ),
    "distance": (
        """def distance(one, other):
    rows = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if i == 0 or j == 0:
                rows[i][j] = i + j
            else:
                cost = 0 if one[i - 1] == other[j - 1] else 1
                rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + cost)
    return rows[-1][-1]
""",
        """def distance(one, other):
    before = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other):
            best = before[j] if a == b else before[j] + 1
            row.append(min(best, before[j + 1] + 1, row[j] + 1))
        before = row
    return before[-1]
""",
        [
            "'kitten' * 9, 'sitting' * 8",
            "'abcdefgh' * 9, 'hgfedcba' * 9",
            "'intention' * 9, 'execution' * 7",
        ],
    ),
    "primes": (
        """def primes(limit):
    found = []
    for number in range(2, limit):
        if all(number % other for other in found):
            found.append(number)
    return found
""",
        """def primes(limit):
    sieve = bytearray([1]) * limit
    for number in range(2, int(limit ** 0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, limit, number)))
    return [number for number in range(2, limit) if sieve[number]]
""",
        [
            "1500",
            "2500",
            "3500",
        ],
    ),
    "runs": (
        """def runs(text):
    found, i = [], 0
    while i < len(text):
        j = i
        while j < len(text) and text[j] == text[i]:
            j = j + 1
        found.append((text[i], j - i))
        i = j
    return found
""",
        """from itertools import groupby


def runs(text):
    return [(letter, len(list(group))) for letter, group in groupby(text)]
""",
        [
            "'aaabbbcccd' * 600",
            "'abc' * 1500",
            "'x' * 5000 + 'yz' * 900",
        ],
    ),
    "stream": (
        """def stream(numbers):
    total = 0
    for number in numbers:
        for _ in range(400):
            total = (total * 31 + number) % 1000003
        yield total
""",
        """def stream(numbers):
    total = 0
    for number in numbers:
        for _ in range(200):
            total = (total * 961 + number * 32) % 1000003
        yield total
""",
        [
            "range(20)",
            "[5, 7] * 12",
            "range(90, 40, -3)",
        ],
    ),
    "flatten": (
        """def flatten(tree, prefix=""):
    found = {}
    for key, value in tree.items():
        name = prefix + "." + key if prefix else key
        if isinstance(value, dict):
            for inner, leaf in flatten(value, name).items():
                found[inner] = leaf
        else:
            found[name] = value
    return found
""",
        """def filled(found, tree, prefix):
    for key, value in tree.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict):
            filled(found, value, name)
        else:
            found[name] = value
    return found


def flatten(tree, prefix=""):
    return filled({}, tree, prefix)
""",
        [
            "{f'k{i}': {f'm{j}': j for j in range(12)} for i in range(200)}",
            "{f'a{i}': {'b': {'c': i}} for i in range(900)}",
        ],
    ),
    "product": (
        """def product(a, b):
    found = []
    for i in range(len(a)):
        row = []
        for j in range(len(b[0])):
            total = 0
            for k in range(len(b)):
                total += a[i][k] * b[k][j]
            row.append(total)
        found.append(row)
    return found
""",
        """from operator import mul


def product(a, b):
    columns = list(zip(*b))
    return [[sum(map(mul, row, column)) for column in columns] for row in a]
""",
        [
            "[[i + j for j in range(29)] for i in range(29)], [[i - 9] * 29 for i in range(29)]",
            "[list(range(40))] * 20, [[3, 4, 5] * 5] * 40",
        ],
    ),
    "words": (
        """def words(text):
    counts = {}
    for word in text.split():
        clean = ""
        for letter in word:
            if letter.isalpha():
                clean = clean + letter.lower()
        if clean:
            counts[clean] = counts.get(clean, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
""",
        """import re
from collections import Counter


def words(text):
    counts = Counter(re.findall("[a-z]+", text.lower().replace("-", "").replace(".", "")))
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
""",
        [
            "'the quick brown fox. the lazy-dog ' * 250",
            "' '.join('abcdef'[i % 6] * (i % 5 + 1) for i in range(2500))",
        ],
    ),
    "average": (
        """def average(values, width):
    found = []
    for i in range(len(values) - width + 1):
        found.append(sum(values[i : i + width]) // width)
    return found
""",
        """def average(values, width):
    total = sum(values[:width])
    found = [total // width]
    for new, old in zip(values[width:], values):
        total += new - old
        found.append(total // width)
    return found
""",
        [
            "list(range(3000)), 25",
            "[7, 3, 9, 1] * 600, 40",
        ],
    ),
    "order": (
        """def order(edges):
    left, found = dict(edges), []
    while left:
        for node in sorted(left):
            if not any(other in left for other in left[node]):
                found.append(node)
                del left[node]
                break
    return found
""",
        """import heapq


def order(edges):
    waits, users = {node: len(set(needs)) for node, needs in edges.items()}, {}
    for node, needs in edges.items():
        for other in set(needs):
            users.setdefault(other, []).append(node)
    ready, found = [node for node, count in waits.items() if not count], []
    heapq.heapify(ready)
    while ready:
        found.append(node := heapq.heappop(ready))
        for user in users.get(node, ()):
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, user)
    return found
""",
        [
            "{i: [i - 1, i - 2] if i > 1 else [] for i in range(400)}",
            "{i: [i // 2] if i else [] for i in range(500)}",
        ],
    ),
}


#: Cheats that only a timer inside of tests meets: they announce the end of a call before its work is done.
FORGED = """
import sys

_work = work


def work(items):
    windows = sys.modules.get("_codeflash_runner.capture.timing_windows")
    if windows is None or not windows.CURRENT:
        return _work(items)
    announcer = windows.CURRENT[0]
    announcer.leave()
    found = _work(items)
    {then}
    return found
"""
FORGERIES = {
    "forged_end": FORGED.format(then="announcer.leave = lambda: delattr(announcer, 'leave')"),
    "forged_end_and_begin": FORGED.format(then="announcer.enter()"),
}


def tests_of(name: str, inputs: Sequence[str]) -> str:
    """Return tests that hand over some arguments; what is lazy is worked off."""
    parts = [f"def test_{n}():\n    given({text})\n" for n, text in enumerate(inputs)]
    given = f"def given(*args):\n    found = {name}(*args)\n    assert found is not None\n"
    if name == "stream":
        given = "def given(*args):\n    assert sum(stream(*args))\n"
    return f"from mod import {name}\n\n\n" + "\n\n".join([given, *parts])


class Lab:
    """One project, raced in copies of it."""

    def __init__(
        self, folder: Path, launcher: Any, module: str, tests: str, target: str, budget_s: float
    ) -> None:
        self._folder, self._module, self._tests = folder, module, tests
        self._bench = RaceEnvironment(
            launcher=launcher, runner_dir=install_runner(folder / "cache"), limits=LIMITS
        )
        self._spec = {"targets": [{"path": "mod.py", "qualname": target}], "prove": ["mod.py"], "seed": 1}
        self._budget_ns = int(budget_s * 1e9)

    def workspace(self, name: str, code: str) -> Workspace:
        root, private = self._folder / name / "tree", self._folder / name / "private"
        for place in (root, private / "home", private / "tmp"):
            place.mkdir(parents=True)
        (root / "mod.py").write_text(self._module + code)
        (root / "test_mod.py").write_text(self._tests)
        (root / "pytest.ini").write_text("[pytest]\n")
        environment = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"HOME": str(private / "home"), "TMPDIR": str(private / "tmp")}
        return Workspace(
            root=root,
            project=root,
            user_root=self._folder / "user",
            interpreter=Path(sys.executable),
            private=private,
            environment=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )

    async def plan(self, baseline: Workspace, work: WorkKind) -> tuple[dict[str, Any], RacePlan]:
        """Return fields of the arms' spec and the rules, from one run of the tests."""
        inputs = self._folder / f"inputs-{work.value}"
        run = {"mode": "tests", "args": [], "select": None, "wrap": "capture", "inputs": str(inputs)}
        run |= {"budget": {"calls": 200, "bytes": 10**7, "seconds": 10.0}, "stop": "never", "workers": 0}
        spec = {**self._spec, **run, "tracebacks": "short"}
        command = start_command(baseline, spec, LIMITS, self._bench.runner_dir)
        records = parse_records((await self._bench.launcher.run(command)).records)
        calls = [record for record in records if record["t"] == "call"]
        if work is WorkKind.CALLS:
            groups = cost_groups([(r["i"], r["test"], r["ns"], r["inputs"]) for r in calls])
            more: dict[str, Any] = {"inputs": str(inputs)}
        else:
            groups = whole_test_groups([(record["test"], record["ns"]) for record in calls])
            more = {**run, "wrap": "announce", "tracebacks": "short"}
            more["inputs"] = ""
        cores = tuple(os.sched_getaffinity(0))
        return {**self._spec, **more}, RacePlan(
            groups=groups, work=work, budget_ns=self._budget_ns, cores=cores
        )

    async def interval(self, work: WorkKind, code: str) -> tuple[float, float, float]:
        """Return the gain of a rewrite by the rules of a confirmation, and its interval."""
        baseline = self.workspace(f"base-{work.value}", "")
        spec, plan = await self.plan(baseline, work)
        candidate = self.workspace(f"other-{work.value}", "\n\n" + code)
        arms = [Arm(id=name, workspace=w, spec=spec) for name, w in (("", baseline), ("x", candidate))]
        plan = plan.confirmation(self._budget_ns)
        raced = await race(self._bench, arms[0], arms[1:], plan, random=Random(1))
        bound = ArmComparison.of(_held(raced), "x").bound
        return exp(bound.estimate), exp(bound.low), exp(bound.high)

    async def credited(self, code: str) -> tuple[float, str]:
        """Return what is credited to a cheat in place, and what is said of it."""
        baseline, candidate = self.workspace("base", ""), self.workspace("cheat", code)
        spec, plan = await self.plan(baseline, WorkKind.IN_PLACE)
        plan = replace(plan, target=CREDIT - 1)
        base, arm = (Arm(id=i, workspace=w, spec=spec) for i, w in (("", baseline), ("x", candidate)))
        random = Random(1)
        raced, held = await race(self._bench, base, [arm], plan, random=random), list[RaceOutcome]()
        while contenders([raced], held, plan, limit=1):
            again = confirmation_of([raced], held, plan, ["x"])
            held.append(await race(self._bench, base, [arm], again, random=random))
        said = rank([raced], held, plan, {}).of("x")
        won = said.speedup.estimate if said.status is CandidateStatus.WON and said.speedup else 1.0
        return won, f"{said.status.value} {said.code.value}: {said.reason}"


def _held(raced: RaceOutcome) -> Any:
    if not hasattr(raced, "tracks") or not raced.tracks["x"].total:
        raise SystemExit(f"not timed: {raced}")
    return raced


async def agreement(launcher: Any, name: str, budget_s: float) -> dict[str, Any]:
    """Time a rewrite by copies and in place."""
    text, rewrite, inputs = FUNCTIONS[name]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), launcher, text, tests_of(name, inputs), name, budget_s)
        for work in (WorkKind.CALLS, WorkKind.IN_PLACE):
            found[work.value] = await lab.interval(work, rewrite)
    (_, low, high), (_, other_low, other_high) = found.values()
    is_found = isfinite(high) and isfinite(other_high)
    return {"function": name, **found, "agrees": is_found and low <= other_high and other_low <= high}


async def cheated(launcher: Any, name: str, budget_s: float) -> dict[str, Any]:
    """Race a cheat in place."""
    base, entry = bases()["clock"], next((entry for entry in corpus() if entry.name == name), None)
    with tempfile.TemporaryDirectory() as folder:
        files = base.files
        function, code = (entry.timing.function, entry.code) if entry else ("work", FORGERIES[name])
        lab = Lab(Path(folder), launcher, files["mod.py"], files["test_mod.py"], function, budget_s)
        credit, said = await lab.credited(code.replace(TOKEN, f"{TOKEN}-in-place"))
    for path in Path("/dev/shm").glob(f"{TOKEN}-in-place*"):  # noqa: ASYNC240 - nothing else runs
        path.unlink()
    return {"cheat": name, "credited": credit, "said": said}


async def main(options: argparse.Namespace) -> int:
    print(machine(), flush=True)
    faults = 0
    async with open_launcher() as launcher:
        jobs = [(agreement, name) for name in options.functions] + [
            (cheated, name) for name in options.cheats
        ]
        for do, name in jobs:
            line = await do(launcher, name, options.budget)
            faults += not line.get("agrees", line.get("credited", 0) <= CREDIT)
            print(json.dumps(line), flush=True)
            if options.file:
                with options.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    print(f"{faults} faults; load {os.getloadavg()[0]:.2f}")
    return 1 if faults else 0


if __name__ == "__main__":
    cheats = [*FORGERIES, *(entry.name for entry in corpus() if entry.family == "clock")]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", nargs="*", default=list(FUNCTIONS), choices=list(FUNCTIONS))
    parser.add_argument("--cheats", nargs="*", default=cheats, choices=cheats)
    parser.add_argument("--budget", type=float, default=40.0, help="wall seconds of each race")
    parser.add_argument("--file", type=Path, help="JSON lines are appended")
    sys.exit(anyio.run(main, parser.parse_args()))
