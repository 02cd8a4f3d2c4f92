"""Listeners of audit events, tools of the machine, and third-party modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

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
    places = SimpleNamespace(relative=lambda _: None, mapped=lambda _: None)
    watch = process_watch.SubprocessWatch(channel, places)
    for test in ("a", "b", "a"):
        watch.pytest_runtest_logstart(test)
        if test == "a":
            subprocess.run(["true"], check=True)
        watch.pytest_runtest_logfinish()
    assert [record["id"] for record in channel.records] == ["a"]


def test_modules_of_the_project_and_of_python_are_no_third_party(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in (("cfp_own", tmp_path / "slot/m.py"), ("cfp_other", tmp_path / "site/m.py")):
        module = ModuleType(name)
        module.__spec__ = SimpleNamespace(name=name, has_location=True, origin=str(place))  # type: ignore[assignment]
        monkeypatch.setitem(sys.modules, name, module)
    places = SimpleNamespace(
        relative=lambda path: path if path.startswith(str(tmp_path / "slot")) else None, mapped=lambda _: None
    )
    found = process_watch.third_party(places)
    assert "cfp_other" in found
    assert not {"cfp_own", "os", "json", "pytest"} & set(found)
    assert os.path is not None
