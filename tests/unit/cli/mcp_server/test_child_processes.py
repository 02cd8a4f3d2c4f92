from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.cli.mcp_server import child_processes
from codeflash_parallel.cli.mcp_server.child_processes import ChildProcesses, ChildStreams, tail_of
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

NOWHERE = ChildStreams(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)


@pytest.mark.anyio
async def test_a_command_answers_its_text(tmp_path: Path) -> None:
    assert (await ChildProcesses("").text_of(["--version"], tmp_path)).startswith("codeflash-parallel 0")
    with pytest.raises(UsageError, match=r"unknown command 'rum'\. Did you mean 'run'"):
        await ChildProcesses("").text_of(["rum"], tmp_path)


@pytest.mark.anyio
@pytest.mark.parametrize(("argument", "folder"), [("x\0y", "."), ("--help", "absent"), ("--help", "file")])
async def test_a_command_that_cannot_start_is_the_caller_s_mistake(
    tmp_path: Path, argument: str, folder: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError):
        await ChildProcesses("").text_of([argument], tmp_path / folder)


@pytest.mark.anyio
async def test_a_child_that_ignores_signals_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn = "import signal, time\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nprint(flush=True)\ntime.sleep(60)"
    (tmp_path / "python").write_text(f"#!/bin/sh\nexec python3 -c '{stubborn}'\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(child_processes.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(child_processes, "_GRACE_S", (0.1, 0.1, 5.0))
    children = ChildProcesses("")
    async with children.running(["run"], tmp_path, NOWHERE._replace(stdout=subprocess.PIPE)) as process:
        with anyio.fail_after(20):
            await process.stdout.receive()
            await children.end()
        assert process.returncode == -9
    with pytest.raises(EnvironmentFault, match="about to end"):
        await children.text_of(["--version"], tmp_path)


def test_only_the_end_of_a_long_file_is_read() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 1_000_000 + b"end")
        assert tail_of(file).endswith("end")
        assert len(tail_of(file)) < 20_000
