"""The race with the real runner: calls captured from tests, raced in copies of a small project."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from codeflash_parallel.candidates.functions import Target
from codeflash_parallel.check.session.runner_session import RunnerConfig, TestRequest
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.profile.line_profiler import ProfileFailure, profile
from codeflash_parallel.race.cost_groups import cost_groups, whole_test_groups
from codeflash_parallel.race.measurement import DecidingClock
from codeflash_parallel.race.plan import Arm, RacePlan, WorkKind
from codeflash_parallel.race.race import race
from codeflash_parallel.race.ranking.arm_comparison import confirmation_of, contenders
from codeflash_parallel.race.ranking.candidate_ranking import rank
from codeflash_parallel.race.statistics.sequential_test import QUARTERED_AFTER
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.outcome_codes import CandidateStatus, Code, Verdict
from codeflash_parallel.result.result_model import LineProfile
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.race_phase.workload_choice import twinned
from codeflash_parallel.sandbox.runner_command import install_runner, parse_records, start_command

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

BASELINE = """
def unique(items):
    seen = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen
"""

CODES = {
    "faster": "def unique(items):\n    return list(dict.fromkeys(items))\n",
    "wrong": "def unique(items):\n    return sorted(set(items))\n",
    "slower": BASELINE.replace("if item", "str(items)\n        if item"),
    "memo": (
        "_known = {}\n\n\ndef unique(items):\n    key = tuple(items)\n    if key not in _known:\n"
        "        found = []\n        for item in items:\n            if item not in found:\n"
        "                found.append(item)\n        _known[key] = found\n    return list(_known[key])\n"
    ),
}


def dear(steps):
    """Return code of which one call takes more than 50 ms at 50 steps."""
    return BASELINE.replace("seen = []", f"seen = []\n    sum(range({steps} * 300_000))")


TESTS = """
import pytest

from mod import unique


@pytest.mark.parametrize("size", [20, 40, 60])
def test_unique(size):
    items = [i * 7 % size for i in range(2 * size)]
    assert sorted(unique(items)) == list(range(size))


def test_heavy():
    items = [i * 13 % 150 for i in range(300)]
    assert len(unique(items)) == 150
"""

LIMITS = ProcessLimits(wall_s=60, cpu_s=60)


class Project:
    """Copies of the project, one for each competitor."""

    def __init__(self, folder: Path, launcher, runner_dir: Path) -> None:
        self.folder, self.launcher, self.runner_dir = folder, launcher, runner_dir
        self.spec = {"targets": [{"path": "mod.py", "qualname": "unique"}], "prove": ["mod.py"], "seed": 1}
        self.baseline = self.workspace("base", BASELINE)

    def workspace(self, name, code):
        root, private = self.folder / name / "tree", self.folder / name / "private"
        root.mkdir(parents=True)
        private.mkdir()
        (root / "mod.py").write_text(code)
        (root / "test_mod.py").write_text(TESTS)
        (root / "pytest.ini").write_text("[pytest]\n")
        environment = {"PATH": os.environ["PATH"], "HOME": str(private), "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return Workspace(
            root=root, project=root, user_root=self.folder / "user", interpreter=Path(sys.executable),
            private=private, environment=environment,
        )  # fmt: skip

    async def capture(self):
        """Run the tests on the baseline; return the inputs file and the records of calls."""
        inputs = str(self.folder / "inputs")
        spec = {
            **self.spec, "mode": "tests", "args": ["-p", "no:randomly", "-p", "no:asyncio"], "select": None,
            "wrap": "capture", "budget": {"calls": 200, "bytes": 10**7, "seconds": 10.0}, "inputs": inputs,
            "stop": "never", "tracebacks": "short", "workers": 0,
        }  # fmt: skip
        done = await self.launcher.run(start_command(self.baseline, spec, LIMITS, self.runner_dir))
        calls = [r for r in parse_records(done.records) if r["t"] == "call"]
        assert len(calls) == 4, (done.stdout, done.stderr, done.records[-2000:])
        return inputs, calls

    async def decide(self, codes, plan, spec, seed=1):
        """Race, confirm, rank."""
        bench = RaceEnvironment(launcher=self.launcher, runner_dir=self.runner_dir, limits=LIMITS)
        arms = {
            name: Arm(id=name, workspace=self.workspace(name, code), spec=spec)
            for name, code in codes.items()
        }
        baseline, random = Arm(id="", workspace=self.baseline, spec=spec), Random(seed)
        raced = await race(bench, baseline, list(arms.values()), plan, random=random)
        confirmations = []
        while ids := contenders([raced], confirmations, plan, limit=4):
            again = confirmation_of([raced], confirmations, plan, ids)
            confirmations.append(await race(bench, baseline, [arms[i] for i in ids], again, random=random))
        return rank([raced], confirmations, plan, {}), raced, confirmations


@pytest.fixture
async def project(tmp_path, anyio_backend):
    async with open_launcher() as launcher:
        yield Project(tmp_path, launcher, install_runner(tmp_path / "cache"))


def plan_of(calls):
    groups = cost_groups([(r["i"], r["test"], r["ns"]) for r in calls])
    # Plenty: a busy machine takes what it needs, and a race ends once it has decided.
    return RacePlan(groups=groups, cores=tuple(os.sched_getaffinity(0)), budget_ns=300 * 10**9)


@pytest.mark.campaign
async def test_the_faster_one_wins_and_the_others_are_told_why(project):
    inputs, calls = await project.capture()

    codes = {name: CODES[name] for name in ("faster", "wrong", "slower")}
    codes["broken"] = "import nowhere_at_all\n" + BASELINE
    ranking, raced, _ = await project.decide(codes, plan_of(calls), {**project.spec, "inputs": inputs})

    assert ranking.verdict is Verdict.WINNER, str(ranking)
    assert ranking.winner == "faster"
    assert ranking.of("faster").speedup.low > 3
    assert ranking.of("wrong").status is CandidateStatus.REJECTED, str(ranking.of("wrong"))
    assert ranking.of("slower").status is CandidateStatus.LOST
    assert ranking.of("broken").status in {CandidateStatus.UNDECIDED, CandidateStatus.REJECTED}
    assert ranking.of("broken").speedup is None
    assert [note for note in ranking.notes if "much busier" not in note] == []
    assert any("test_heavy" in group.name for group in raced.plan.groups)


async def test_a_memo_is_credited_with_what_it_gains_on_twins_of_the_calls(project):
    inputs, calls = await project.capture()
    plan, path, request = plan_of(calls), project.folder / "twins", TestRequest()
    unique = (Target(path="mod.py", qualname="unique"),)
    runner = RunnerConfig(
        launcher=project.launcher, directory=project.runner_dir, targets=unique, request=request, seed=1
    )
    plan = replace(plan, groups=await twinned(runner, project.baseline, plan.groups, Path(inputs), path))
    spec = {**project.spec, "inputs": inputs, "twins": str(path)}

    codes = {name: CODES[name] for name in ("memo", "faster")}
    ranking, _, _ = await project.decide(codes, plan, spec)

    assert (ranking.verdict, ranking.winner) == (Verdict.WINNER, "faster"), str(ranking)
    assert ranking.of("memo").code is not Code.OK, str(ranking)
    repeats = replace(plan, count_repeats=True)
    credited, _, _ = await project.decide({"repeats": CODES["memo"]}, repeats, spec, seed=2)
    assert (credited.verdict, credited.winner) == (Verdict.WINNER, "repeats"), str(credited)


@pytest.mark.campaign
async def test_whole_tests_are_raced_where_no_calls_are_captured(project):
    heavy = "def unique(items):\n    list(map(str, items * 200))\n    return list(dict.fromkeys(items))\n"
    project.baseline = project.workspace("heavy", heavy)
    args = ["-p", "no:randomly", "-p", "no:asyncio"]
    spec = {
        **project.spec,
        "args": args,
        "select": None,
        "wrap": "none",
        "stop": "never",
        "tracebacks": "none",
    }
    ids = [f"test_mod.py::test_unique[{n}]" for n in (20, 40, 60)]
    groups = whole_test_groups([*((i, 10**6) for i in ids), ("test_mod.py::test_heavy", 10**6)])
    plan = RacePlan(groups=groups[:2], work=WorkKind.TESTS, cores=tuple(os.sched_getaffinity(0)))

    ranking, _, _ = await project.decide({"faster": CODES["faster"]}, plan, spec)

    assert ranking.winner == "faster", str(ranking)


@pytest.mark.campaign
async def test_the_field_is_cut_where_one_call_is_long(project):
    inputs, calls = await project.capture()
    codes = {name: dear(steps) for name, steps in {"same": 50, "some": 40, "more": 30, "most": 20}.items()}
    project.baseline = project.workspace("dear", dear(50) + "# baseline")

    ranking, raced, confirmations = await project.decide(
        codes, plan_of(calls[:1]), {**project.spec, "inputs": inputs}
    )

    assert raced.plan.dear
    assert not confirmations[0].plan.dear
    assert not raced.rounds[0].together
    assert all(round_.together for round_ in raced.rounds[1:])
    assert max(raced.looks.dropped_after.values()) <= QUARTERED_AFTER
    assert len(raced.looks.living) == 1
    assert ranking.winner == "most", str(ranking)


@pytest.mark.campaign
async def test_long_calls_that_are_left_to_a_child_are_not_run_with_others(project):
    inputs, calls = await project.capture()
    work = "    sum(range(50 * 300_000))"
    to_a_child = f"import os\n    pid = os.fork()\n    if not pid:\n    {work}\n        os._exit(0)\n    os.waitpid(pid, 0)"
    project.baseline = project.workspace("dear", dear(50) + "# baseline")

    ranking, raced, _ = await project.decide(
        {"child": BASELINE.replace("seen = []", f"seen = []\n    {to_a_child}")},
        replace(plan_of(calls[:1]), max_rounds=8),
        {**project.spec, "inputs": inputs},
    )

    assert raced.tracks["child"].clock is DecidingClock.WALL
    assert not any(round_.together for round_ in raced.rounds)
    assert not ranking.winner, str(ranking)


async def test_lines_of_the_target_are_profiled(project):
    inputs, _ = await project.capture()
    spec = {**project.spec, "inputs": inputs, "max_calls": 100, "tracer": "auto"}

    how = {"spec": spec, "limits": LIMITS, "runner_dir": project.runner_dir}
    # A line may wait for a core, and take longer for it; hardly the same one three times.
    least_ns: dict[str, int] = {}
    for _ in range(3):
        found = await profile(project.launcher, project.baseline, **how)
        assert isinstance(found, LineProfile), found
        assert {line.path for line in found.lines} == {"mod.py"}
        for line in found.lines:
            least_ns[line.text] = min(line.time_ns, least_ns.get(line.text, line.time_ns))
    shutil.rmtree(project.folder / "base" / "tree")
    (project.folder / "base" / "tree").mkdir()
    failed = await profile(project.launcher, project.baseline, **how)

    assert "not in seen" in max(least_ns, key=least_ns.__getitem__)
    assert isinstance(failed, ProfileFailure)


async def test_an_interpreter_that_is_missing_is_a_value(project):
    workspace = replace(project.baseline, interpreter=Path("/nonexistent/python"))

    failed = await profile(
        project.launcher, workspace, spec=project.spec, limits=LIMITS, runner_dir=project.runner_dir
    )

    assert isinstance(failed, ProfileFailure)
