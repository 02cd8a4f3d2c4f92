"""Arms and units in worlds of their own: what they see, what they leave, and who the kernel says they are."""

from __future__ import annotations

import hashlib
import os
import select
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import NamedTemporaryFile

import pytest
from test_whole_races import CODES, Project, plan_of

from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.profile.line_profiler import profile
from codeflash_parallel.race.measurement import BlockKind
from codeflash_parallel.race.plan import Arm, CostGroup, RacePlan, WorkKind
from codeflash_parallel.race.race import race
from codeflash_parallel.race.race_result import ArmFailure, Raced, RaceFailed
from codeflash_parallel.race.worker.arm_pool import (
    ArmPool,
    ArmPoolPrestart,
    RaceEnvironment,
    start_fork_server,
    start_template,
)
from codeflash_parallel.race.worker.arm_worker import SMALL_S, ArmTemplate, ArmWorker, BlockRequest
from codeflash_parallel.result.isolation_policy import IsolationLevel, IsolationPolicy
from codeflash_parallel.result.outcome_codes import CandidateStatus, ExitKind
from codeflash_parallel.result.result_model import LineProfile
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.sandbox.level_probe import LevelProber
from codeflash_parallel.sandbox.runner_command import install_runner

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

LANDLOCK, SANDBOX = IsolationLevel.LANDLOCK, IsolationLevel.SANDBOX
at_every_level = pytest.mark.parametrize("level", [LANDLOCK, SANDBOX])
with_namespaces = pytest.mark.parametrize("level", [SANDBOX])
ONCE = BlockRequest(kind=BlockKind.TIMED, calls=1)

#: A benchmark that tells, on its standard output, what it may do and what it finds.
SOURCE = """
import os, sys

def tried(what, action):
    try:
        print(what, action(), flush=True)
    except OSError as error:
        print(what, "refused", flush=True)

PLACES = [os.path.join(os.environ["TMPDIR"], "left"), os.path.join(os.environ["HOME"], "left")]
SHARED = ["/tmp/left", "/dev/shm/left"]

def run():
    tried("hidden", lambda: open({hidden!r}).read())
    tried("outside", lambda: open({outside!r}, "w").close())
    tried("tree", lambda: open("written", "w").close())
    for path in PLACES + (SHARED if {shares} else []):
        tried("found", lambda: open(path).read())
        with open(path, "w") as file:
            file.write("left")
    print("me", os.getpid(), flush=True)
    return sum(i * i for i in range(200_000))
"""
HOSTILE = """
import os, signal

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    os.wait()

def run():
    daemon()
"""


class Track:
    """A baseline and what it may not touch."""

    def __init__(self, folder: Path, launcher) -> None:
        self.folder, self.launcher = folder, launcher
        self.user, self.outside = folder / "user", folder / "outside"
        self.cache = folder / "cache"
        for place in (self.user, self.outside, self.cache / "tree", *self.homes):
            place.mkdir(parents=True)
        (self.user / "secret").write_text("secret")
        self.runner_dir = install_runner(self.cache)
        self.plan = RacePlan(
            groups=(CostGroup(name="g", ns=10**6, calls=(), tests=("run",)),), work=WorkKind.CALLABLE
        )

    @property
    def homes(self) -> tuple[Path, Path]:
        return self.cache / "private" / "tmp", self.cache / "private" / "home"

    def arm(self, level: IsolationLevel, source: str, **more: object) -> Arm:
        root, (tmp, home) = self.cache / "tree", self.homes
        (root / "bench.py").write_text(source)
        policy = IsolationPolicy(level=level, hidden=(str(self.user),), cache=str(self.cache))
        workspace = Workspace(
            root=root, project=root, user_root=self.user, interpreter=Path(sys.executable), private=home.parent,
            environment={"PATH": os.environ["PATH"], "TMPDIR": str(tmp), "HOME": str(home)}, isolation=policy,
        )  # fmt: skip
        work = {"path": "bench.py", "name": "run", "source": source}
        return Arm(
            id="a",
            workspace=workspace,
            spec={"callables": [work], "targets": [], "prove": [], "seed": 1, **more},
        )

    def source(self, level: IsolationLevel) -> str:
        return SOURCE.format(
            hidden=str(self.user / "secret"), outside=str(self.outside / "file"), shares=level is not LANDLOCK
        )

    @asynccontextmanager
    async def template(
        self, level: IsolationLevel, source: str, **more: object
    ) -> AsyncIterator[ArmTemplate]:
        """Start a template; skip where this machine does not run the level, with its probe's words."""
        prober = LevelProber(interpreter=Path(sys.executable), runner_dir=self.runner_dir, cache=self.cache)
        if why_not := prober.probe(level).why_not:
            pytest.skip(f"{level}: {why_not}")
        arm, bench = (
            self.arm(level, source, **more),
            RaceEnvironment(
                launcher=self.launcher, runner_dir=self.runner_dir, limits=ProcessLimits(wall_s=60)
            ),
        )
        server = await start_fork_server(bench, arm, self.plan, 1)
        try:
            template = await start_template(bench, server, arm, self.plan, 1)
        finally:
            await server.close()
        try:
            try:
                await template.ready(60)
            except ArmFailure as lost:
                pytest.fail(f"{lost}: {(await template.close()).records[-3000:]!r}")
            yield template
        finally:
            await template.close()


@pytest.fixture
async def track(tmp_path: Path) -> AsyncIterator[Track]:
    async with open_launcher() as launcher:
        yield Track(tmp_path, launcher)


async def played(template: ArmTemplate, number: int = 0) -> ArmWorker:
    """Run one block in a new unit, and end it."""
    unit = await template.fork(number, -1)
    block = await unit.block(ONCE, SMALL_S)
    assert block.cpu_ns > 1_000_000  # the kernel's clock of the unit itself
    await unit.end()
    return unit


@at_every_level
async def test_a_unit_sees_and_writes_what_a_check_does(track: Track, level: IsolationLevel) -> None:
    async with track.template(level, track.source(level)) as template:
        await played(template)
        said = (await template.close()).stdout
    assert "hidden refused" in said
    assert "outside refused" in said or not (track.outside / "file").exists()
    assert "tree None" in said
    assert (track.cache / "tree" / "written").exists()


@at_every_level
async def test_what_a_unit_leaves_is_gone_when_the_next_one_comes(
    track: Track, level: IsolationLevel
) -> None:
    async with track.template(level, track.source(level)) as template:
        leftovers = template.seat.leftovers(template.workspace)
        await played(template)
        assert leftovers.remove()
        await played(template, 1)
        said = (await template.close()).stdout
    assert "found left" not in said
    assert said.count("found refused") == (4 if level is LANDLOCK else 8)


@at_every_level
async def test_what_others_keep_in_shared_memory_is_nobody_s_where_arms_have_their_own(
    track: Track, level: IsolationLevel
) -> None:
    """Browsers, test suites and the like make such files all the time; a candidate was doubted for them."""
    field = ArmPool()
    async with track.template(level, track.source(level)) as template:
        field.templates[template.arm] = template
        with NamedTemporaryFile(dir="/dev/shm") as others:
            assert (Path(others.name).name in field.in_shared_memory()) is (level is LANDLOCK)


@with_namespaces
async def test_units_are_known_by_the_kernel_s_numbers(track: Track, level: IsolationLevel) -> None:
    async with track.template(level, track.source(level)) as template:
        outer = template._channel.pid
        unit = await template.fork(0, -1)
        await unit.block(ONCE, SMALL_S)
        seat = template.seat
        assert process_table.children(outer) == [seat.init]
        assert seat.pid in process_table.children(seat.init)
        (pid,) = process_table.children(seat.pid)
        own = process_table.own_number(pid)
        await unit.end()
        said = (await template.close()).stdout
    assert own != pid
    assert f"me {own}\n" in said


@with_namespaces
async def test_daemons_of_units_end_with_the_arm(track: Track, level: IsolationLevel) -> None:
    async with track.template(level, HOSTILE) as template:
        unit = await template.fork(0, -1)
        await unit.block(ONCE, SMALL_S)
        await unit.end()
        daemons = [pid for pid in process_table.children(template.seat.init) if pid != template.seat.pid]
        watches = [os.pidfd_open(pid) for pid in daemons]
        ended = await template.close()
    assert len(daemons) == 1
    assert (ended.ended, ended.unkillable) == (ExitKind.KILLED, ())
    for watch in watches:
        assert select.select([watch], [], [], 0)[0]
        os.close(watch)


@at_every_level
async def test_commands_that_are_timed_run_there_too(track: Track, level: IsolationLevel) -> None:
    track.plan = replace(track.plan, work=WorkKind.COMMAND)
    looks = f"try: print(open({str(track.user / 'secret')!r}).read())\nexcept OSError: print('refused')"
    async with track.template(level, looks, command=[sys.executable, "-c", looks]) as template:
        unit = await template.fork(0, -1)
        block = await unit.block(ONCE, SMALL_S)
        await unit.end()
    assert block.cpu_ns > 1_000_000  # of the command, as the unit's own `wait4` has it
    statuses = hashlib.sha256(repr([0]).encode())
    statuses.update(b"refused\n")
    assert block.digest == statuses.hexdigest()


async def test_arms_of_different_worlds_are_not_raced(track: Track) -> None:
    arms = [track.arm(level, HOSTILE) for level in (IsolationLevel.NONE, LANDLOCK)]
    bench = RaceEnvironment(
        launcher=track.launcher, runner_dir=track.runner_dir, limits=ProcessLimits(wall_s=60)
    )
    raced = await race(bench, arms[0], arms[1:], track.plan, random=Random(1))
    assert isinstance(raced, RaceFailed)
    assert "different levels of isolation: landlock, none" in raced.reason


#: How often a race is held that is to have several sets of processes.
ATTEMPTS = 5

PLAIN = "def run():\n    return sum(i * i for i in range(2_000))\n"
LITTERS = PLAIN.replace(
    "def run():\n",
    "import os\nLEFT = os.path.join(os.environ['TMPDIR'], 'left')\n\ndef run():\n    open(LEFT, 'w').close()\n",
)


@pytest.mark.parametrize(
    ("level", "source", "is_ahead"),
    [(SANDBOX, PLAIN, True), pytest.param(SANDBOX, LITTERS, False, id="litters"), (LANDLOCK, PLAIN, False)],
)
async def test_the_next_processes_are_started_beside_rounds_where_nothing_can_be_mixed_up(
    track: Track, level: IsolationLevel, source: str, is_ahead: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a unit leaves is removed after its round: nothing of another process may lie there then."""
    begun: list[ArmPoolPrestart] = []
    monkeypatch.setattr(
        "codeflash_parallel.race.race.ArmPoolPrestart",
        lambda *how: begun.append(ArmPoolPrestart(*how)) or begun[-1],
    )
    prober = LevelProber(interpreter=Path(sys.executable), runner_dir=track.runner_dir, cache=track.cache)
    if why_not := prober.probe(level).why_not:
        pytest.skip(f"{level}: {why_not}")
    bench = RaceEnvironment(
        launcher=track.launcher, runner_dir=track.runner_dir, limits=ProcessLimits(wall_s=60)
    )
    arm = track.arm(level, source)
    # Four sets of processes of three rounds each, and nobody is given up: the first round shows who litters.
    rules = {"layout_rounds": 3, "max_rounds": 12, "giving_up": 1e-9, "ahead": True}
    plan = replace(track.plan.confirmation(60 * 10**9), **rules)
    for seed in range(ATTEMPTS):
        begun.clear()
        raced = await race(bench, arm, [arm], plan, random=Random(seed))
        assert isinstance(raced, Raced), raced
        sets = len({round_.layout for round_ in raced.rounds})
        # A busy machine may make equal code look hopeless in its first rounds: then there is one set.
        if sets > 1:
            break
    assert sets > 1
    assert not any(round_.unclean for round_ in raced.rounds)
    # The last set may have one after it that was not needed: a round of it was void, or decided the race. And none
    # is started ahead where the race would end without void rounds.
    is_longer = any(round_.void for round_ in raced.rounds[: plan.least_rounds])
    assert len(begun) in ({sets - 1 - is_longer, sets - 1, sets} if is_ahead else {0})


@pytest.mark.campaign
@at_every_level
async def test_captured_calls_are_raced_and_profiled_in_worlds_of_their_own(
    tmp_path: Path, level: IsolationLevel
) -> None:
    async with open_launcher() as launcher:
        project = Project(tmp_path, launcher, install_runner(tmp_path / "cache"))
        prober = LevelProber(
            interpreter=Path(sys.executable), runner_dir=project.runner_dir, cache=tmp_path / "cache"
        )
        if why_not := prober.probe(level).why_not:
            pytest.skip(f"{level}: {why_not}")
        inputs, calls = await project.capture()
        policy = IsolationPolicy(level=level, hidden=(str(tmp_path / "user"),), cache=str(tmp_path))
        made = project.workspace
        project.workspace = lambda name, code: replace(made(name, code), isolation=policy)
        project.baseline = replace(project.baseline, isolation=policy)
        spec = {**project.spec, "inputs": inputs}
        codes = {name: CODES[name] for name in ("faster", "wrong")}
        ranking, raced, _ = await project.decide(codes, plan_of(calls), spec)
        found = await profile(
            launcher,
            project.baseline,
            spec=spec,
            limits=ProcessLimits(wall_s=60),
            runner_dir=project.runner_dir,
        )
    assert ranking.winner == "faster", str(ranking)
    assert ranking.of("wrong").status is CandidateStatus.REJECTED
    assert not any(round_.unclean for round_ in raced.rounds)
    assert isinstance(found, LineProfile), found
