"""The process table, read of processes that this test has started itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from codeflash_parallel.process import process_table
from codeflash_parallel.process.message_frames import MARKER

_PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A process with one child; both are there when it is returned."""
    environment = {**os.environ, MARKER: "test-0000"}
    process = subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate(b"\n")


def test_a_process_and_its_child_descend_from_us(tree: subprocess.Popen[bytes]) -> None:
    (child,) = process_table.children(tree.pid)
    found = {proc.pid: proc.head for proc in process_table.descendants(os.getpid())}
    assert found[tree.pid] == found[child] == tree.pid
    assert tree.pid in process_table.children(os.getpid())
    assert {tree.pid, child} <= set(process_table.pids())
    assert process_table.child_called(tree.pid, process_table.own_number(child)) == child


def test_the_marker_is_inherited(tree: subprocess.Popen[bytes]) -> None:
    (child,) = process_table.children(tree.pid)
    assert process_table.marker(child) == "test-0000"
    assert {tree.pid, child} <= set(process_table.marked("test-"))
    assert process_table.tag(child) == process_table.tag(os.getpid())


def test_memory_and_time_of_a_process(tree: subprocess.Popen[bytes]) -> None:
    entry = process_table.process(tree.pid)
    assert entry is not None
    assert str(entry) == f"{tree.pid} {entry.name}"
    assert process_table.proportional_bytes(tree.pid) > 0
    assert entry.rss_bytes > 0
    assert not entry.gone


def test_a_process_that_has_ended_is_gone_until_it_is_reaped() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    entry = process_table.process(process.pid)
    assert entry is not None
    assert entry.gone
    process.wait()
    assert process_table.process(process.pid) is None
    assert process_table.children(process.pid) == []
    assert process_table.own_number(process.pid) == 0
    assert process_table.marker(process.pid) == ""
