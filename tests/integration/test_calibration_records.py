"""The records of a calibration: made by real processes, kept, read back, drawn from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from calibration.campaigns import Pool, campaign
from calibration.kept import Kept
from calibration.load import background_load
from calibration.report import figures
from calibration.traces import Cell, Recorder, Traces
from calibration.work import LIMITS, WORKS, Course

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.race.plan import RaceStage
from codeflash_parallel.race.worker.arm_pool import RaceEnvironment
from codeflash_parallel.sandbox.runner_command import install_runner

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "race_calibration.py"


def test_lines_are_kept_and_broken_ones_passed_over(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "state" / "lines.jsonl")
    assert [*kept] == []
    kept.add({"a": 1})
    with (tmp_path / "state" / "lines.jsonl").open("a") as file:
        file.write('{"a": 2, "killed')
    kept.add({"a": 3, "b": 1})
    assert [*kept] == [{"a": 1}, {"a": 3, "b": 1}]
    assert kept.select(b=1) == [{"a": 3, "b": 1}]


def test_the_background_ends_with_its_block() -> None:
    children = Path(f"/proc/self/task/{__import__('os').getpid()}/children")
    before = children.read_text()
    with background_load(2):
        assert len(children.read_text().split()) == len(before.split()) + 2
    assert children.read_text() == before


@pytest.mark.parametrize("step", ["record", "live"])
def test_where_no_work_can_be_run_that_is_said_in_one_line(tmp_path: Path, step: str) -> None:
    python = tmp_path / "bare" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "--python", str(python), step, "--works"]
    done = subprocess.run([*command, "numpy-1ms"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (1, [f"skipped: numpy-1ms: {python} has no numpy"])
    assert done.stderr == f"nothing to do: {python} can run none of numpy-1ms\n"


@pytest.mark.engine
@pytest.mark.campaign
@pytest.mark.anyio
async def test_what_is_recorded_can_be_drawn_from(tmp_path: Path) -> None:
    cell, traces = Cell(work="python-20us", tests=1, workers=0), Traces(tmp_path / "state" / "traces")
    async with open_launcher() as launcher:
        bench = RaceEnvironment(
            launcher=launcher, runner_dir=install_runner(tmp_path / "cache"), limits=LIMITS
        )
        course = Course(folder=tmp_path / "course", work=WORKS[cell.work], tests=cell.tests, bench=bench)
        recorder = await Recorder.on(course)
        layouts = await recorder.sit(Random(1))
    for layout in layouts:
        traces.add(cell, layout)
    assert traces.cells() == [cell]
    assert traces.seconds(cell) == pytest.approx(sum(layout.wall_s for layout in layouts))
    race, confirmation = (traces.layouts(cell, stage) for stage in RaceStage)
    assert [layout.raced.rounds for layout in race + confirmation] == [one.raced.rounds for one in layouts]
    found = campaign(Pool.of(race, confirmation), {"a": 1.5, "b": 1.0}, Random(1))
    assert found.gains == (1.5, 1.0)
    assert "| 20 µs (python-20us), 1, quiet | 1 | 12 |" in figures(tmp_path / "state")
