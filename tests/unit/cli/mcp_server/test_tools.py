from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.cli.mcp_server.child_processes import ChildProcesses
from codeflash_parallel.cli.mcp_server.submitted_runs import SubmittedRuns

pytest.importorskip("mcp.server.mcpserver", reason="needs the extra mcp")

from mcp import Client

from codeflash_parallel.cli.mcp_server import tools

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run under the event loop of the server."""
    return "asyncio"


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Client]:
    """Connect a client to a server in this process."""
    children = ChildProcesses("")
    async with anyio.create_task_group() as tasks:
        server = tools._make_server(tools._Tools(folder, children, SubmittedRuns(children, tasks)))
        async with Client(server) as client:
            yield client


async def test_clients_are_told_what_a_tool_changes(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        found = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert [name for name, tool in found.items() if tool.annotations.destructive_hint] == ["apply"]
    assert all("Args:" in tool.description and "\n\n\n" not in tool.description for tool in found.values())
    assert all("ctx" not in tool.input_schema["properties"] for tool in found.values())


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("explain", {"project": "."}, "Bad arguments: run: Field required."),
        ("explain", {"project": ".", "run": 1, "id": 2}, "explain has no argument id. It has: project, run"),
        ("explain", {"project": ".", "run": "-x"}, "'-x' is no run. Give its id"),
        ("doctor", {"project": "no/\nfolder"}, "no/ folder is no folder."),
        ("wait_for", {"handle": "x" * 9000}, "This server has no handle"),
        ("wait_for", {"handle": "x", "seconds": -1}, "seconds: Input should be greater"),
        ("unknown", {}, "Unknown tool: unknown"),
    ],
)
async def test_a_mistake_of_the_caller_is_one_line(
    name: str, given: dict[str, object], words: str, tmp_path: Path
) -> None:
    async with connected(tmp_path) as client:
        result = await client.call_tool(name, given)
    (content,) = result.content
    assert result.is_error
    assert words in content.text
    assert "\n" not in content.text
    assert len(content.text.encode()) <= 4000


async def test_a_defect_is_not_told_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SubmittedRuns, "find", lambda *_: 1 / 0)
    with caplog.at_level(logging.ERROR):
        async with connected(tmp_path) as client:
            result = await client.call_tool("wait_for", {"handle": "x"})
    assert result.is_error
    assert result.content[0].text == "Error executing tool wait_for"
    assert "ZeroDivisionError" in caplog.text
