"""Run the same checks in forks of real templates and in processes of their own: real launcher, real runner."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from runner_sessions import SessionRun, shared_runner, write_files

from codeflash_parallel.process.launcher.launcher import Launcher, open_launcher
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits, Workspace
from codeflash_parallel.sandbox.runner_command import (
    ControlChannelUse,
    parse_records,
    start_command,
    write_spec,
)
from codeflash_parallel.warm.warm_server import WarmServer, start_server

READY_S = 60.0
LIMITS = ProcessLimits(wall_s=60.0)
#: Text that differs between any two processes.
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class Run(SessionRun):
    """One run of a runner, forked or not."""

    exit: ProcessExit

    @property
    def essence(self) -> list[dict[str, Any]]:
        """The records without what differs between any two runs."""
        return [
            {name: _steady(value) for name, value in record.items() if name not in {"ns", "copy_ns", "pid"}}
            for record in self.records
            if record["t"] not in {"timing", "served"}
        ]


def _steady(value: Any) -> Any:
    return _ADDRESS.sub("0x", value) if isinstance(value, str) else value


Gate = tuple[str, ...] | None

#: Fork points, each with its gate: none, as in runs without targets, or the targets' files.
POINTS: tuple[tuple[str, Gate], ...] = (("imported", ()), ("imported", None), ("collected", None))


@dataclass
class ServingLab:
    """A project under test, with a private folder beside it."""

    base: Path
    launcher: Launcher
    python: str = sys.executable
    targets: tuple[str, ...] = ("mod.py::f",)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.base / "root"
        self.private = self.base / "private"
        for folder in (self.root, self.private, self.private / "home", self.private / "tmp"):
            folder.mkdir(exist_ok=True)
        self.runner = shared_runner()

    @property
    def workspace(self) -> Workspace:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.private / "home"),
            "TMPDIR": str(self.private / "tmp"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            **self.environment,
        }
        return Workspace(
            root=self.root,
            project=self.root,
            user_root=self.base / "elsewhere",
            interpreter=Path(self.python),
            private=self.private,
            environment=environment,
        )

    def write(self, **files: str) -> None:
        """Write Python files of the project by their names without suffix; ``__`` separates folders."""
        write_files(self.root, {name.replace("__", "/") + ".py": text for name, text in files.items()})

    def spec(self, **fields: Any) -> dict[str, Any]:
        targets = [
            dict(zip(("path", "qualname"), target.split("::"), strict=True)) for target in self.targets
        ]
        return {
            "mode": "tests",
            "targets": targets,
            "prove": sorted({target["path"] for target in targets}),
            "args": [],
            "select": None,
            "wrap": "none",
            "budget": {"calls": 2000, "bytes": 1 << 26, "seconds": 30.0},
            "inputs": str(self.base / "inputs"),
            "stop": "never",
            "tracebacks": "short",
            "workers": 0,
            "seed": 7,
            **fields,
        }

    async def new_process(self, limits: ProcessLimits = LIMITS, **fields: Any) -> Run:
        """Run a runner in a process of its own."""
        command = start_command(self.workspace, self.spec(**fields), limits, self.runner)
        return _run(await self.launcher.run(command))

    async def fork(self, server: WarmServer, limits: ProcessLimits = LIMITS, **fields: Any) -> Run:
        """Run a runner in a fork."""
        path = write_spec(self.workspace, self.spec(**fields), self.runner)
        return _run(await server.run(path, limits))

    @asynccontextmanager
    async def server(self, until: str = "imported", **fields: Any) -> AsyncIterator[WarmServer]:
        """Start a template; its gate is the targets' files, unless `gate` names others or none."""
        server = await self.start(until, **fields)
        try:
            yield server
        finally:
            await server.close()

    async def start(
        self,
        until: str,
        gate: Gate = None,
        **fields: Any,
    ) -> WarmServer:
        files = {target.partition("::")[0] for target in self.targets} if gate is None else gate
        serve = {"until": until, "gate": sorted(files)}
        spec = self.spec(**fields, serve=serve)
        command = start_command(self.workspace, spec, LIMITS, self.runner, control=ControlChannelUse.LINES)
        return await start_server(self.launcher, command, READY_S)


def _run(done: ProcessExit) -> Run:
    output = done.stdout + done.stderr
    records = list(parse_records(done.records))
    return Run(records=records, output=output, status=done.status, exit=done)


@asynccontextmanager
async def open_lab(base: Path, **options: Any) -> AsyncIterator[ServingLab]:
    """Open a laboratory with a launcher of its own."""
    async with open_launcher() as launcher:
        yield ServingLab(base, launcher, **options)


def last_words(run: Run) -> Mapping[str, Any]:
    """Return the last record, or what there is instead of one."""
    return run.records[-1] if run.records else {"t": "nothing", "output": run.output}


MODULE = '''
def f(x):
    """Add one.

    >>> f(2)
    3
    """
    return x + 1
'''


def by_kind(records: list[dict]) -> dict[str, list[dict]]:
    """Sort records by kind: at `collected`, a module's source is told before the collection instead of within it."""
    kinds: dict[str, list[dict]] = {}
    for record in records:
        kinds.setdefault(record["t"], []).append(record)
    return kinds


@pytest.fixture
def anyio_backend() -> str:
    """One event loop will do: what is tested here are the runner's processes."""
    return "asyncio"


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[ServingLab]:
    async with open_lab(tmp_path) as made:
        yield made
