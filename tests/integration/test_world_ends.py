"""At `sandbox` nothing outlives the evaluator, nor its launcher, nor the first process of a world."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import anyio
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from hostile_trees import SHAPES, Door, open_door, program
from tree_levels import Ground

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.runtime_protocols import ProcessExit

#: How long anybody may outlive the evaluator.
GONE_S = 1.0
EVALUATOR = """
import sys, anyio
from pathlib import Path
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits
from codeflash_parallel.process.launcher.launcher import open_launcher

async def main():
    async with open_launcher() as launcher:
        print(launcher._process.popen.pid, flush=True)
        await launcher.run(ChildCommand(argv=tuple(sys.argv[2:]), cwd=Path(sys.argv[1]), environment={}, limits=ProcessLimits(wall_s=60)))

anyio.run(main)
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    with closing(Ground()) as made:
        yield made


@pytest.fixture
def door(ground: Ground, level: str) -> Iterator[Door]:
    if why_not := ground.refusal_of(level):
        pytest.skip(f"{level}: {why_not}")
    with open_door() as made:
        yield made


def words(shape: str, door: Door) -> tuple[str, ...]:
    return (program(shape), str(door.path), "lasts", "")


def wait_until_up(shape: str, door: Door, evaluator: subprocess.Popen[str]) -> None:
    left = SHAPES[shape][1]
    while left > 0:
        left -= door.said()
        assert evaluator.poll() is None, evaluator.stderr and evaluator.stderr.read()


@pytest.mark.parametrize("level", ["sandbox"])
@pytest.mark.parametrize("too", ["", "launcher"])
def test_nothing_outlives_the_evaluator(ground: Ground, door: Door, level: str, too: str) -> None:
    """Nor does it if the launcher dies at the same moment, and has no time to kill anybody."""
    root = door.path.parent
    argv = ground.command(level, root, words("mixed", door)).argv[:-1]
    evaluator = subprocess.Popen(
        [sys.executable, "-c", EVALUATOR, str(root), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with evaluator:
        assert evaluator.stdout is not None
        launcher = int(evaluator.stdout.readline())
        wait_until_up("mixed", door, evaluator)
        if too:
            os.kill(launcher, signal.SIGSTOP)  # it cannot see anything any more
            os.kill(evaluator.pid, signal.SIGKILL)
            os.kill(launcher, signal.SIGKILL)
        else:
            os.kill(evaluator.pid, signal.SIGKILL)
        assert door.gone(GONE_S)


@pytest.mark.anyio
@pytest.mark.engine
@pytest.mark.parametrize("level", ["sandbox"])
async def test_whom_the_runner_leaves_dies_with_the_launcher(ground: Ground, door: Door, level: str) -> None:
    """The waiter has ended with the runner; the world's init, an orphan by now, must hear of the launcher's end."""
    async with open_launcher() as launcher:
        command = ground.command(level, door.path.parent, (program("daemons"), str(door.path), "ends", ""))
        channel = await launcher.open(command)
        left = SHAPES["daemons"][1]
        with anyio.fail_after(30):
            while left > 0:
                left -= door.said()
                await anyio.sleep(0.002)
        waiter = os.pidfd_open(channel.pid)
        door.end()
        await anyio.wait_readable(waiter)
        os.close(waiter)
        os.kill(launcher._process.popen.pid, signal.SIGKILL)
        assert door.gone(GONE_S)


@pytest.mark.anyio
@pytest.mark.engine
@pytest.mark.parametrize("level", ["sandbox"])
async def test_whoever_is_left_is_named_and_the_first_process_of_its_world_is_not(
    ground: Ground, door: Door, level: str
) -> None:
    ends: list[ProcessExit] = []
    command = ground.command(level, door.path.parent, (program("daemons"), str(door.path), "ends", ""))

    async def run() -> None:
        ends.append(await launcher.run(command))

    async with open_launcher() as launcher, anyio.create_task_group() as group:
        group.start_soon(run)
        left = SHAPES["daemons"][1]
        with anyio.fail_after(30):
            while left > 0:
                left -= door.said()
                await anyio.sleep(0.002)
        door.end()
    (ended,) = ends
    assert ended.leaked
    assert not [name for name in ended.leaked if name.split()[1] == "cfp-init"]
