"""Templates that do not come up, do not fork, or end; they are stand-ins."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys

import anyio
import pytest
from process_support import door
from template_lab import READY_S, TEMPLATE, lab, open_files, serving

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.errors import EnvironmentFault
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessLimits, ServerGone
from codeflash_parallel.warm.warm_server import start_server

__all__ = ["door", "lab"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


@pytest.mark.parametrize(
    ("act", "words"), [("dies-before", "no target here"), ("garbage", "garbage"), ("never-ready", "does not answer")]
)  # fmt: skip
async def test_a_template_that_does_not_come_up(lab, act, words):
    async with open_launcher() as launcher:
        before = open_files()
        deadline_s = 0.3 if act == "never-ready" else READY_S
        with pytest.raises(ServerGone, match=words) as caught:
            await start_server(launcher, lab.template(act), deadline_s)
        assert caught.value.exit is not None
        assert open_files() == before
        assert not lab.alive()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        ("refuses", "a thread was started"),
        ("silent", "does not answer"),
        ("dies-when-asked", "closed its end"),
        ("dies-after-the-fork", "closed its end"),
        ("kills-its-fork", "ended before its first step"),
        ("lies", "ended before its first step"),
    ],
)
async def test_a_template_that_does_not_fork(lab, act, words, monkeypatch):
    if act == "silent":
        monkeypatch.setattr("codeflash_parallel.process.launcher.launcher._FORK_S", 0.3)
    async with open_launcher() as launcher:
        before = open_files()
        server = await start_server(launcher, lab.template(act), READY_S)
        for expected in (words, "is gone"):
            with pytest.raises(ServerGone, match=expected):
                await lab.run(server, "pass")
        assert server.rss_bytes() == 0
        await lab.gone()
        assert open_files() == before


async def test_a_fork_that_does_not_begin_is_not_a_check(lab):
    async with serving(lab, "fork-does-not-begin") as server:
        with pytest.raises(ServerGone, match="ended before its first step"):
            await lab.run(server, "pass", wall_s=0.3)
        assert not lab.alive()


async def test_a_template_killed_during_a_check_does_not_end_it(lab, door, tmp_path):
    os.mkfifo(tmp_path / "back")
    code = f"open({door.path!r}, 'w').write('here')\nprint(open({str(tmp_path / 'back')!r}).read())"

    async def close() -> None:
        await door.knock()
        assert (await server.close()).ended is ExitKind.KILLED
        await anyio.to_thread.run_sync((tmp_path / "back").write_text, "go")

    async with serving(lab) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            check = await lab.run(server, code)
        assert (check.ended, check.stdout) == (ExitKind.EXITED, "go\n")
        with pytest.raises(ServerGone):
            await lab.run(server, "pass")


async def test_the_next_template(lab):
    async with serving(lab) as server:
        before = open_files()
        following = await server.advance("collected", READY_S)
        assert (following.ready.point, following.forks, server.forks) == ("collected", 0, 0)
        await server.close()
        for _ in range(3):
            assert (await lab.run(following, "print('well')")).stdout == "well\n"
        last = await following.advance("later", READY_S)
        assert (await lab.run(last, "print('well')")).stdout == "well\n"
        assert len(lab.alive()) == 2
        await following.close()
        await last.close()
        assert not lab.alive()
        assert open_files() < before


async def test_a_next_template_that_does_not_come_up(lab):
    async with serving(lab, "next-never-ready") as server:
        before = open_files()
        with pytest.raises(ServerGone, match="does not answer"):
            await server.advance("collected", 0.3)
        assert open_files() == before
        assert lab.alive() == [server._channel.pid]
        assert (await lab.run(server, "print('well')")).stdout == "well\n"


@pytest.mark.parametrize("granted", [0, 1, 3])
async def test_no_descriptors_are_left(lab, monkeypatch, granted):
    async with serving(lab) as server:
        before, pipe2, made = open_files(), os.pipe2, []

        def scarce(flags: int) -> tuple[int, int]:
            if len(made) == granted:
                raise OSError(errno.EMFILE, "Too many open files")
            made.append(flags)
            return pipe2(flags)

        with monkeypatch.context() as patches:
            patches.setattr(os, "pipe2", scarce)
            with pytest.raises(EnvironmentFault):
                await lab.run(server, "pass")
        assert open_files() == before
        assert (await lab.run(server, "print('well')")).stdout == "well\n"


async def test_leaving_ends_templates_and_forks(lab):
    async def leave() -> None:
        async with serving(lab) as server:
            await server.advance("collected", READY_S)
            raise KeyError("stop")

    before = open_files()
    with pytest.raises(KeyError):
        await leave()
    assert not lab.alive()
    assert open_files() == before


async def test_a_dead_launcher_takes_all_with_it(lab):
    async with open_launcher() as launcher:
        server = await start_server(launcher, lab.template(), READY_S)
        await server.advance("collected", READY_S)
        end = await lab.run(
            server, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()"
        )
        assert end.ended is ExitKind.KILLED
        assert "launcher" in end.message


async def test_adopting_what_is_not_ours(lab):
    waiting, gate = os.pipe()
    async with open_launcher() as launcher:
        template = (await start_server(launcher, lab.template(), READY_S))._channel.pid
        for pid in (1, os.getpid(), template, 2**22):
            connection = launcher.reserve(ProcessLimits(wall_s=60))

            async def begin(connection, pid=pid):
                await launcher.adopt(connection, pid, gate)

            assert (await launcher.follow(connection, begin)).ended is ExitKind.NOT_STARTED
        assert lab.alive() == [template]
    os.close(gate)
    assert not os.read(waiting, 1)
    os.close(waiting)


EVALUATOR = """
import anyio, json, sys
from pathlib import Path
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessLimits
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.warm.warm_server import start_server

async def main():
    mark, template, spec, check = sys.argv[1:]
    argv = (sys.executable, "-I", template, spec, "{records}", "{control}")
    command = ChildCommand(argv=argv, cwd=Path("/"), environment={"MARK": mark}, limits=ProcessLimits(wall_s=60))
    async with open_launcher() as launcher:
        first = await start_server(launcher, command, 30)
        second = await first.advance("collected", 30)
        await second.run(Path(check), ProcessLimits(wall_s=60))

anyio.run(main, backend="asyncio")
"""


def test_nothing_survives_the_evaluator(lab, tmp_path):
    path = tmp_path / "door"
    os.mkfifo(path)
    door = os.open(path, os.O_RDWR)
    code = f"import os, signal\nif os.fork() == 0: os.setsid()\nopen({str(path)!r}, 'w').write('x'); signal.pause()"
    check, spec = str(lab.spec(code=code)), str(lab.spec())
    evaluator = subprocess.Popen([sys.executable, "-c", EVALUATOR, lab.mark, str(TEMPLATE), spec, check])
    try:
        told = b""
        while len(told) < 2:
            assert select.select([door], [], [], 30)[0], "the fork did not come up"
            told += os.read(door, 16)
        children = lab.alive()
        assert len(children) == 4
        watches = [os.pidfd_open(pid) for pid in children]
        os.kill(evaluator.pid, signal.SIGKILL)
        for watch in watches:
            assert select.select([watch], [], [], 10)[0], "a process survived"
            os.close(watch)
    finally:
        evaluator.kill()
        evaluator.wait()
        os.close(door)
