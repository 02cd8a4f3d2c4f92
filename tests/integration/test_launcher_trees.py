"""The launcher against trees of processes: limits, leaks, cancellation, and the evaluator's own death."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from process_support import alive, door, mark, running

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits

__all__ = ["door", "mark"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]

#: A daemon as the textbook makes it; it tells its pid over stdout and then holds that open for ever.
DAEMON = """
import os, signal, sys
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            print(os.getpid(), flush=True)
            {hide}
            signal.pause()
        os._exit(0)
    os.wait()
daemon()
{then}
"""
HIDE = "os.execve(sys.executable, [sys.executable, '-I', '-S', '-c', 'import signal; signal.pause()'], {})"
#: Every process starts its successor and goes: whoever looks finds the last one gone.
HOPPER = """
import os
while True:
    if os.fork():
        os._exit(0)
"""


def python(code: str, *arguments: str, mark: str = "", **limits: float) -> ChildCommand:
    return ChildCommand(
        argv=(sys.executable, "-I", "-S", "-c", code, *arguments),
        cwd=Path("/"),
        environment={"MARK": mark},
        limits=ProcessLimits(**{"wall_s": 60.0, **limits}),
    )


async def test_cpu_deadline(mark):
    async with open_launcher() as launcher:
        end = await launcher.run(python("while True: pass", mark=mark, cpu_s=0.3))
    assert end.ended is ExitKind.CPU_DEADLINE
    assert end.cpu_ns >= 300_000_000
    assert end.cpu_ns < 3_000_000_000


async def test_cpu_of_descendants_counts(mark):
    code = "import os, signal\nif os.fork() == 0:\n  os.setsid()\n  while True: pass\nsignal.pause()"
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, mark=mark, cpu_s=0.3))
    assert end.ended is ExitKind.CPU_DEADLINE


async def test_wall_deadline_kills_a_chain_of_children(mark):
    code = """
import os, signal
for depth in range(6):
    if os.fork():
        break
    if depth % 2: os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.pause()
"""
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, mark=mark, wall_s=0.3))
    assert (end.ended, end.leaked, end.unkillable) == (ExitKind.WALL_DEADLINE, (), ())


async def test_memory_of_the_tree_is_limited(mark):
    code = (
        "import os, signal\nif os.fork() == 0:\n  hoard = bytearray(300_000_000); signal.pause()\nos.wait()"
    )
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, mark=mark, memory_bytes=150_000_000))
    assert end.ended is ExitKind.MEMORY_LIMIT
    assert "MiB" in end.message


async def test_pages_shared_by_forks_count_once(mark):
    code = """
import os, sys, time
hoard = bytearray(100_000_000)
for _ in range(3):
    if os.fork() == 0:
        time.sleep(0.5)
        os._exit(0)
for _ in range(3): os.wait()
"""
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, mark=mark, memory_bytes=200_000_000))
    assert (end.ended, end.message) == (ExitKind.EXITED, "")


async def test_a_daemon_that_holds_stdout_is_killed_and_named(mark):
    async with open_launcher() as launcher:
        end = await launcher.run(python(DAEMON.format(hide="", then=""), mark=mark))
    pid = end.stdout.strip()
    assert (end.ended, end.status) == (ExitKind.EXITED, 0)
    assert [name.split()[0] for name in end.leaked] == [pid]
    assert not running(int(pid))


async def test_a_daemon_with_another_environment_is_charged_to_its_own_job(mark):
    async with open_launcher() as launcher:
        bystander = await launcher.open(python("import signal; signal.pause()", "{control}", mark=mark))
        end = await launcher.run(python(DAEMON.format(hide=HIDE, then=""), mark=mark))
        pid = end.stdout.strip()
        assert [name.split()[0] for name in end.leaked] == [pid]
        assert not running(int(pid))
        assert running(bystander.pid)
        assert (await bystander.close()).leaked == ()


async def test_a_helper_that_goes_by_itself_is_no_leak(mark):
    code = """
import os
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    os.read(r, 1)  # until the main process is gone
    os._exit(0)
"""
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, mark=mark))
    assert (end.ended, end.leaked) == (ExitKind.EXITED, ())


async def test_a_hopping_process_is_caught(mark):
    async with open_launcher() as launcher:
        end = await launcher.run(python(HOPPER, mark=mark))
    assert end.ended is ExitKind.EXITED
    assert end.leaked
    assert end.unkillable == ()


async def test_cancelling_kills_the_tree_first(mark, door):
    code = """
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1], "w").write("here")
signal.pause()
"""
    async with open_launcher() as launcher:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(launcher.run, python(code, door.path, mark=mark))
            await door.knock()
            assert len(alive(mark)) == 2
            tasks.cancel_scope.cancel()
        assert not alive(mark)
        assert (await launcher.run(python("pass", mark=mark))).ended is ExitKind.EXITED


async def test_an_error_in_the_block_kills_the_trees(mark, door):
    code = "import os, signal, sys; open(sys.argv[1], 'w').write('here'); signal.pause()"

    async def fail_with_an_open_channel() -> None:
        async with open_launcher() as launcher:
            await launcher.open(python(code, door.path, mark=mark))
            await door.knock()
            raise KeyError("stop")

    with pytest.raises(KeyError):
        await fail_with_an_open_channel()
    assert not alive(mark)


EVALUATOR = """
import anyio, sys
from pathlib import Path
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.process.process_table import pids

async def main():
    async with open_launcher() as launcher, anyio.create_task_group() as tasks:
        for code in sys.argv[2:]:
            argv = (sys.executable, "-I", "-S", "-c", code)
            command = ChildCommand(argv=argv, cwd=Path("/"), environment={"MARK": sys.argv[1]}, limits=ProcessLimits(wall_s=60))
            tasks.start_soon(launcher.run, command)

anyio.run(main, backend="asyncio")
"""


@pytest.mark.parametrize("fork_holds_the_socket", [False, True])
def test_nothing_survives_the_evaluator(mark, tmp_path, fork_holds_the_socket):
    path = tmp_path / "door"
    os.mkfifo(path)
    door = os.open(path, os.O_RDWR)
    tell = f"import os, signal\nopen({str(path)!r}, 'w').write(str(os.getpid()) + '\\n'); signal.pause()"
    daemon = f"import os\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    exec({tell!r})\n  os._exit(0)\nimport signal; signal.pause()"
    script = EVALUATOR
    if fork_holds_the_socket:
        hold = "    import os, signal\n    if os.fork() == 0:\n        signal.alarm(60); signal.pause()\n"
        script = script.replace(
            "async with open_launcher() as launcher,", "async with open_launcher() as launcher, forked(),"
        )
        script = script.replace(
            "async def main",
            f"from contextlib import asynccontextmanager\n@asynccontextmanager\nasync def forked():\n{hold}    yield\n\nasync def main",
        )
    evaluator = subprocess.Popen([sys.executable, "-c", script, mark, tell, daemon], start_new_session=True)
    try:
        told = b""
        while told.count(b"\n") < 2:
            assert select.select([door], [], [], 30)[0], "the evaluator's children did not come up"
            told += os.read(door, 4096)
        watches = [os.pidfd_open(int(pid)) for pid in told.split()]
        os.kill(evaluator.pid, signal.SIGKILL)
        for watch in watches:
            assert select.select([watch], [], [], 10)[0], "a child survived"
            os.close(watch)
        _wait_until_gone(mark)
    finally:
        os.killpg(evaluator.pid, signal.SIGKILL)
        evaluator.wait()
        os.close(door)


def _wait_until_gone(mark: str) -> None:
    for pid in alive(mark):
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([watch], [], [], 10)[0], "a child survived"
        os.close(watch)
