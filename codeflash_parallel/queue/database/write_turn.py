"""Who writes next: processes take turns at the queue's file.

SQLite lets waiters sleep for longer and longer, so that one of 32 waited for 1.6 s; a lock that is tried
often is fairer. Only SQLite sees to it that one of them writes: a turn that does not come in time, because
whoever has it is stopped, is taken anyway.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_RETRY_S = 0.001


@contextmanager
def turn(path: Path, longest_s: float) -> Iterator[None]:
    """Hold the turn inside the block; wait for it as long as is said, and go on without it then."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(handle, time.monotonic() + longest_s)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, deadline: float) -> None:
    while time.monotonic() < deadline:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(_RETRY_S)
