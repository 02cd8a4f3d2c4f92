"""Warm servers of the real runner: what a fork tells is what a new process tells."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from runner_sessions import shared_runner, spelled_out, write_files

from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, ServerGone, Workspace
from codeflash_parallel.sandbox.runner_command import (
    ControlChannelUse,
    parse_records,
    start_command,
    write_spec,
)
from codeflash_parallel.warm.warm_server import WarmServer, start_server

pytestmark = [pytest.mark.anyio, pytest.mark.engine]

READY_S = 60.0
LIMITS = ProcessLimits(wall_s=60.0, cpu_s=60.0, memory_bytes=1 << 30)
FILES = {
    "mod.py": "def double(x):\n    return x + x\n",
    "test_mod.py": """
import os
import mod

def test_double():
    assert mod.double(2) == 4

def test_chatter():
    print("said")
    os.write(1, b"written")
""",
}
SPEC = {
    "mode": "tests",
    "args": ["-p", "no:cacheprovider", "-p", "no:randomly", "test_mod.py"],
    "targets": [{"path": "mod.py", "qualname": "double"}],
    "prove": ["mod.py"],
}


class Place:
    """A project, and a server of it."""

    def __init__(self, folder: Path) -> None:
        self.root = write_files(folder / "root", FILES)
        self.runner_dir = shared_runner()
        (folder / "private").mkdir()
        self.workspace = Workspace(
            root=self.root,
            project=self.root,
            user_root=folder / "user",
            interpreter=Path(sys.executable),
            private=folder / "private",
            environment={
                "PATH": os.environ["PATH"],
                "HOME": str(folder / "private"),
                "TMPDIR": str(folder / "private"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            },
        )

    async def start(
        self, launcher: Launcher, until: str, gate: tuple[str, ...] = ("mod.py",), **fields: Any
    ) -> WarmServer:
        spec = {**SPEC, **fields, "serve": {"until": until, "gate": gate}}
        command = start_command(
            self.workspace, spec, LIMITS, self.runner_dir, control=ControlChannelUse.LINES
        )
        return await start_server(launcher, command, READY_S)

    async def fork(self, server: WarmServer, **fields: Any) -> ProcessExit:
        return await server.run(write_spec(self.workspace, {**SPEC, **fields}, self.runner_dir), LIMITS)

    async def new_process(self, launcher: Launcher, **fields: Any) -> ProcessExit:
        return await launcher.run(start_command(self.workspace, {**SPEC, **fields}, LIMITS, self.runner_dir))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@asynccontextmanager
async def launched(
    place: Place, until: str, gate: tuple[str, ...] = ("mod.py",)
) -> AsyncIterator[tuple[Launcher, WarmServer]]:
    async with open_launcher() as launcher:
        server = await place.start(launcher, until, gate)
        assert not server.ready.unfit
        yield launcher, server


def told(ended: ProcessExit) -> list[Mapping[str, Any]]:
    """Return what a runner's records say of the tests and of the code that they ran on."""
    kept = ("t", "id", "when", "outcome", "path", "digest", "sha256", "status")
    records = [r for r in spelled_out(parse_records(ended.records)) if r["t"] in {"phase", "source", "end"}]
    return sorted(({k: r[k] for k in kept if k in r} for r in records), key=json.dumps)


@pytest.mark.parametrize("gate", [(), ("mod.py",)])
async def test_a_fork_tells_what_a_fresh_process_tells(place, gate):
    async with launched(place, "imported", gate) as (launcher, server):
        for body in ("x + x", "x * 2", "x * 3", "x / 0"):
            (place.root / "mod.py").write_text(f"def double(x):\n    return {body}\n")
            forked, new_process = await place.fork(server), await place.new_process(launcher)
            assert told(forked) == told(new_process)
            assert (forked.ended, forked.status) == (new_process.ended, new_process.status)
            assert forked.stdout.count("said") == new_process.stdout.count("said")
            assert forked.leaked == ()
            served = [r for r in parse_records(forked.records) if r["t"] == "served"]
            assert [r["point"] for r in served] == ["imported"]


async def test_a_fork_is_limited_as_a_fresh_process_is(place):
    async with launched(place, "imported") as (_, server):
        (place.root / "mod.py").write_text("def double(x):\n    while True:\n        pass\n")
        spec = write_spec(place.workspace, SPEC, place.runner_dir)
        endless = await server.run(spec, ProcessLimits(wall_s=60.0, cpu_s=0.5))
        (place.root / "mod.py").write_text("import os\ndef double(x):\n    os.kill(os.getpid(), 11)\n")
        crash = await server.run(spec, LIMITS)
        (place.root / "mod.py").write_text(FILES["mod.py"])
        well = await server.run(spec, LIMITS)
    assert (endless.ended, crash.ended, well.ended) == (
        ExitKind.CPU_DEADLINE,
        ExitKind.SIGNALLED,
        ExitKind.EXITED,
    )
    assert well.status == 0


async def test_the_next_template_swaps(place):
    async with launched(place, "imported") as (_, first):
        server = await first.advance("collected", READY_S)
        assert server.ready.point == "collected"
        assert not server.ready.unfit
        for body, outcome in (("x * 2", "passed"), ("x * 3", "failed")):
            (place.root / "mod.py").write_text(f"def double(x):\n    return {body}\n")
            ended = await place.fork(server)
            outcomes = {r["id"]: r["outcome"] for r in told(ended) if r.get("when") == "call"}
            assert outcomes["test_mod.py::test_double"] == outcome, ended


async def test_the_runner_s_last_words(place):
    async with open_launcher() as launcher:
        with pytest.raises(ServerGone) as caught:
            await place.start(launcher, "imported", args=["--no-such-option"])
        assert caught.value.exit is not None
        assert "no-such-option" in str(caught.value)
