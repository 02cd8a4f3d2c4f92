"""Readings of the kernel about a process: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from codeflash_parallel.process.process_table import child_called, children, own_number
from codeflash_parallel.race.worker.process_accounting import (
    ProcessAccounting,
    ProcessCounters,
    ProcessEnded,
    ResidentMemory,
    cpu_with_children_ns,
    own_queued_ns,
)

CHILD = """
import os, sys
def say(): sys.stdout.write("."); sys.stdout.flush(); sys.stdin.read(1)
say()
held = bytearray(40_000_000)
for _ in range(50): os.read(os.open("/dev/zero", os.O_RDONLY), 1)
pid = os.fork()
if pid == 0:
    end = os.times().user + 0.05
    while os.times().user < end: pass
    os._exit(0)
say()
os.waitpid(pid, 0)
say()
"""


@contextmanager
def child():
    """Run the script above; each call of the result lets it go on to its next stop."""
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=-1, stdout=-1, bufsize=0) as process:

        def goes_on():
            process.stdin.write(b".")
            process.stdout.read(1)

        process.stdout.read(1)
        try:
            yield process.pid, goes_on
        finally:
            process.kill()


def test_a_witness_sees_what_a_process_does():
    with child() as (pid, goes_on):
        witness = ProcessAccounting(pid)
        before, memory, cpu_ns = witness.counts(), witness.memory(), witness.cpu_ns()
        assert witness.children() == 0
        goes_on()
        assert witness.memory().peak >= memory.now + 40_000_000
        assert witness.counts().reads >= before.reads + 50
        assert witness.cpu_ns() > cpu_ns
        assert witness.children() == 1
        own_ns = witness.cpu_ns()
        goes_on()
        assert witness.children() == 0
        assert cpu_with_children_ns(pid) >= 40_000_000 > witness.cpu_ns() - own_ns
        assert pid in children(os.getpid())
        assert child_called(os.getpid(), pid) == pid
        assert child_called(os.getpid(), os.getpid()) == 0


def test_of_a_process_that_is_gone_nothing_is_known():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    witness = ProcessAccounting(process.pid)

    assert (witness.counts(), witness.memory(), witness.children()) == (
        ProcessCounters(),
        ResidentMemory(),
        0,
    )
    assert (own_number(process.pid), cpu_with_children_ns(process.pid)) == (0, 0)
    assert children(process.pid) == []
    with pytest.raises(ProcessEnded):
        witness.cpu_ns()


def test_time_in_line_is_counted():
    """Two busy processes on one core push each other off it."""
    core = min(os.sched_getaffinity(0))
    pin = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    pair = [subprocess.Popen([sys.executable, "-c", pin], stdout=-1) for _ in range(2)]
    try:
        for process in pair:
            process.stdout.readline()
        witness, deadline = ProcessAccounting(pair[0].pid), time.monotonic() + 60
        while not witness.counts().queued_ns:
            assert time.monotonic() < deadline
    finally:
        for process in pair:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()


def test_this_machine_tells_time_in_line():
    assert own_queued_ns() >= 0
