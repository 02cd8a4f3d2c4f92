"""A provider's command takes the starter's place; `test_command_providers` shows that it dies with us."""

from __future__ import annotations

import os
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
