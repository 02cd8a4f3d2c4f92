"""The launcher with real processes: what a child is given, what it gives back, how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.process.message_frames import MARKER
from codeflash_parallel.process.process_table import marked
from codeflash_parallel.result.errors import InternalError
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ChannelClosed, ChildCommand, ProcessLimits

pytestmark = pytest.mark.anyio

ECHO = """
import socket, sys
link = socket.socket(fileno=int(sys.argv[1]))
while data := link.recv(65536):
    link.sendall(data)
"""


def python(
    code: str, *arguments: str, environment: dict[str, str] | None = None, **limits: float
) -> ChildCommand:
    return ChildCommand(
        argv=(sys.executable, "-I", "-S", "-c", code, *arguments),
        cwd=Path("/"),
        environment={} if environment is None else environment,
        limits=ProcessLimits(**{"wall_s": 60.0, **limits}),
    )


async def test_status_output_and_records_come_back():
    code = "import os, sys; print('out'); print('err', file=sys.stderr); os.write(int(sys.argv[1]), b'{}\\n'); sys.exit(3)"
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, "{records}"))
    assert (end.ended, end.status, end.stdout, end.stderr) == (ExitKind.EXITED, 3, "out\n", "err\n")
    assert end.records == b"{}\n"
    assert end.cpu_ns > 0
    assert end.wall_ns > 0
    assert end.max_rss_bytes > 1 << 20
    assert end.leaked == end.unkillable == ()


async def test_a_crash_is_a_value():
    async with open_launcher() as launcher:
        end = await launcher.run(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
    assert (end.ended, end.status) == (ExitKind.SIGNALLED, -signal.SIGSEGV)


@pytest.mark.parametrize(
    ("program", "cwd", "words"),
    [("/no/such/program", "/", "/no/such/program"), ("/bin/true", "/no/such/dir", "/no/such/dir")],
)
async def test_what_cannot_be_started_says_why(program, cwd, words):
    command = ChildCommand(argv=(program,), cwd=Path(cwd), environment={}, limits=ProcessLimits(wall_s=10))
    async with open_launcher() as launcher:
        end = await launcher.run(command)
        channel = await launcher.open(command)
        with pytest.raises(ChannelClosed):
            await channel.receive(10)
        same = await channel.close()
    assert end.ended is same.ended is ExitKind.NOT_STARTED
    assert words in end.message


async def test_a_child_gets_exactly_what_it_was_promised():
    code = """
import json, os, resource, signal, sys
blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
ignored = [int(s) for s in signal.valid_signals() if signal.getsignal(s) is signal.SIG_IGN]
print(json.dumps({
    "fds": sorted(int(n) for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
    "stdin": os.readlink("/proc/self/fd/0"), "leader": os.getsid(0) == os.getpid(), "cwd": os.getcwd(),
    "core": resource.getrlimit(resource.RLIMIT_CORE), "blocked": list(blocked), "ignored": ignored,
    "environment": {k: v for k, v in os.environ.items() if k != "LC_CTYPE"}, "argument": ascii(sys.argv[2])}))
"""
    environment = {"NAME": "sp ace \u00e9 \udcff", "EMPTY": ""}
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, "{records}", "\u00e9\udcff", environment=environment))
    told = json.loads(end.stdout)
    marker = told["environment"].pop(MARKER)
    assert marker.endswith("-00000001")
    assert told == {
        "fds": [0, 1, 2, 3],
        "stdin": "/dev/null",
        "leader": True,
        "cwd": "/",
        "core": [0, 0],
        "blocked": [],
        "ignored": [signal.SIGPIPE, signal.SIGXFSZ],  # by the child's own interpreter
        "environment": environment,
        "argument": ascii("\u00e9\udcff"),
    }


async def test_output_is_kept_at_both_ends_only():
    code = "import sys; sys.stdout.write('A' * 1000 + 'x' * 3_000_000 + 'Z' * 1000)"
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, output_bytes=10_000))
    assert end.ended is ExitKind.EXITED
    assert end.stdout.startswith("A" * 1000 + "x")
    assert end.stdout.endswith("x" + "Z" * 1000)
    assert "2992000 bytes left out" in end.stdout
    assert len(end.stdout) < 11_000


async def test_a_flood_of_records_is_stopped():
    code = "import os, sys\nwhile True: os.write(int(sys.argv[1]), b'x' * 65536)"
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, "{records}", record_bytes=1_000_000))
    assert (end.ended, end.message) == (ExitKind.KILLED, "record flood")
    assert len(end.records) == 1_000_000


async def test_large_records_arrive_whole():
    code = "import os, sys\nfor i in range(500): os.write(int(sys.argv[1]), bytes([i % 256]) * 10_000)"
    async with open_launcher() as launcher:
        end = await launcher.run(python(code, "{records}"))
    assert end.records == b"".join(bytes([i % 256]) * 10_000 for i in range(500))


async def test_fifty_at_once():
    ends = {}

    async def one(number: int) -> None:
        command = ChildCommand(
            argv=("/bin/sh", "-c", f"echo {number}; exit {number}"),
            cwd=Path("/"),
            environment={},
            limits=ProcessLimits(wall_s=60),
        )
        ends[number] = await launcher.run(command)

    async with open_launcher() as launcher, anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    assert {number: (end.status, end.stdout) for number, end in ends.items()} == {
        n: (n, f"{n}\n") for n in range(50)
    }


async def test_an_environment_larger_than_any_socket_buffer():
    environment = {f"NAME_{i}": "x" * 100_000 for i in range(10)}
    async with open_launcher() as launcher:
        end = await launcher.run(
            python("import os; print(sum(map(len, os.environ.values())))", environment=environment)
        )
    assert int(end.stdout) >= 1_000_000


async def test_lines_go_both_ways():
    async with open_launcher() as launcher:
        channel = await launcher.open(python(ECHO, "{control}"))
        assert channel.pid > 0
        for line in (b"one", b"", b"x" * 3_000_000):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(channel.send, line)
                assert await channel.receive(30) == line
        await channel.send(b"a\nb")
        assert [await channel.receive(30), await channel.receive(30)] == [b"a", b"b"]
        end = await channel.close()
        assert end.ended is ExitKind.KILLED
        assert await channel.close() is end


async def test_a_late_line_is_a_timeout_and_is_not_lost():
    code = ECHO + "\n"
    async with open_launcher() as launcher:
        channel = await launcher.open(python(code, "{control}"))
        with pytest.raises(TimeoutError):
            await channel.receive(0.01)
        await channel.send(b"still here")
        assert await channel.receive(30) == b"still here"
        await channel.close()


async def test_a_channel_ends_with_its_child():
    code = "import socket, sys; print('told', flush=True); socket.socket(fileno=int(sys.argv[1])).sendall(b'last\\n')"
    async with open_launcher() as launcher:
        channel = await launcher.open(python(code, "{control}"))
        assert await channel.receive(30) == b"last"
        with pytest.raises(ChannelClosed):
            await channel.receive(30)
        with pytest.raises(ChannelClosed):
            await channel.send(b"x")
        end = await channel.close()
    assert end.stdout == "told\n"


async def test_output_of_a_channel_is_drained_meanwhile():
    code = "import sys; sys.stdout.write('x' * 2_000_000); sys.stdout.flush();" + ECHO
    async with open_launcher() as launcher:
        channel = await launcher.open(python(code, "{control}", output_bytes=1000))
        await channel.send(b"after the output")
        assert await channel.receive(30) == b"after the output"
        end = await channel.close()
    assert "bytes left out" in end.stdout


async def test_leaving_ends_what_is_open():
    async with open_launcher() as launcher:
        channel = await launcher.open(python(ECHO, "{control}"))
        pid = channel.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (await channel.close()).ended is ExitKind.KILLED


async def test_the_block_s_exception_comes_out_as_it_is():
    with pytest.raises(ValueError, match="mine"):
        async with open_launcher():
            raise ValueError("mine")


async def test_a_dead_launcher_ends_its_jobs_and_is_an_error_of_ours():
    code = (
        "import os, signal\nif os.fork(): os.kill(os.getppid(), signal.SIGKILL)\nos.setsid(); signal.pause()"
    )
    async with open_launcher() as launcher:
        end = await launcher.run(python(code))
        assert end.ended is ExitKind.KILLED
        assert "launcher" in end.message
        with pytest.raises(InternalError) as caught:
            await launcher.run(python("pass"))
    assert caught.value.code == "LAUNCHER_DIED"
    assert not marked(launcher._process.prefix)


async def test_the_launcher_ends_with_its_block():
    async with open_launcher() as launcher:
        assert (await launcher.run(python("pass"))).status == 0
    assert launcher._process.popen.returncode == 0
