"""Listeners of audit events, tools of the machine, and third-party modules."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeflash_parallel._runner.channels import RecordBuffer
from codeflash_parallel._runner.process import process_watch
from codeflash_parallel._runner.process.process_watch import IMPORTED, EarlyReadWatch, ForkSafety


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


@pytest.fixture(autouse=True)
def _listeners() -> Iterator[None]:
    before = dict(process_watch._LISTENERS)
    yield
    process_watch._LISTENERS.clear()
    process_watch._LISTENERS.update(before)


@pytest.fixture
def watch(tmp_path: Path) -> EarlyReadWatch:
    changing = str(tmp_path / "changing.py")
    found = EarlyReadWatch(lambda path: path == changing)
    for name in ("changing.py", "other.py"):
        (tmp_path / name).write_text("")
    found.is_on = True
    return found


def test_a_read_of_a_changing_file_is_noted(watch: EarlyReadWatch, tmp_path: Path) -> None:
    (tmp_path / "other.py").read_text()
    assert watch.finding == ""
    os.close(os.open(os.fsencode(tmp_path / "changing.py"), os.O_RDONLY))
    assert watch.finding == "a file that candidates change is read: changing.py"


def test_nothing_is_noted_while_it_is_off(watch: EarlyReadWatch, tmp_path: Path) -> None:
    watch.is_on = False
    (tmp_path / "changing.py").read_text()
    assert watch.finding == ""


def test_processes_count_from_the_first_import_of_the_project(watch: EarlyReadWatch) -> None:
    subprocess.run(["true"], check=True)
    assert watch.finding == ""
    watch.enter_project()
    subprocess.run(["uname"], check=True, stdout=subprocess.DEVNULL)
    assert watch.finding == ""
    subprocess.run(["true"], check=True)
    assert watch.finding == "a process is started: true"


def test_findings_name_the_point_and_the_detail(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    safety = ForkSafety(str(tmp_path))
    (tmp_path / "tmp/made").write_text("")
    assert list(filter(None, [safety._file()])) == ["a temporary file is made: tmp/made"]
    with (tmp_path / "log").open("w") as file:
        assert safety._descriptor(file.fileno()) == f"a file is opened for writing: {tmp_path / 'log'}"
        safety.ours(file.fileno())
        assert safety._descriptor(file.fileno()) == ""
    safety._findings = lambda: iter([""])  # type: ignore[method-assign]
    assert safety.complaint(IMPORTED, "") == ""
    assert safety.complaint(IMPORTED, "it is read: a.py") == "it is read before the target is imported: a.py"
