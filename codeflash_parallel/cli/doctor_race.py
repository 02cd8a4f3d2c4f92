"""`doctor --race`: what this machine can tell within its budget, by one race of the baseline with itself."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio

from codeflash_parallel.cli.exit_codes import Interrupts, SignalInterrupt, handling_signals
from codeflash_parallel.cli.output import Output
from codeflash_parallel.config.environment import private_folders, project_environment
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.process.host_lock import host_quiet
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.race.plan import Arm, CostGroup, WorkKind
from codeflash_parallel.race.race import race
from codeflash_parallel.race.race_result import Raced, RaceOutcome
from codeflash_parallel.race.statistics.sequential_test import ArmStanding, rounds_needed, unit_sd
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace
from codeflash_parallel.run.race_phase.workload import Workload, race_plan
from codeflash_parallel.sandbox.runner_command import install_runner

#: Id of the candidate, whose code is the baseline's.
SAME = "same"

#: True differences for which the seconds are told, as fractions.
GAINS = (0.02, 0.05, 0.10)

#: How the names of folders begin that hold the arms' files.
PREFIX = "racecheck-"

WORK = "pure Python, 0.1 ms a call"
SOURCE = """
def work():
    total = 0
    for i in range(3500):
        total += i & 3
    return total
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceDuration:
    """Seconds of a race that shows a true gain, a fraction."""

    gain: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RaceCheck:
    """Figures of a race of identical code on this machine.

    Attributes:
        work: what was timed, a few words.
        void: rounds that do not count, because the machine was disturbed.
        seconds: that the race took.
        budget_s: that the races of a run may take, as any of so little work.
        unit_sd: spread of one round's log-ratio.
        called_faster: candidates that the race found faster than their own code: each of them falsely.
        needed: for the confirmation of one candidate; gains that are no more than the smallest claim are
            left out.
    """

    work: str
    rounds: int
    void: int
    seconds: float
    budget_s: float
    unit_sd: float
    called_faster: tuple[str, ...]
    needed: tuple[RaceDuration, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Return what is shown."""
        void = f", {self.void} of them void" if self.void else ""
        falsely = "yes, falsely" if self.called_faster else "no"
        rows = [
            ("rounds", f"{self.rounds} in {self.seconds:.0f} s{void}"),
            ("spread of a round", f"{100 * self.unit_sd:.1f} % (standard deviation between identical arms)"),
            ("called faster", f"{falsely} (the baseline's own code)"),
        ]
        for one in self.needed:
            more = "" if one.seconds <= self.budget_s else f", more than the budget of {self.budget_s:.0f} s"
            rows.append((f"{100 * one.gain:.0f} % faster", f"about {max(1.0, one.seconds):.0f} s{more}"))
        return rows


def check_race(settings: Settings, interpreter: Path, cache: Path, output: Output) -> RaceCheck:
    """Hold a race of identical code while nothing else of ours runs on this host; leave nothing behind.

    Args:
        settings: for the rules of the race.
        interpreter: that the arms run in.
        cache: folder in which files may lie meanwhile.
        output: where the result goes if a second signal ends the process at once.

    Raises:
        SignalInterrupt: a signal came; every process and file is gone.
        EnvironmentFault: another race has the machine, or the arms cannot be timed.
    """
    with handling_signals(output) as interrupts:
        return anyio.run(_checked, settings, interpreter, cache, interrupts)


async def _checked(settings: Settings, interpreter: Path, cache: Path, interrupts: Interrupts) -> RaceCheck:
    loop, scope = asyncio.get_running_loop(), anyio.CancelScope()
    interrupts.passed_to(lambda _name: loop.call_soon_threadsafe(scope.cancel))
    with scope:
        runner_dir = await anyio.to_thread.run_sync(install_runner, cache)
        async with open_launcher() as launcher, host_quiet(os.environ, _say).exclusive():
            with _new_folder(cache) as folder:
                bench = RaceEnvironment(
                    launcher=launcher, runner_dir=runner_dir, limits=ProcessLimits(wall_s=120.0, cpu_s=120.0)
                )
                found = await _raced(settings, bench, Path(folder), interpreter)
        interrupts.come_too_late()
        return found
    raise SignalInterrupt(interrupts.received)


def _say(text: str) -> None:
    """Say what is going on, or what is waited for; empty: nothing any longer."""
    if text:
        sys.stderr.write(f"doctor: {text}\n")
        sys.stderr.flush()


def _new_folder(cache: Path) -> tempfile.TemporaryDirectory[str]:
    """Make a folder; those of others were left by killed processes, for only the token's holder has one."""
    for left in cache.glob(f"{PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=PREFIX, dir=cache)


def _arm(name: str, folder: Path, interpreter: Path) -> Arm:
    root, private = folder / name / "tree", folder / name / "private"
    for place in (root, *private_folders(private)):
        place.mkdir(parents=True)
    workspace = Workspace(
        root=root,
        project=root,
        user_root=folder / "user",
        interpreter=interpreter,
        private=private,
        environment=project_environment(os.environ, private=private, number=0),
    )
    work = {"path": "work.py", "name": "work", "source": SOURCE}
    spec: dict[str, Any] = {"targets": [], "prove": [], "seed": 1, "callables": [work]}
    return Arm(id=name, workspace=workspace, spec=spec)


async def _raced(settings: Settings, bench: RaceEnvironment, folder: Path, interpreter: Path) -> RaceCheck:
    """Race the baseline with itself by the rules of a confirmation: what claims a gain is tried."""
    group = CostGroup(name=WORK, ns=100_000)
    plan = race_plan(settings, Workload(work=WorkKind.CALLABLE, why="", groups=(group,)), 0)
    _say(f"identical code is raced for {plan.budget_ns / 1e9:.0f} s at most")
    random = Random(settings.seed or None)  # noqa: S311 - no secret
    baseline, same = (_arm(name, folder, interpreter) for name in ("baseline", SAME))
    return _found(await race(bench, baseline, [same], plan.confirmation(plan.budget_ns), random=random))


def _found(raced: RaceOutcome) -> RaceCheck:
    """Return what a race tells.

    Raises:
        EnvironmentFault: it tells nothing.
    """
    if not isinstance(raced, Raced):
        raise _unfit(raced.reason)
    if raced.out:
        raise _unfit(f"{raced.out[SAME].reason}.")
    counted = sum(not round_.void for round_ in raced.rounds)
    if not counted:
        raise _unfit(f"{raced.stopped}.")
    sd, seconds = unit_sd(raced.tracks[SAME]), raced.wall_ns / 1e9
    return RaceCheck(
        work=WORK,
        rounds=len(raced.rounds),
        void=len(raced.rounds) - counted,
        seconds=seconds,
        budget_s=raced.plan.budget_ns / 1e9,
        unit_sd=sd,
        called_faster=tuple(arm for arm in raced.candidates if raced.standing(arm) is ArmStanding.FASTER),
        needed=tuple(
            RaceDuration(gain=gain, seconds=rounds_needed(sd, gain, raced.plan, 1) * seconds / counted)
            for gain in GAINS
            if gain > raced.plan.min_speedup
        ),
    )


def _unfit(why: str) -> EnvironmentFault:
    return EnvironmentFault(
        "RACE_UNFIT", f"The race cannot be tried here: {why}", "Run again when the machine is less busy."
    )
