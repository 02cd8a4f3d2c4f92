"""Forks of warm servers end as new processes do, and harm nobody; the template is a stand-in."""

from __future__ import annotations

import signal

import anyio
import pytest
from process_support import door
from template_lab import READY_S, lab, open_files, serving

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.warm.warm_server import WarmServer, start_server

__all__ = ["door", "lab"]
pytestmark = [pytest.mark.anyio, pytest.mark.engine]


async def test_a_fork_ends_as_a_fresh_process_does(lab):
    code = "import os, sys; print('out'); print('err', file=sys.stderr); os.write(records, b'{}\\n'); sys.exit(3)"
    async with serving(lab) as server:
        end = await lab.run(server, code)
        assert server.forks == 1
    assert (end.ended, end.status, end.stdout, end.stderr) == (ExitKind.EXITED, 3, "out\n", "err\n")
    assert end.records == b"{}\n"
    assert end.wall_ns > 0
    assert end.max_rss_bytes > 1 << 20
    assert end.leaked == end.unkillable == ()


async def test_what_the_template_says_of_itself(lab):
    async with serving(lab) as server:
        assert (server.ready.point, server.ready.unfit, server.forks) == ("imported", "", 0)
        assert server.rss_bytes() > 1 << 20
        await server.close()
        assert server.rss_bytes() == 0
    async with serving(lab, "unfit") as server:
        assert server.ready.unfit == "a thread"


async def test_a_crash_harms_no_other(lab):
    async with serving(lab) as server:
        crash = await lab.run(server, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        after = await lab.run(server, "print('well')")
    assert (crash.ended, crash.status) == (ExitKind.SIGNALLED, -signal.SIGSEGV)
    assert (after.ended, after.stdout) == (ExitKind.EXITED, "well\n")


@pytest.mark.parametrize(
    ("code", "limits", "ended"),
    [
        ("while True: pass", {"cpu_s": 0.3}, ExitKind.CPU_DEADLINE),
        ("import os, signal\nif os.fork() == 0:\n  os.setsid()\n  while True: pass\nsignal.pause()", {"cpu_s": 0.3}, ExitKind.CPU_DEADLINE),
        ("import signal; signal.pause()", {"wall_s": 0.3}, ExitKind.WALL_DEADLINE),
        ("hoard = b'x' * 300_000_000\nwhile True: pass", {"memory_bytes": 150_000_000}, ExitKind.MEMORY_LIMIT),
    ],
)  # fmt: skip
async def test_limits_hold_for_a_fork(lab, code, limits, ended):
    async with serving(lab) as server:
        end = await lab.run(server, code, **limits)
        assert (await lab.run(server, "print('well')")).stdout == "well\n"
    assert end.ended is ended


async def test_memory_of_the_template_counts_as_it_would_in_a_fresh_process(lab):
    async with serving(lab, hoard=100_000_000) as server:
        alone = await lab.run(server, "import time; time.sleep(0.5)", memory_bytes=150_000_000)
        forks = "import os, time\nfor _ in range(3): os.fork()\ntime.sleep(0.5)\nos._exit(0)"
        shared = await lab.run(server, forks, memory_bytes=300_000_000)
        over = await lab.run(server, "import signal; signal.pause()", memory_bytes=90_000_000)
    assert (alone.ended, over.ended) == (ExitKind.EXITED, ExitKind.MEMORY_LIMIT)
    assert shared.ended is ExitKind.EXITED


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
        assert end.ended is ExitKind.EXITED
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


async def test_floods_are_stopped(lab):
    flood = "import os\nwhile True: os.write({}, b'x' * 65536)"
    async with serving(lab) as server:
        records = await lab.run(server, flood.format("records"), record_bytes=1_000_000)
        output = await lab.run(server, "print('A' + 'x' * 3_000_000 + 'Z')", output_bytes=10_000)
        endless = await lab.run(server, flood.format(1), output_bytes=10_000, cpu_s=0.3)
    assert (records.ended, records.message, len(records.records)) == (
        ExitKind.KILLED,
        "record flood",
        1_000_000,
    )
    assert output.stdout.startswith("Ax")
    assert output.stdout.endswith("xZ\n")
    assert len(output.stdout) < 11_000
    assert endless.ended is ExitKind.CPU_DEADLINE


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


async def test_many_forks_leave_nothing(lab):
    async with serving(lab) as server:
        await lab.run(server, "pass")
        before = open_files()
        for _ in range(50):
            assert (await lab.run(server, "pass")).ended is ExitKind.EXITED
        assert open_files() == before
        assert lab.alive() == [server._channel.pid]
        assert open_files(server._channel.pid) <= 6
