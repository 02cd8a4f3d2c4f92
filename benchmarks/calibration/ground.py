"""Where a calibration runs: a scratch folder, the host to ourselves, our launcher, an interpreter."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from calibration.work import LIMITS, WORKS, Course, has_package
from codeflash_parallel.process.host_lock import host_quiet
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.sandbox.runner_command import install_runner


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Made by `ground`."""

    folder: Path
    bench: RaceEnvironment
    interpreter: Path

    def course(self, label: str, work: str, tests: int) -> Course:
        """Return a course in a folder of its own."""
        return Course(
            folder=self.folder / label,
            work=WORKS[work],
            tests=tests,
            bench=self.bench,
            interpreter=self.interpreter,
        )


@asynccontextmanager
async def ground(interpreter: Path) -> AsyncIterator[Ground]:
    """Have the host to ourselves, and a launcher, inside the block."""
    with tempfile.TemporaryDirectory(prefix="race-calibration-") as name:
        async with host_quiet(os.environ).exclusive(), open_launcher() as launcher:
            bench = RaceEnvironment(
                launcher=launcher, runner_dir=install_runner(Path(name) / "cache"), limits=LIMITS
            )
            yield Ground(folder=Path(name), bench=bench, interpreter=interpreter)


def usable(works: Sequence[str], interpreter: Path) -> list[str]:
    """Return the works whose packages the interpreter has; say which are skipped."""
    found = [name for name in works if has_package(interpreter, WORKS[name].needs)]
    for name in [name for name in works if name not in found]:
        print(f"skipped: {name}: {interpreter} has no {WORKS[name].needs}")
    return found
