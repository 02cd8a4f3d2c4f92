"""Who writes next: processes that wait for the queue's file get it in the order in which they came.

SQLite lets waiters sleep and try again, so that one of 32 waited for 1.6 s. Here each of them listens on
a socket of its own, writes its name down, and waits until the socket of the one before it is closed: by
itself at the end of its turn, by the kernel at its death. The order is all that this gives. That only one
of them writes is SQLite's to see to, so a turn that does not come in time (the one before is stopped) is
taken anyway.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Of the abstract name that the kernel gives a socket.
_LONGEST_NAME = 107
#: Writing a name down takes microseconds; who is stopped in them shall not stop others.
_PATIENCE_S = 0.1
_RETRY_S = 0.0002


@contextmanager
def turn(tail: Path, longest_s: float) -> Iterator[None]:
    """Hold the turn inside the block; wait for it as long as is said, and go on without it then.

    Args:
        tail: file that holds the name of the last one in the line.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mine:
        mine.bind(b"")
        mine.listen(1)
        _wait_for_end(_join(tail, mine.getsockname()), longest_s)
        yield


def _join(tail: Path, name: bytes) -> bytes:
    """Write a name down and return the one that stood there; empty where it takes too long."""
    handle = os.open(tail, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _lock(handle):
            return b""
        before = os.pread(handle, _LONGEST_NAME, 0)
        os.pwrite(handle, name.ljust(_LONGEST_NAME, b"\n"), 0)
        return before.rstrip(b"\n")
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_RETRY_S)


def _wait_for_end(name: bytes, longest_s: float) -> None:
    """Wait until the socket of a name is closed; a name that nobody has is one that is closed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as watch:
        watch.setblocking(False)
        try:
            watch.connect(name)
        except OSError:
            return
        waiter = select.poll()
        waiter.register(watch, select.POLLIN)
        waiter.poll(longest_s * 1000)
