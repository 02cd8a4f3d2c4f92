"""A provider's command takes the starter's place, and dies with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import codeflash_parallel.repair

STARTER = Path(codeflash_parallel.repair.__file__).with_name("command_starter.py")


def started(*command: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(STARTER), str(os.getpid() if parent is None else parent), *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_takes_the_starters_place() -> None:
    ended = started(sys.executable, "-c", "print('ready'); raise SystemExit(7)")
    assert (ended.returncode, ended.stdout) == (7, "ready\n")


def test_a_command_that_is_not_there_is_named() -> None:
    ended = started("/nowhere/command")
    assert ended.returncode == 1
    assert ended.stderr == "/nowhere/command: No such file or directory\n"


def test_nothing_is_run_for_a_parent_that_died_meanwhile() -> None:
    ended = started(sys.executable, "-c", "print('ready')", parent=1)
    assert (ended.returncode, ended.stdout) == (127, "")


def test_the_command_dies_with_its_parent() -> None:
    parent_program = """
import os, subprocess, sys, time
command = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"]
subprocess.Popen([sys.executable, "-I", sys.argv[1], str(os.getpid()), *command])
time.sleep(600)
"""
    argv = [sys.executable, "-c", parent_program, str(STARTER)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait(60)
        # The pipe ends when its last writer, the command, is dead.
        assert parent.stdout.read() == ""
