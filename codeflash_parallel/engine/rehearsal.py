"""Races of identical arms on this machine: what is recorded tells how well it can measure.

The arms are real ones: the real guest, calls captured from real tests, rounds as a race has them. Nothing is
decided while they are recorded.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import anyio

from codeflash_parallel.benchmark.field import Field, open_field
from codeflash_parallel.benchmark.fitness import ARMS, Recorded
from codeflash_parallel.benchmark.groups import cost_groups
from codeflash_parallel.benchmark.lost import ArmLost
from codeflash_parallel.benchmark.plan import BASELINE, Arm, RacePlan
from codeflash_parallel.benchmark.quiet import judged
from codeflash_parallel.benchmark.race import HASH_SEEDS
from codeflash_parallel.benchmark.resample import Layout, Walls
from codeflash_parallel.benchmark.rounds import RoundPlace, run_round
from codeflash_parallel.benchmark.samples import Round
from codeflash_parallel.benchmark.scales import calibrate
from codeflash_parallel.benchmark.starting import Bench
from codeflash_parallel.engine.alone import machine_alone
from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.settings import Settings
from codeflash_parallel.model.workspace import Exit, Limits, Workspace
from codeflash_parallel.process.environment import private_folders, project_environment
from codeflash_parallel.process.guest import guest_command, install_guest, parse_records
from codeflash_parallel.process.launcher import open_launcher
from codeflash_parallel.process.quiet import Quiet

#: Fewer rounds that count do not tell anything ...
LEAST_ROUNDS = 12

#: ... and are given up so many seconds after the planned time.
PATIENCE_S = 20.0

#: Seconds that a race may take where none are named: an automatic budget for work as small as this.
BUDGET_S = 30.0

#: How the names of rehearsals' folders begin.
_PREFIX = "rehearsal-"

#: Of each of the processes.
LIMITS = Limits(wall_s=120.0, cpu_s=120.0)

#: Inputs of a workload: so many different calls are captured and cycled.
CALLS = 10

COMPUTING = """
def work(x):
    total = x
    for i in range(3500):
        total += i & 3
    return total
"""

ALLOCATING = """
def work(x):
    return len([{"number": i, "pair": (i, x), "text": str(i)} for i in range(3000)])
"""

TESTS = f"""
import codeflash_rehearsed


def test_work():
    assert all([codeflash_rehearsed.work(x) for x in range({CALLS})])
"""

#: What is timed, by the words that are shown for it.
WORKS = {"pure Python, 0.1 ms a call": COMPUTING, "allocation, 1 ms a call": ALLOCATING}

_TARGET = {
    "targets": [{"path": "codeflash_rehearsed.py", "qualname": "work"}],
    "prove": ["codeflash_rehearsed.py"],
    "seed": 1,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Going:
    """How far a rehearsal is: which workload, and for how many of how many seconds."""

    work: str
    seconds: float
    of: float


Progress = Callable[[Going], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Venue:
    """Where and how a rehearsal is held.

    Attributes:
        interpreter: that the arms run in; it needs pytest.
        cache: folder in which files may lie meanwhile.
        seconds: wall time to record each workload for; a layout that has begun is finished.
        random: source of orders, cores and hash seeds.
        quiet: keeps everybody's checks away meanwhile.
    """

    interpreter: Path
    cache: Path
    seconds: float
    random: Random
    quiet: Quiet


async def rehearse(settings: Settings, venue: Venue, progress: Progress) -> tuple[Recorded, ...]:
    """Record rounds of identical arms of every workload, while nothing else of ours runs on this host.

    Cancelling kills every process and removes every file.

    Args:
        settings: for the rules of a race.
        venue: where and how.
        progress: called after every layout.

    Raises:
        EnvironmentFault: another race has the machine, or the arms cannot be run.
    """
    guest_dir = await anyio.to_thread.run_sync(install_guest, venue.cache)
    async with open_launcher() as runner, machine_alone(venue.quiet):
        with _new_folder(venue.cache) as folder:
            bench = Bench(runner=runner, guest_dir=guest_dir, limits=LIMITS)
            found = []
            for number, work in enumerate(WORKS):
                stage = _Stage(bench, venue, Path(folder, str(number)), work)
                found.append(await stage.record(settings, progress))
            return tuple(found)


def _new_folder(cache: Path) -> tempfile.TemporaryDirectory[str]:
    """Make a folder; those of others were left by killed rehearsals, for only the token's holder has one."""
    for left in cache.glob(f"{_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=_PREFIX, dir=cache)


class _Stage:
    """One workload and its arms."""

    def __init__(self, bench: Bench, venue: Venue, folder: Path, work: str) -> None:
        self._bench, self._venue = bench, venue
        self._folder, self._work = folder, work
        self._random = venue.random
        self._rounds: list[Round] = []
        self._layouts: list[Layout] = []

    async def record(self, settings: Settings, progress: Progress) -> Recorded:
        """Record layouts until the time is up."""
        arms = [self._arm(name) for name in (BASELINE, *(f"arm {n}" for n in range(1, ARMS)))]
        plan = await self._captured(arms[0], settings)
        began, seconds = time.monotonic(), 0.0
        while seconds < self._venue.seconds or self._counted < LEAST_ROUNDS:
            if seconds > self._venue.seconds + PATIENCE_S:
                raise _unfit(f"only {self._counted} rounds could be timed in {seconds:.0f} s")
            await self._layout(arms, plan)
            seconds = time.monotonic() - began
            progress(Going(work=self._work, seconds=seconds, of=self._venue.seconds))
        return Recorded(
            work=self._work,
            plan=plan,
            arms=tuple(arm.id for arm in arms[1:]),
            layouts=tuple(layout for layout in self._layouts if layout.rows),
            rounds=tuple(self._rounds),
            seconds=seconds,
        )

    @property
    def _counted(self) -> int:
        """Rounds that are not void."""
        return sum(len(layout.rows) for layout in self._layouts)

    async def _layout(self, arms: Sequence[Arm], plan: RacePlan) -> None:
        began = time.perf_counter_ns()
        try:
            async with open_field(self._bench, arms, plan, self._random.randrange(HASH_SEEDS)) as field:
                _require_all(field)
                started = time.perf_counter_ns()
                rounds = await self._timed(field, plan)
        except ArmLost as error:
            raise _unfit(error.reason) from error
        walls = Walls(start=started - began, rounds=time.perf_counter_ns() - started)
        self._layouts.append(Layout.of(rounds, [arm.id for arm in arms[1:]], plan, walls))

    async def _timed(self, field: Field, plan: RacePlan) -> list[Round]:
        scales = await calibrate(field, plan, self._random.choice(plan.cores))
        rounds = []
        for _ in range(plan.layout_rounds):
            place = RoundPlace(
                number=len(self._rounds),
                layout=len(self._layouts),
                core=self._random.choice(plan.cores),
                stage=plan.stage,
            )
            rounds.append(judged(self._rounds, await run_round(field, scales, place, self._random)))
            self._rounds.append(rounds[-1])
            _require_all(field)
        return rounds

    def _arm(self, name: str) -> Arm:
        root, private = self._folder / name / "tree", self._folder / name / "private"
        for place in (root, *private_folders(private)):
            place.mkdir(parents=True)
        (root / "codeflash_rehearsed.py").write_text(WORKS[self._work], encoding="utf-8")
        (root / "test_rehearsed.py").write_text(TESTS, encoding="utf-8")
        (root / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        more = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        workspace = Workspace(
            root=root,
            project=root,
            user_root=self._folder / "user",
            interpreter=self._venue.interpreter,
            private=private,
            environment=project_environment(os.environ, private=private, number=0, extra=more),
        )
        return Arm(id=name, workspace=workspace, spec={**_TARGET, "inputs": str(self._folder / "inputs")})

    async def _captured(self, baseline: Arm, settings: Settings) -> RacePlan:
        """Capture the calls of the tests; return the rules of a race over them."""
        spec = {
            **_TARGET,
            "mode": "tests",
            "args": [],
            "select": None,
            "wrap": "capture",
            "budget": {"calls": CALLS, "bytes": 2**20, "seconds": LIMITS.wall_s},
            "inputs": str(self._folder / "inputs"),
            "stop": "never",
            "tracebacks": "native",
            "workers": 0,
        }
        command = guest_command(baseline.workspace, spec, LIMITS, self._bench.guest_dir)
        done = await self._bench.runner.run(command)
        calls = [r for r in parse_records(done.records) if r["t"] == "call"]
        if len(calls) != CALLS:
            raise _unfit(f"the tests of the rehearsal do not run: {_last_words(done)}")
        groups = cost_groups([(r["i"], r["test"], r["ns"]) for r in calls])
        return RacePlan(
            groups=groups,
            confidence=settings.confidence,
            min_speedup=settings.min_speedup,
            indifference=settings.indifference,
            max_regression=settings.max_regression,
            max_cpu_cost=settings.max_cpu_cost,
            budget_ns=int((settings.time_budget or BUDGET_S) * 1e9),
            cores=tuple(sorted(os.sched_getaffinity(0))),
        )


def _require_all(field: Field) -> None:
    """Raise the first arm's loss: in a rehearsal none may be lost."""
    for name, lost in field.lost.items():
        raise _unfit(f"{name.lstrip('=')} {lost.reason}")


def _last_words(done: Exit) -> str:
    said = (done.stderr or done.stdout).strip().splitlines()
    return said[-1] if said else f"they ended with status {done.status}"


def _unfit(why: str) -> EnvironmentFault:
    return EnvironmentFault(
        "RACE_UNFIT", f"The race cannot be tried here: {why}.", "Run again when the machine is less busy."
    )
