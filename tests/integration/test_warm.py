"""Warm servers with real processes; the template is a stand-in that speaks the guest's protocol."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from process_support import alive, door

from codeflash_parallel.model.errors import EnvironmentFault
from codeflash_parallel.model.outcome import Ended
from codeflash_parallel.model.workspace import Command, Exit, Limits, ServerGone
from codeflash_parallel.process.launcher import open_launcher
from codeflash_parallel.process.launcher_process import start_launcher_process
from codeflash_parallel.process.warm import WarmServer, start_server

__all__ = ["door"]
pytestmark = pytest.mark.anyio

TEMPLATE = Path(__file__).with_name("fake_template.py")
READY_S = 30.0


class Lab:
    """Templates and forks of one test; none may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex

    def spec(self, **fields: object) -> Path:
        path = self.folder / f"spec-{uuid.uuid4().hex}.json"
        path.write_text(json.dumps({"serve": {"until": "F1"}, "act": "", **fields}))
        return path

    def template(self, act: str = "", *, hoard: int = 0) -> Command:
        spec = self.spec(act=act, hoard=hoard)
        return Command(
            argv=(sys.executable, "-I", str(TEMPLATE), str(spec), "{records}", "{control}"),
            cwd=Path("/"),
            environment={"MARK": self.mark},
            limits=Limits(wall_s=120),
        )

    async def run(self, server: WarmServer, code: str, **limits: float) -> Exit:
        return await server.run(self.spec(code=code), Limits(**{"wall_s": 60.0, **limits}))

    def alive(self) -> list[int]:
        return alive(self.mark)

    async def gone(self) -> None:
        """Wait until nobody is left: a fork whose gate closes unopened leaves by itself."""
        with anyio.fail_after(30):
            for pid in self.alive():
                try:
                    watch = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue
                await anyio.wait_readable(watch)
                os.close(watch)


def open_files(pid: int | str = "self") -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.fixture
def lab(tmp_path):
    made = Lab(tmp_path)
    yield made
    assert not made.alive()


@asynccontextmanager
async def serving(lab: Lab, act: str = "", *, hoard: int = 0) -> AsyncIterator[WarmServer]:
    async with open_launcher() as launcher:
        yield await start_server(launcher, lab.template(act, hoard=hoard), READY_S)


async def test_a_fork_ends_as_a_fresh_process_does(lab):
    code = "import os, sys; print('out'); print('err', file=sys.stderr); os.write(records, b'{}\\n'); sys.exit(3)"
    async with serving(lab) as server:
        end = await lab.run(server, code)
        assert server.forks == 1
    assert (end.ended, end.status, end.stdout, end.stderr) == (Ended.EXITED, 3, "out\n", "err\n")
    assert end.records == b"{}\n"
    assert end.wall_ns > 0
    assert end.max_rss_bytes > 1 << 20
    assert end.leaked == end.unkillable == ()


async def test_what_the_template_says_of_itself(lab):
    async with serving(lab) as server:
        assert (server.ready.point, server.ready.fit, server.forks) == ("F1", True, 0)
        assert server.rss_bytes() > 1 << 20
        await server.close()
        assert server.rss_bytes() == 0
    async with serving(lab, "unfit") as server:
        assert (server.ready.fit, server.ready.unfit) == (False, "a thread")


async def test_a_crash_harms_no_other(lab):
    async with serving(lab) as server:
        crash = await lab.run(server, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        after = await lab.run(server, "print('well')")
    assert (crash.ended, crash.status) == (Ended.SIGNALLED, -signal.SIGSEGV)
    assert (after.ended, after.stdout) == (Ended.EXITED, "well\n")


@pytest.mark.engine
@pytest.mark.parametrize(
    ("code", "limits", "ended"),
    [
        ("while True: pass", {"cpu_s": 0.3}, Ended.CPU_DEADLINE),
        ("import os, signal\nif os.fork() == 0:\n  os.setsid()\n  while True: pass\nsignal.pause()", {"cpu_s": 0.3}, Ended.CPU_DEADLINE),
        ("import signal; signal.pause()", {"wall_s": 0.3}, Ended.WALL_DEADLINE),
        ("hoard = b'x' * 300_000_000\nwhile True: pass", {"memory_bytes": 150_000_000}, Ended.MEMORY_LIMIT),
    ],
)  # fmt: skip
async def test_limits_hold_for_a_fork(lab, code, limits, ended):
    async with serving(lab) as server:
        end = await lab.run(server, code, **limits)
        assert (await lab.run(server, "print('well')")).stdout == "well\n"
    assert end.ended is ended


@pytest.mark.engine
async def test_memory_of_the_template_counts_as_it_would_in_a_fresh_process(lab):
    async with serving(lab, hoard=100_000_000) as server:
        alone = await lab.run(server, "import time; time.sleep(0.5)", memory_bytes=150_000_000)
        forks = "import os, time\nfor _ in range(3): os.fork()\ntime.sleep(0.5)\nos._exit(0)"
        shared = await lab.run(server, forks, memory_bytes=300_000_000)
        over = await lab.run(server, "import signal; signal.pause()", memory_bytes=90_000_000)
    assert (alone.ended, over.ended) == (Ended.EXITED, Ended.MEMORY_LIMIT)
    assert shared.ended is Ended.EXITED


async def test_cpu_of_the_template_is_not_the_fork_s(lab):
    async with serving(lab) as server:
        quick = await lab.run(server, "pass", cpu_s=5.0)
        busy = await lab.run(server, "import time\nwhile time.process_time() < 0.2: pass")
    assert quick.cpu_ns < 150_000_000 < busy.cpu_ns


async def test_leaks_are_named_and_killed(lab):
    code = """
import os, signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/proc/self/exe", ["hidden", "-I", "-S", "-c", "import signal; signal.pause()"], {})
    os._exit(0)
os.wait()
"""
    async with serving(lab) as server:
        end = await lab.run(server, code)
        assert end.ended is Ended.EXITED
        assert len(end.leaked) == 1
        assert lab.alive() == [server._channel.pid]
        assert (await lab.run(server, "pass")).leaked == ()


async def test_a_fork_is_known_by_its_own_marks(lab):
    code = """
import os, resource
tag = resource.getrlimit(resource.RLIMIT_MSGQUEUE)[1]
line = next(l for l in open("/proc/self/environ").read().split("\\0") if l.startswith("CODEFLASH_PARALLEL_JOB="))
print(line.partition("=")[2], os.environ["CODEFLASH_PARALLEL_JOB"], tag, os.getsid(0) == os.getpid())
"""
    async with serving(lab) as server:
        first, second = [(await lab.run(server, code)).stdout.split() for _ in range(2)]
    assert first[0] == first[1] != second[0] == second[1]
    assert len(first[0]) == len(second[0])
    assert int(second[2]) < int(first[2])
    assert first[3] == second[3] == "True"


@pytest.mark.engine
async def test_floods_are_stopped(lab):
    flood = "import os\nwhile True: os.write({}, b'x' * 65536)"
    async with serving(lab) as server:
        records = await lab.run(server, flood.format("records"), record_bytes=1_000_000)
        output = await lab.run(server, "print('A' + 'x' * 3_000_000 + 'Z')", output_bytes=10_000)
        endless = await lab.run(server, flood.format(1), output_bytes=10_000, cpu_s=0.3)
    assert (records.ended, records.message, len(records.records)) == (Ended.KILLED, "record flood", 1_000_000)
    assert output.stdout.startswith("Ax")
    assert output.stdout.endswith("xZ\n")
    assert len(output.stdout) < 11_000
    assert endless.ended is Ended.CPU_DEADLINE


async def test_large_records_arrive_whole(lab):
    code = "import os\nfor i in range(500): os.write(records, bytes([i % 256]) * 10_000)"
    async with serving(lab) as server:
        end = await lab.run(server, code)
    assert end.records == b"".join(bytes([i % 256]) * 10_000 for i in range(500))


async def test_cancelling_kills_the_fork_s_tree_and_leaves_the_server(lab, door):
    code = f"import os, signal\nif os.fork() == 0:\n  os.setsid()\n  open({door.path!r}, 'w').write('here')\nsignal.pause()"
    async with serving(lab) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lab.run, server, code)
            await door.knock()
            assert len(lab.alive()) == 3
            tasks.cancel_scope.cancel()
        assert lab.alive() == [server._channel.pid]
        assert (await lab.run(server, "print('well')")).stdout == "well\n"


async def test_cancelled_at_any_moment(lab):
    async with serving(lab) as server:
        for pause_s in (0, 0, 0.001, 0.002, 0.003, 0.005, 0.01):
            with anyio.move_on_after(pause_s):
                await lab.run(server, "import signal; signal.pause()")
            assert lab.alive() == [server._channel.pid]
        assert (await lab.run(server, "print('well')")).stdout == "well\n"


async def test_two_servers_at_once_and_each_one_check_at_a_time(lab):
    told = []

    async def one(server: WarmServer, name: str) -> None:
        end = await lab.run(server, f"print({name!r})")
        told.append(end.stdout)

    async with open_launcher() as launcher:
        servers = [await start_server(launcher, lab.template(), READY_S) for _ in range(2)]
        async with anyio.create_task_group() as tasks:
            for number in range(10):
                tasks.start_soon(one, servers[number % 2], str(number))
        assert [server.forks for server in servers] == [5, 5]
    assert sorted(told) == [f"{number}\n" for number in range(10)]


@pytest.mark.engine
async def test_many_forks_leave_nothing(lab):
    async with serving(lab) as server:
        await lab.run(server, "pass")
        before = open_files()
        for _ in range(50):
            assert (await lab.run(server, "pass")).ended is Ended.EXITED
        assert open_files() == before
        assert lab.alive() == [server._channel.pid]
        assert open_files(server._channel.pid) <= 6


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
        monkeypatch.setattr("codeflash_parallel.process.warm._ANSWER_S", 0.3)
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
        assert (await server.close()).ended is Ended.KILLED
        await anyio.to_thread.run_sync((tmp_path / "back").write_text, "go")

    async with serving(lab) as server:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
            check = await lab.run(server, code)
        assert (check.ended, check.stdout) == (Ended.EXITED, "go\n")
        with pytest.raises(ServerGone):
            await lab.run(server, "pass")


async def test_the_next_template(lab):
    async with serving(lab) as server:
        before = open_files()
        following = await server.advance("F2", READY_S)
        assert (following.ready.point, following.forks, server.forks) == ("F2", 0, 0)
        await server.close()
        for _ in range(3):
            assert (await lab.run(following, "print('well')")).stdout == "well\n"
        last = await following.advance("F3", READY_S)
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
            await server.advance("F2", 0.3)
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
            await server.advance("F2", READY_S)
            raise KeyError("stop")

    before = open_files()
    with pytest.raises(KeyError):
        await leave()
    assert not lab.alive()
    assert open_files() == before


async def test_a_dead_launcher_takes_all_with_it(lab):
    process = start_launcher_process()
    async with open_launcher(process) as launcher:
        server = await start_server(launcher, lab.template(), READY_S)
        await server.advance("F2", READY_S)
        end = await lab.run(
            server, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsignal.pause()"
        )
        assert end.ended is Ended.KILLED
        assert "launcher" in end.message


async def test_adopting_what_is_not_ours(lab):
    waiting, gate = os.pipe()
    async with open_launcher() as launcher:
        template = (await start_server(launcher, lab.template(), READY_S))._channel.pid
        for pid in (1, os.getpid(), template, 2**22):
            connection = launcher.reserve(Limits(wall_s=60))

            async def begin(connection, pid=pid):
                await launcher.adopt(connection, pid, gate)

            assert (await launcher.follow(connection, begin)).ended is Ended.NOT_STARTED
        assert lab.alive() == [template]
    os.close(gate)
    assert not os.read(waiting, 1)
    os.close(waiting)


EVALUATOR = """
import anyio, json, sys
from pathlib import Path
from codeflash_parallel.model.workspace import Command, Limits
from codeflash_parallel.process.launcher import open_launcher
from codeflash_parallel.process.warm import start_server

async def main():
    mark, template, spec, check = sys.argv[1:]
    argv = (sys.executable, "-I", template, spec, "{records}", "{control}")
    command = Command(argv=argv, cwd=Path("/"), environment={"MARK": mark}, limits=Limits(wall_s=60))
    async with open_launcher() as launcher:
        first = await start_server(launcher, command, 30)
        second = await first.advance("F2", 30)
        await second.run(Path(check), Limits(wall_s=60))

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
