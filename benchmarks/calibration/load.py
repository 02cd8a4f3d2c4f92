"""A bounded background load: processes that work in bursts and end by themselves."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Bursts and pauses of a worker, in seconds, drawn evenly: it works about three quarters of the time.
BURST_S = (0.05, 1.5)
PAUSE_S = (0.0, 0.5)

#: Seconds after which a worker ends whatever happens; nothing here is recorded for so long at a stretch.
LONGEST_S = 4 * 3600.0


@contextmanager
def background_load(workers: int) -> Iterator[None]:
    """Keep some processes busy inside the block; they also end when this process does."""
    command = [sys.executable, __file__, str(os.getpid())]
    processes = [subprocess.Popen([*command, str(number)]) for number in range(workers)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def work(parent: int, seed: int) -> None:
    """Compute, allocate and copy memory in turn, as neighbours do, while the parent lives."""
    own = random.Random(seed)
    end = time.monotonic() + LONGEST_S
    while os.getppid() == parent and time.monotonic() < end:
        kind = own.choice((compute, allocate, copy))
        burst = time.monotonic() + own.uniform(*BURST_S)
        while time.monotonic() < burst:
            kind()
        time.sleep(own.uniform(*PAUSE_S))


def compute() -> None:
    sum(i & 3 for i in range(20_000))


def allocate() -> None:
    [{"number": i, "text": str(i)} for i in range(5_000)]


def copy() -> None:
    bytes(bytearray(4_000_000))


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]))
