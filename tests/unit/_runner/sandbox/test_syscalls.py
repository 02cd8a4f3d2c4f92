"""System calls without a function in Python: refusals name the call."""

from __future__ import annotations

import errno
import os
import select
import subprocess

import pytest

from codeflash_parallel._runner.sandbox import syscalls


def test_a_refusal_names_the_call() -> None:
    with pytest.raises(
        syscalls.SyscallRefusal, match=r"open_tree /no/such/place: (No such file|Operation not)"
    ) as caught:
        syscalls.copy_mounts("/no/such/place")
    assert caught.value.errno in {errno.ENOENT, errno.EPERM}


def test_a_process_s_descriptor_is_ready_when_it_has_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        number = syscalls.pidfd_open(process.pid)
        assert select.select([number], [], [], 0)[0] == []
        process.kill()
        assert select.select([number], [], [], 60)[0] == [number]
    os.close(number)
