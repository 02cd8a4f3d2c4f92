"""Arms forked off one interpreter: real runner, real processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.process import process_table
from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.runtime_protocols import ProcessLimits, ServerGone, Workspace
from codeflash_parallel.sandbox.runner_command import ControlChannelUse, install_runner, start_command

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

LIMITS = ProcessLimits(wall_s=60, cpu_s=60)
BENCH = """
import os


def run():
    return sorted(os.environ.items()), os.getcwd()
"""


class Place:
    def __init__(self, folder: Path, launcher) -> None:
        self.folder, self.launcher = folder, launcher
        self.runner_dir = install_runner(folder / "cache")

    def command(self, name, spec):
        root = self.folder / name
        (root / "private").mkdir(parents=True, exist_ok=True)
        (root / "bench.py").write_text(BENCH)
        environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "7", "MINE": name}
        workspace = Workspace(
            root=root, project=root, user_root=self.folder / "user", interpreter=Path(sys.executable),
            private=root / "private", environment=environment,
        )  # fmt: skip
        return start_command(workspace, spec, LIMITS, self.runner_dir, control=ControlChannelUse.LINES)

    def server(self):
        return self.command("server", {"mode": "forkserver", "work": "callable"})

    def arm(self, name):
        work = {"path": "bench.py", "name": "run", "source": BENCH}
        groups = [{"name": "run", "calls": [], "tests": ["run"]}]
        return self.command(
            name,
            {
                "mode": "arm",
                "work": "callable",
                "groups": groups,
                "targets": [],
                "prove": [],
                "seed": 1,
                "callables": [work],
            },
        )


@pytest.fixture
async def place(tmp_path, anyio_backend):
    async with open_launcher() as launcher:
        yield Place(tmp_path, launcher)


async def ready(channel):
    return json.loads(await channel.receive(20))


def mappings(pid):
    """Where the interpreter's own code lies."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split()[0] for line in lines if " r-xp " in line and ("python" in line or "libc" in line)]


def working_folder(pid):
    return str(Path(f"/proc/{pid}/cwd").readlink())


def is_randomized():
    return Path("/proc/sys/kernel/randomize_va_space").read_text().strip() != "0"


def environment_of(pid):
    return dict(
        line.split("=", 1) for line in Path(f"/proc/{pid}/environ").read_text().split("\0") if "=" in line
    )


async def test_children_share_addresses_and_outlive_the_server(place):
    server = await place.launcher.fork_server(place.server(), 20)
    arms = [await server.open(place.arm(name)) for name in ("one", "two")]
    await server.close()

    assert [(await ready(arm))["t"] for arm in arms] == ["ready", "ready"]
    one, two = (arm.pid for arm in arms)
    assert mappings(one) == mappings(two) != []
    assert os.getsid(one) == one != os.getsid(two)
    assert [working_folder(pid) for pid in (one, two)] == [str(place.folder / n) for n in ("one", "two")]
    markers = {environment_of(pid)["CODEFLASH_PARALLEL_JOB"] for pid in (one, two)}
    assert len(markers) == 2
    for arm in arms:
        await arm.close()
    assert process_table.process(one) is None
    assert process_table.process(two) is None


async def test_the_next_server_has_other_addresses(place):
    found = []
    for _ in range(2):
        server = await place.launcher.fork_server(place.server(), 20)
        arm = await server.open(place.arm("one"))
        assert (await ready(arm))["t"] == "ready"
        found.append(mappings(arm.pid))
        await arm.close()
        await server.close()

    assert (found[0] != found[1]) is is_randomized()


async def test_a_dead_server_says_so_and_leaves_nothing(place):
    server = await place.launcher.fork_server(place.server(), 20)
    os.kill(server._channel.pid, signal.SIGKILL)

    with pytest.raises(ServerGone, match="gone"):
        await server.open(place.arm("one"))
    await server.close()


async def test_a_server_that_does_not_come_up_says_why(place):
    broken = replace(place.server(), argv=(sys.executable, "-c", "import sys; sys.exit('no')"))

    with pytest.raises(ServerGone, match="does not come up"):
        await place.launcher.fork_server(broken, 20)


async def test_cancelling_while_children_come_up_leaves_nothing(place):
    server = await place.launcher.fork_server(place.server(), 20)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await server.open(place.arm("one"))
    await server.close()

    assert process_table.marked(place.launcher._process.prefix) == []
