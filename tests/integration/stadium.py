"""Races of stand-in arms (`fake_arm`): real processes and real clocks, any behaviour."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.race.plan import Arm, CostGroup, RacePlan
from codeflash_parallel.race.race import race, silent
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.result.runtime_protocols import ProcessLimits, Workspace

FAKE = Path(__file__).with_name("fake_arm.py")
#: Loops of one call of the baseline, about 0.15 ms.
LOOPS = 4000


class Stadium:
    """Makes arms that run the stand-in."""

    def __init__(self, folder: Path, bench: RaceEnvironment, groups: int) -> None:
        self.folder, self.bench = folder, bench
        self.plan = RacePlan(
            groups=tuple(CostGroup(name=f"g{i}", ns=10**6, calls=tuple(range(10))) for i in range(groups)),
            cores=tuple(os.sched_getaffinity(0)),
            block_ns=4_000_000,
            # Plenty: a busy machine takes what it needs, and a race ends once it has decided.
            budget_ns=300 * 10**9,
        )

    def arm(self, name, loops=LOOPS, act=""):
        folder = self.folder / name
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        workspace = Workspace(
            root=folder, project=folder, user_root=folder, interpreter=Path(sys.executable),
            private=folder, environment={"PATH": os.environ["PATH"], "TMPDIR": str(folder / "tmp")},
        )  # fmt: skip
        by_group = loops if isinstance(loops, list) else [loops] * len(self.plan.groups)
        return Arm(id=name, workspace=workspace, spec={"fake": {"loops": by_group, "act": act}})

    async def race(self, *arms, baseline=None, plan=None, progress=silent):
        first = baseline or self.arm("baseline")
        return await race(self.bench, first, arms, plan or self.plan, random=Random(1), progress=progress)


class StandIns:
    """A launcher whose "fork server" starts every arm anew: stand-ins cannot be forked off a runner."""

    def __init__(self, launcher) -> None:
        self.run, self.open = launcher.run, launcher.open

    async def fork_server(self, _command, _deadline_s):
        return self

    async def close(self):
        """There is nothing to be closed."""


@asynccontextmanager
async def open_stadium(folder: Path, groups: int = 1) -> AsyncIterator[Stadium]:
    package = folder / "runner" / "_codeflash_runner"
    package.mkdir(parents=True)
    (package / "__main__.py").write_bytes(FAKE.read_bytes())
    async with open_launcher() as launcher:
        bench = RaceEnvironment(
            launcher=StandIns(launcher), runner_dir=folder / "runner", limits=ProcessLimits(wall_s=60)
        )
        yield Stadium(folder, bench, groups)
