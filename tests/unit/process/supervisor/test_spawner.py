"""Children that are spawned as the launcher does it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from codeflash_parallel.process.supervisor.spawner import SpawnPlan, is_living_child, spawn

_SHOW = (
    "import os, resource, signal\n"
    "print(os.getcwd(), os.environ['A'], os.getsid(0) == os.getpid(),"
    " resource.getrlimit(resource.RLIMIT_CORE)[0], signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN,"
    " sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:3], flush=True)\n"
)


def plan(argv: tuple[str, ...], cwd: Path, output: int) -> SpawnPlan:
    null = os.open("/dev/null", os.O_RDWR)
    return SpawnPlan(
        argv=argv, cwd=str(cwd), environment={"A": "a"}, descriptors={0: null, 1: output, 2: output}, tag=0
    )


def run(argv: tuple[str, ...], cwd: Path) -> tuple[int, str, str]:
    """Return the exit status of a child, what it wrote, and why it could not be started."""
    ours, theirs = os.pipe()
    prepared = plan(argv, cwd, theirs)
    pid, errors = spawn(prepared)
    os.close(theirs)
    os.close(prepared.descriptors[0])
    with os.fdopen(ours) as output:
        said = output.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        reason = os.read(errors, 4096).decode()
    finally:
        os.close(errors)
    assert not is_living_child(pid)
    return status, said, reason


def test_a_child_has_what_its_plan_says_and_nothing_else(tmp_path: Path) -> None:
    status, said, reason = run((sys.executable, "-c", _SHOW), tmp_path)
    assert (status, reason) == (0, "")
    # Its own interpreter ignores SIGPIPE; the fourth descriptor is that of the listing itself.
    assert said == f"{tmp_path} a True 0 True [0, 1, 2]\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "step"),
    [(("/nowhere/python",), ".", "/nowhere/python: "), (("/bin/true",), "missing", "working directory ")],
)
def test_what_cannot_be_started_says_at_which_step(
    tmp_path: Path, argv: tuple[str, ...], cwd: str, step: str
) -> None:
    status, said, reason = run(argv, tmp_path / cwd)
    assert (status, said) == (127, "")
    assert reason.startswith(step)
    assert "No such file" in reason
