"""Warm servers with real processes; the template is a stand-in that speaks the runner's protocol."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from process_support import alive

from codeflash_parallel.process.launcher.launcher import open_launcher
from codeflash_parallel.result.runtime_protocols import ChildCommand, ProcessExit, ProcessLimits
from codeflash_parallel.warm.warm_server import WarmServer, start_server

TEMPLATE = Path(__file__).with_name("fake_template.py")
READY_S = 30.0


class Lab:
    """Templates and forks of one test; none may be left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex

    def spec(self, **fields: object) -> Path:
        path = self.folder / f"spec-{uuid.uuid4().hex}.json"
        path.write_text(json.dumps({"serve": {"until": "imported"}, "act": "", **fields}))
        return path

    def template(self, act: str = "", *, hoard: int = 0) -> ChildCommand:
        spec = self.spec(act=act, hoard=hoard)
        return ChildCommand(
            argv=(sys.executable, "-I", str(TEMPLATE), str(spec), "{records}", "{control}"),
            cwd=Path("/"),
            environment={"MARK": self.mark},
            limits=ProcessLimits(wall_s=120),
        )

    async def run(self, server: WarmServer, code: str, **limits: float) -> ProcessExit:
        return await server.run(self.spec(code=code), ProcessLimits(**{"wall_s": 60.0, **limits}))

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
