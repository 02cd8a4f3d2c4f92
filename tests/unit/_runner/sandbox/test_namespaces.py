"""How init and waiter tell and repeat the end of the runner."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from codeflash_parallel._runner.sandbox import namespaces, syscalls


@pytest.mark.parametrize("code", ["os._exit(7)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_the_waiter_ends_as_the_runner_has_ended(code: str) -> None:
    runner = os.spawnvp(os.P_NOWAIT, "python3", ["python3", "-c", f"import os; {code}"])
    _, status = os.waitpid(runner, 0)
    waiter = os.fork()
    if waiter == 0:
        namespaces._end_like(status)
    assert os.waitpid(waiter, 0)[1] == status


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_descriptors_of_the_waiter_are_few() -> None:
    pid = os.fork()
    if pid == 0:
        reading, writing = os.pipe()
        (kept,) = namespaces._only([reading], max(reading, writing, 50) + 1)
        os._exit([number for number in range(60) if is_open(number)] != [kept])
    assert os.waitpid(pid, 0)[1] == 0


def test_a_process_has_ended_or_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        number = syscalls.pidfd_open(process.pid)
        assert not namespaces._has_ended(number, 0)
        process.send_signal(signal.SIGKILL)
        assert namespaces._has_ended(number, None)
    os.close(number)
