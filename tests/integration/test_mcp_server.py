"""`codeflash-parallel mcp`, driven by the SDK's own client over standard streams."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from harness import Place, make_place, processes_of, wait_for
from process_support import alive, mark  # noqa: F401 - a fixture
from projects import FAST_TOTAL, WRONG_TOTAL, make_project

pytest.importorskip("mcp.server.mcpserver", reason="needs the extra mcp")

from mcp import Client, StdioServerParameters, stdio_client

# Several commands work on one project, and one of them writes into it.
pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.writes_while_open]

CANDIDATES = [{"id": "fast", "replacement": FAST_TOTAL}, {"id": "wrong", "replacement": WRONG_TOTAL}]
TARGET = ["shop/sums.py::total"]
TOOLS = {"submit_candidates", "wait_for", "explain", "apply", "doctor"}


@pytest.fixture
def anyio_backend() -> str:
    """The server has its own event loop; that of the client is all the same."""
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path, mark: str) -> Place:  # noqa: F811
    made = make_place(tmp_path, MARK_OF_THE_TEST=mark)
    make_project(made.repository)
    return made


def arguments(place: Place) -> list[str]:
    return ["-m", "codeflash_parallel", "mcp", "--cache-dir", str(place.cache)]


class Caller:
    """Call tools of a server; every answer is short."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def __call__(self, name: str, *, fails: bool = False, **given: Any) -> str:
        async def note(done: float, total: float | None, message: str | None) -> None:
            self.progress.append((done, total, message))

        result = await self.client.call_tool(name, given, progress_callback=note)
        (content,) = result.content
        text = content.text
        assert len(text.encode()) <= 4000
        assert bool(result.is_error) is fails, text
        assert result.structured_content is None
        if fails:
            assert "\n" not in text
            assert "Traceback" not in text
        return text


@asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Caller]:
    """Connect to a server; after it has ended, nothing of it runs."""
    server = StdioServerParameters(
        command=sys.executable, args=arguments(place), env=dict(place.environment), cwd=place.cwd
    )
    with (place.state / "server.log").open("w") as log:
        async with Client(stdio_client(server, errlog=log)) as client:
            yield Caller(client)
    assert wait_for(lambda: not left(place), 10), left(place)
    assert "Traceback" not in (place.state / "server.log").read_text()


def left(place: Place) -> list[object]:
    return [*processes_of(place.cache), *alive(place.environment["MARK_OF_THE_TEST"])]


async def test_candidates_are_submitted_waited_for_explained_and_applied(place: Place) -> None:
    project = str(place.repository)
    source = place.repository / "shop" / "sums.py"
    before = source.read_text()
    async with connected(place) as call:
        tools = (await call.client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.description and tool.output_schema is None for tool in tools)
        answer = await call(
            "submit_candidates",
            project=project,
            candidates=CANDIDATES,
            functions=TARGET,
            options={"time_budget": 30, "parallel_candidates": 2},
        )
        assert "handle: run-1" in answer
        assert (await call("wait_for", handle="run-1", seconds=0)).startswith("still running: ")
        while (text := await call("wait_for", handle="run-1")).startswith("still running: "):
            assert 'ask again: wait_for("run-1")' in text
        assert text == await call("wait_for", handle="run-1")
        run_id = text.splitlines()[0].removeprefix("run: ")
        assert "- fast: won" in text
        assert "wrong" in text
        assert source.read_text() == before
        assert {total for _, total, _ in call.progress} <= {None, 2.0}
        assert max(done for done, _, _ in call.progress) >= 1
        assert any("race" in message for _, _, message in call.progress if message)
        explained = await call("explain", project=project, run=run_id, candidate="wrong")
        assert "TESTS_FAILED" in explained
        assert "test_total" in explained
        assert "fast" in await call("explain", project=project, run="last")
        applied = await call("apply", project=project, run=run_id)
        assert "shop/sums.py" in applied
        assert "sum(value * value for value in values)" in source.read_text()
        assert "git" in await call("doctor", project=project)


async def test_a_mistake_is_one_line(place: Place) -> None:
    project = str(place.repository)
    submit = {"project": project, "candidates": CANDIDATES, "functions": TARGET}
    async with connected(place) as call:
        for given, words in (
            ({"project": str(place.state / "absent")}, "is no folder"),
            ({"candidates": []}, "No candidates"),
            ({"candidates": [{"id": "a", "ptch": ""}]}, "unknown field ptch"),
            ({"candidates": "much"}, "candidates"),
            ({"options": {"time_budgt": 1}}, "time_budget?"),
            ({"mode": "race"}, "mode"),
            ({"function": TARGET}, "no argument function"),
        ):
            assert words in await call("submit_candidates", fails=True, **{**submit, **given})
        assert "Nothing was submitted" in await call("wait_for", fails=True, handle="x")
        assert "handle" in await call("wait_for", fails=True)
        assert "no run" in await call("explain", fails=True, project=project, run="last")
        assert "no run" in await call("apply", fails=True, project=project, run="--help")
        await call("submit_candidates", project=".", candidates=CANDIDATES, functions=["shop/sums.py::no"])
        assert "shop/sums.py has no function no" in await call("wait_for", fails=True, handle="run-1")
        assert "The handles are run-1" in await call("wait_for", fails=True, handle="x")


async def test_nothing_is_left_when_the_client_goes(place: Place) -> None:
    async with connected(place) as call:
        answer = await call("submit_candidates", project=".", candidates=CANDIDATES, functions=TARGET)
        assert left(place)
    (run_dir,) = place.cache.glob("*/runs/*")
    assert f"resume {run_dir.name}" in answer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(place: Place, number: signal.Signals) -> None:
    given = {"project": ".", "candidates": CANDIDATES, "functions": TARGET}
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": info},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "submit_candidates", "arguments": given}},
    ]
    with subprocess.Popen(
        [sys.executable, *arguments(place)],
        cwd=place.cwd,
        env=dict(place.environment),
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
    ) as server:
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        assert "handle: run-1" in str(answers[1]["result"])
        assert len(left(place)) > 1
        os.kill(server.pid, number)
        assert server.wait(20) == 128 + number
        assert server.stdout.read() == b""
        assert b"Traceback" not in server.stderr.read()
    assert wait_for(lambda: not left(place), 10), left(place)
