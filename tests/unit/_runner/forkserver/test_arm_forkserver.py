"""Orders that an arm does not follow."""

from __future__ import annotations

import os

from codeflash_parallel._runner.forkserver import arm_forkserver


def test_a_fork_with_an_incomplete_order_ends() -> None:
    pid = os.fork()
    if pid == 0:
        arm_forkserver._become({}, [0, 1], None, os.getppid())
        os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_fork_whose_gate_closes_ends() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        arm_forkserver._become({}, [0, 0, 0, reading, 0], None, os.getppid())
        os._exit(1)
    os.close(writing)
    os.close(reading)
    assert os.waitpid(pid, 0)[1] == 0
