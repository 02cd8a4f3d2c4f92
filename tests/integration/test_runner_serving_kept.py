"""A template stays as it is, whatever its forks do, and has the next one ready."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest
from runner_sessions import write_files
from serving_lab import LIMITS, MODULE, POINTS, Gate, ServingLab, anyio_backend, by_kind, lab

from codeflash_parallel.process import process_table
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessLimits
from codeflash_parallel.warm.warm_server import WarmServer

__all__ = ["anyio_backend", "lab"]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("body", "ended", "limits"),
    [
        ("import os; os._exit(3)", ExitKind.EXITED, LIMITS),
        ("import os; os.abort()", ExitKind.SIGNALLED, LIMITS),
        ("while True: pass", ExitKind.CPU_DEADLINE, ProcessLimits(wall_s=60, cpu_s=0.5)),
        ("import time; time.sleep(600)", ExitKind.WALL_DEADLINE, ProcessLimits(wall_s=1)),
        (
            "x = [0] * 10**6\n    while True: x += x",
            ExitKind.MEMORY_LIMIT,
            ProcessLimits(wall_s=60, memory_bytes=2**28),
        ),
        ("import os\n    for _ in range(400): os.write(1, b'x' * 65536)", ExitKind.EXITED, LIMITS),
        ("import os; os.closerange(3, 1000)", ExitKind.EXITED, LIMITS),
        ("import os; os.kill(os.getppid(), 0)", ExitKind.EXITED, LIMITS),
    ],
)
async def test_no_fork_harms_a_later_one(
    lab: ServingLab, body: str, ended: ExitKind, limits: ProcessLimits
) -> None:
    suite = "from mod import f\ndef test_f(capfd):\n  with capfd.disabled(): f()\n"
    lab.write(mod="def f(): pass\n", test_it=suite)
    async with lab.server() as server:
        first = await lab.fork(server)
        lab.write(mod=f"def f():\n    {body}\n")
        bad = await lab.fork(server, limits)
        assert bad.exit.ended is ended, bad.exit
        lab.write(mod="def f(): pass\n")
        last = await lab.fork(server)
        assert last.essence == first.essence
        assert last.outcomes == {"test_f": "passed"}


@pytest.mark.parametrize(("until", "gate"), POINTS)
async def test_what_a_finder_brings_from_the_users_checkout(lab: ServingLab, until: str, gate: Gate) -> None:
    conftest = """
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("mod", "other"):
            return importlib.util.spec_from_file_location(name, PLACE + name + ".py")
sys.meta_path.insert(0, Finder)
"""
    elsewhere = write_files(
        lab.base / "elsewhere", {"mod.py": "PLACE = 'user'\n", "other.py": "PLACE = 'user'\n"}
    )
    lab.write(
        conftest=conftest.replace("PLACE", repr(f"{elsewhere}/")),
        mod="PLACE = 'slot'\ndef f(x): return x\n",
        other="PLACE = 'slot'\n",
        test_it="import other, mod\ndef test_it(): assert mod.PLACE == other.PLACE == 'slot'\n",
    )
    new_process = await lab.new_process()
    assert len(new_process.named("remapped")) == 2
    async with lab.server(until, gate=gate) as server:
        for _ in range(2):
            run = await lab.fork(server)
            assert by_kind(run.essence) == by_kind(new_process.essence)


async def test_a_template_does_not_grow(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2\n")
    async with lab.server() as server:
        pid = server._channel.pid
        await lab.fork(server)
        await waiting(server)
        before, files = server.rss_bytes(), descriptors(pid)
        for _ in range(40):
            assert (await lab.fork(server)).outcomes == {"test_f": "passed"}
        with anyio.fail_after(30):
            while len(descriptors(pid)) > len(files):  # noqa: ASYNC110 - the next fork is being made
                await anyio.sleep(0.01)
        assert server.rss_bytes() - before < 2**20


#: So many functions, compiled ahead, take some 30 MiB.
MANY = "".join(f"def f{n}(x): return x + {n}\n" for n in range(3000))


async def test_the_next_fork_waits_for_its_order_and_ends_with_its_template(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2\n")
    async with lab.server() as server:
        for _ in range(3):
            assert (await lab.fork(server)).outcomes == {"test_f": "passed"}
            await waiting(server)
    assert not forks_of(server)


async def test_who_kills_the_fork_that_waits_harms_no_check(lab: ServingLab) -> None:
    lab.write(mod=MODULE, test_it="from mod import f\ndef test_f(): assert f(1) == 2\n")
    async with lab.server() as server:
        await lab.fork(server)
        for proc in await waiting(server):
            os.kill(proc.pid, signal.SIGKILL)
        for _ in range(2):
            assert (await lab.fork(server)).outcomes == {"test_f": "passed"}


async def waiting(server: WarmServer) -> list[process_table.ProcessEntry]:
    """Return the forks that wait for an order; there is one as soon as it has been made."""
    with anyio.fail_after(30):
        while len(found := forks_of(server)) != 1:  # noqa: ASYNC110 - nobody says so
            await anyio.sleep(0.01)
    return found


def forks_of(server: WarmServer) -> list[process_table.ProcessEntry]:
    """Return the living forks of a template that have not become checks: they are in its session."""
    pid = server._channel.pid
    below = process_table.descendants(os.getpid())
    return [proc for proc in below if proc.session == pid and proc.pid != pid and not proc.gone]


def descriptors(pid: int) -> list[Path]:
    return sorted(Path(f"/proc/{pid}/fd").iterdir())
