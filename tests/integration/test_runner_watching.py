"""The first baseline run names the tests that start processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from runner_sessions import PYTHONS, SessionRun, run_session, write_files

TESTS = """
import multiprocessing, os, subprocess, sys
import pytest


def test_plain():
    pass

def test_popen():
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

def test_system():
    assert os.system("true") == 0

def test_posix_spawn():
    os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {}), 0)

def test_multiprocessing():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()

def test_plain_again():
    pass

def test_exec():
    pid = os.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", ":"])
    os.waitpid(pid, 0)

@pytest.fixture(scope="module")
def server():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.communicate(b"\\n")

def test_first_of_the_server(server):
    pass

def test_second_of_the_server(server):
    pass

@pytest.mark.parametrize("number", [1])
def test_last_of_the_server(server, number):
    pass
"""
FILES = {
    "test_processes.py": TESTS,
    "conftest.py": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])\n",
}
TOOLS = """
import ctypes.util, os, platform, subprocess
ctypes.util.find_library("pthread")
platform.processor()
subprocess.run(["uname", "-a"], check=True)
"""
SPAWNING = [
    *("", "test_popen", "test_fork", "test_system", "test_posix_spawn", "test_multiprocessing", "test_exec"),
    *("test_first_of_the_server", "test_second_of_the_server", "test_last_of_the_server[1]"),
]


def watched(tmp_path: Path, python: str, **fields: bool) -> SessionRun:
    root = write_files(tmp_path / "slot", FILES)
    run = run_session(tmp_path, root, python=python, **fields)
    assert set(run.outcomes.values()) == {"passed"}
    return run


@pytest.mark.parametrize("python", PYTHONS)
def test_watch(tmp_path: Path, python: str) -> None:
    run = watched(tmp_path, python, watch=True)
    assert [record["id"].partition("::")[2] for record in run.named("spawned")] == SPAWNING


def test_no_watch(tmp_path: Path) -> None:
    run = watched(tmp_path, PYTHONS[0])
    assert run.named("spawned") == []


@pytest.mark.parametrize("python", PYTHONS)
def test_questions_about_the_machine_are_no_processes(tmp_path: Path, python: str) -> None:
    root = write_files(tmp_path / "slot", {"conftest.py": TOOLS, "test_nothing.py": "def test_it(): pass\n"})
    run = run_session(tmp_path, root, python=python, watch=True)
    assert run.outcomes == {"test_it": "passed"}
    assert run.named("spawned") == []
