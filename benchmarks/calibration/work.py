"""What the calibration times: small functions whose cost is known, in projects of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.config.environment import private_folders, project_environment
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.race.cost_groups import cost_groups
from codeflash_parallel.race.plan import Arm, RacePlan, WorkKind
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.race_phase.workload import Workload, budget_ns
from codeflash_parallel.run.race_phase.workload_choice import twinned
from codeflash_parallel.sandbox.runner_command import parse_records, start_command

LIMITS = ProcessLimits(wall_s=600, cpu_s=600)
TARGET = {"targets": [{"path": "mod.py", "qualname": "work"}], "prove": ["mod.py"], "seed": 1}

COMPUTING = """
def work(x):
    total = x
    for i in range({size}):
        total += i & 3
    return total * 0 + x
"""
#: In pieces: one list of all rows is not in proportion to its size, because fewer rows cross fewer of the
#: garbage collector's thresholds (5 % fewer rows were 0 to 10 % faster, by what ran before).
ALLOCATING = """
def work(x):
    made = 0
    for _ in range({size}):
        made += len([{{"number": i, "pair": (i, x), "text": str(i)}} for i in range(250)])
    return made * 0 + x
"""
CALCULATING = """
import numpy

ROW = numpy.arange(2000, dtype=float)


def work(x):
    row = ROW
    for _ in range({size}):
        row = numpy.sqrt(row + 1.0)
    return int(row[0] * 0) + x
"""
TESTS = """
import pytest
import mod


@pytest.mark.parametrize("x", range(10, 10 + {tests}))
def test_work(x):
    assert mod.work(x) == x
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedWork:
    """A function of which the cost grows in proportion to its size.

    Attributes:
        call: how long a call takes, about, for tables.
        size: of the baseline's version.
        needs: a package that the interpreter must have.
        is_long: a call is so long that nothing is repeated in a round; its rates are told apart.
    """

    name: str
    call: str
    text: str = field(repr=False)
    size: int
    needs: str = ""
    is_long: bool = False

    def source(self, label: str, gain: float = 1.0) -> str:
        """Return a module whose function does `1 / gain` of the work; the label makes files differ."""
        return f"# {label}\n" + self.text.format(size=round(self.size / gain))

    def true_gain(self, gain: float) -> float:
        """Return the gain after rounding to whole steps."""
        return self.size / round(self.size / gain)


WORKS = {
    work.name: work
    for work in (
        TimedWork(name="python-20us", call="20 µs", text=COMPUTING, size=700),
        TimedWork(name="python-100us", call="0.1 ms", text=COMPUTING, size=3500),
        TimedWork(name="allocation-5ms", call="5 ms", text=ALLOCATING, size=120),
        TimedWork(name="numpy-1ms", call="1 ms", text=CALCULATING, size=400, needs="numpy"),
        TimedWork(name="python-300ms", call="0.3 s", text=COMPUTING, size=10_000_000, is_long=True),
    )
}


def has_package(interpreter: Path, package: str) -> bool:
    """Return whether an interpreter can import a package."""
    probe = [str(interpreter), "-c", f"import {package}"]
    return not package or subprocess.run(probe, capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Course:
    """Where one work with some tests is raced: a folder, an interpreter and the baseline's captured calls."""

    folder: Path
    work: TimedWork
    tests: int
    bench: RaceEnvironment
    interpreter: Path = Path(sys.executable)

    def workspace(self, label: str, gain: float = 1.0) -> Workspace:
        """Make the project of one arm."""
        root, private = self.folder / label / "tree", self.folder / label / "private"
        for place in (root, *private_folders(private)):
            place.mkdir(parents=True)
        (root / "mod.py").write_text(self.work.source(label, gain), encoding="utf-8")
        (root / "test_mod.py").write_text(TESTS.format(tests=self.tests), encoding="utf-8")
        (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        more = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return Workspace(
            root=root,
            project=root,
            user_root=self.folder / "user",
            interpreter=self.interpreter,
            private=private,
            environment={**project_environment(os.environ, private=private, number=0), **more},
        )

    @property
    def inputs(self) -> Path:
        """Where the baseline's captured calls are kept."""
        return self.folder / "inputs"

    @property
    def twins(self) -> Path:
        """Where their twins are kept."""
        return self.folder / "twins"

    def arm(self, label: str, gain: float = 1.0) -> Arm:
        """Make one arm."""
        files = {"inputs": str(self.inputs), "twins": str(self.twins)}
        return Arm(id=label, workspace=self.workspace(label, gain), spec={**TARGET, **files})

    async def capture(self, baseline: Arm) -> RacePlan:
        """Capture the calls that the baseline's tests make; return the rules of a race over them."""
        spec = {
            **TARGET,
            "mode": "tests",
            "args": [],
            "select": None,
            "wrap": "capture",
            "budget": {"calls": 2000, "bytes": 10**8, "seconds": 60.0},
            "inputs": str(self.inputs),
            "stop": "never",
            "tracebacks": "none",
            "workers": 0,
        }
        command = start_command(baseline.workspace, spec, LIMITS, self.bench.runner_dir)
        done = await self.bench.launcher.run(command)
        calls = [r for r in parse_records(done.records) if r["t"] == "call"]
        if not calls:
            raise SystemExit(f"No call of {self.work.name} was captured: {done.stderr[-500:]}")
        groups = cost_groups([(r["i"], r["test"], r["ns"]) for r in calls])
        runner = RunnerConfig(
            launcher=self.bench.launcher,
            directory=self.bench.runner_dir,
            targets=(Target(path="mod.py", qualname="work"),),
            request=TestRequest(),
            seed=1,
        )
        groups = await twinned(runner, baseline.workspace, groups, self.inputs, self.twins)
        plan = RacePlan(groups=groups, cores=tuple(sorted(os.sched_getaffinity(0))))
        workload = Workload(work=WorkKind.CALLS, why="", groups=groups)
        return replace(plan, budget_ns=budget_ns(Settings(), workload, done.cpu_ns))
