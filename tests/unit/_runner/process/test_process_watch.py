"""Listeners of audit events, tools of the machine, and third-party modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.process import process_watch


@pytest.fixture(autouse=True)
def _listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    import _posixsubprocess

    monkeypatch.setattr(process_watch, "_LISTENERS", {})
    monkeypatch.setattr(_posixsubprocess, "fork_exec", _posixsubprocess.fork_exec)


def test_listeners_hear_their_events() -> None:
    heard: list[str] = []
    process_watch.listen(["codeflash.one"], lambda event, args: heard.append(f"{event} {args}"))
    sys.audit("codeflash.one", 1)
    sys.audit("codeflash.two", 2)
    assert heard == ["codeflash.one (1,)"]


@pytest.mark.parametrize(
    ("event", "program", "is_tool"),
    [
        ("subprocess.Popen", "/usr/bin/uname", True),
        ("os.posix_spawn", b"gcc", True),
        ("subprocess.Popen", "python", False),
        ("os.system", "uname", False),
    ],
)
def test_tools_tell_about_the_machine(event: str, program: str, is_tool: bool) -> None:
    assert process_watch.is_tool(event, (program,)) is is_tool


def test_a_test_that_starts_a_process_is_recorded_once() -> None:
    channel = RecordBuffer()
    watch = process_watch.SubprocessWatch(channel)
    for test in ("a", "b", "a"):
        watch.pytest_runtest_logstart(test)
        if test == "a":
            subprocess.run(["true"], check=True)
        watch.pytest_runtest_logfinish()
    assert [record["id"] for record in channel.records] == ["a"]
