"""False winners among identical arms, and power at a true speedup, on this machine as it is.

    python benchmarks/race_null.py --tries 20 --arms 3 --call-us 100              # nobody is faster
    python benchmarks/race_null.py --tries 20 --arms 3 --call-us 100 --gain 1.3   # one arm is

Every try is a whole campaign: race, confirmations, ranking, with the real guest and fresh processes. The
rate of winners comes with its exact binomial interval (Clopper and Pearson, 95 %).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from math import comb
from pathlib import Path
from random import Random

import anyio

from codeflash_parallel.benchmark.plan import Arm, RacePlan, cost_groups
from codeflash_parallel.benchmark.race import race
from codeflash_parallel.benchmark.rank import Ranking, contenders, rank
from codeflash_parallel.benchmark.unit import Bench
from codeflash_parallel.model.workspace import Limits, Workspace
from codeflash_parallel.process.guest import guest_command, install_guest, parse_records
from codeflash_parallel.process.launcher import Launcher, open_launcher

#: Loops of the burning function in one microsecond, about.
LOOPS_PER_US = 25
LIMITS = Limits(wall_s=600, cpu_s=600)
TARGET = {"targets": [{"path": "mod.py", "qualname": "burn"}], "prove": ["mod.py"], "seed": 1}


def burn_source(loops: int, name: str) -> str:
    return (
        f"# {name}\ndef burn(x):\n    total = x\n    for i in range({loops}):\n"
        "        total += i & 3\n"
        f"    return total * 0 + x\n"
    )


def test_source(calls: int) -> str:
    return (
        "import pytest\nimport mod\n\n\n"
        f'@pytest.mark.parametrize("x", range({calls}))\ndef test_burn(x):\n    assert mod.burn(x) == x\n'
    )


def workspace(folder: Path, name: str, loops: int, calls: int) -> Workspace:
    root, private = folder / name / "tree", folder / name / "private"
    root.mkdir(parents=True)
    private.mkdir()
    (root / "mod.py").write_text(burn_source(loops, name))
    (root / "test_mod.py").write_text(test_source(calls))
    (root / "pytest.ini").write_text("[pytest]\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(private), "PYTHONDONTWRITEBYTECODE": "1"}
    return Workspace(
        root=root,
        project=root,
        user_root=folder / "user",
        interpreter=Path(sys.executable),
        private=private,
        environment=environment,
    )


async def capture(runner: Launcher, place: Workspace, guest_dir: Path, inputs: Path) -> RacePlan:
    spec = {
        **TARGET,
        "mode": "tests",
        "args": ["-p", "no:randomly", "-p", "no:asyncio"],
        "select": None,
        "wrap": "capture",
        "budget": {"calls": 2000, "bytes": 10**8, "seconds": 30.0},
        "inputs": str(inputs),
        "stop": "never",
        "tracebacks": "none",
        "workers": 0,
    }
    done = await runner.run(guest_command(place, spec, LIMITS, guest_dir))
    calls = [r for r in parse_records(done.records) if r["t"] == "call"]
    groups = cost_groups([(r["i"], r["test"], r["ns"]) for r in calls])
    return RacePlan(groups=groups, cores=tuple(sorted(os.sched_getaffinity(0))))


async def campaign(bench: Bench, baseline: Arm, arms: dict[str, Arm], plan: RacePlan, seed: int) -> Ranking:
    random = Random(seed)
    races = [await race(bench, baseline, list(arms.values()), plan, random=random)]
    confirmations = []
    while ids := contenders(races, confirmations, plan, limit=len(arms)):
        chosen = [arms[i] for i in ids]
        again = plan.confirmation(plan.budget_ns)
        confirmations.append(await race(bench, baseline, chosen, again, random=random))
    return rank(races, confirmations, plan, {})


def exact_interval(hits: int, tries: int, alpha: float = 0.05) -> tuple[float, float]:
    """Return the Clopper-Pearson bounds, by bisection on the exact tails."""

    def below(chance: float, upto: int) -> float:
        return sum(comb(tries, k) * chance**k * (1 - chance) ** (tries - k) for k in range(upto + 1))

    def solve(upto: int, target: float) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if below(middle, upto) > target else (low, middle)
        return low

    lowest = 0.0 if hits == 0 else solve(hits - 1, 1 - alpha / 2)
    highest = 1.0 if hits == tries else solve(hits, alpha / 2)
    return lowest, highest


async def main(options: argparse.Namespace) -> None:
    loops = options.call_us * LOOPS_PER_US
    verdicts: Counter[str] = Counter()
    winners: Counter[str] = Counter()
    seconds, estimates = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with open_launcher() as runner:
            guest_dir = install_guest(folder / "cache")
            base = workspace(folder, "base", loops, options.calls)
            inputs = folder / "inputs"
            plan = await capture(runner, base, guest_dir, inputs)
            spec = {**TARGET, "inputs": str(inputs)}
            true = {f"arm{i}": 1.0 for i in range(options.arms)}
            true["arm0"] = options.gain
            arms = {
                arm: Arm(
                    id=arm, workspace=workspace(folder, arm, int(loops / gain), options.calls), spec=spec
                )
                for arm, gain in true.items()
            }
            bench = Bench(runner=runner, guest_dir=guest_dir, limits=LIMITS)
            baseline = Arm(id="base", workspace=base, spec=spec)
            for number in range(options.tries):
                began = time.perf_counter()
                ranking = await campaign(bench, baseline, arms, plan, options.seed + number)
                seconds.append(time.perf_counter() - began)
                verdicts[str(ranking.verdict)] += 1
                winners[ranking.winner or "-"] += 1
                if found := ranking.of(ranking.winner):
                    estimates.append(found.speedup.estimate)
                print(
                    f"{number:3d} {seconds[-1]:6.1f} s  load {os.getloadavg()[0]:4.1f}  {ranking.summary}",
                    flush=True,
                )
    report(options, verdicts, winners, seconds, estimates)


def report(options, verdicts, winners, seconds, estimates) -> None:
    expected = {"arm0"} if options.gain > 1 else set()
    false = sum(n for arm, n in winners.items() if arm not in {*expected, "-"})
    found = sum(winners[arm] for arm in expected)
    print(f"verdicts {dict(verdicts)}; winners {dict(winners)}")
    for label, hits in (("false winners", false), *((("found", found),) if expected else ())):
        low, high = exact_interval(hits, options.tries)
        print(f"{label}: {hits} of {options.tries} (95 %: {low:.1%} to {high:.1%})")
    print(f"seconds: median {statistics.median(seconds):.1f}, longest {max(seconds):.1f}")
    if estimates:
        middle = statistics.median(estimates)
        print(f"estimates: {min(estimates):.3f} to {max(estimates):.3f}, median {middle:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--arms", type=int, default=3)
    parser.add_argument("--call-us", type=int, default=100, help="length of one call in microseconds, about")
    parser.add_argument("--calls", type=int, default=20, help="distinct inputs")
    parser.add_argument("--gain", type=float, default=1.0, help="true speedup of the first arm")
    parser.add_argument("--seed", type=int, default=1)
    anyio.run(main, parser.parse_args())
