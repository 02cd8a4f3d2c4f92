"""Processes of a test: found by a mark in their environment, and heard through a named pipe."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from codeflash_parallel.process.process_table import pids


def alive(mark: str) -> list[int]:
    """Return the processes that have a mark in their environment."""
    return [pid for pid in pids() if mark.encode() in _read(f"/proc/{pid}/environ")]


def running(pid: int) -> bool:
    """Say whether a process exists and has not ended."""
    stat = _read(f"/proc/{pid}/stat").rpartition(b") ")[2]
    return bool(stat) and stat[:1] != b"Z"


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


@pytest.fixture
def mark() -> Iterator[str]:
    """A name for this test's processes; none may be left."""
    name = uuid.uuid4().hex
    yield name
    assert not alive(name)


class Door:
    """A named pipe through which a process says that it is there."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)
        self._end = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def knock(self) -> bytes:
        """Wait for what it says, and return that."""
        with anyio.fail_after(30):
            await anyio.wait_readable(self._end)
        return os.read(self._end, 4096)

    def close(self) -> None:
        """Hear no more."""
        os.close(self._end)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    made = Door(tmp_path / "door")
    yield made
    made.close()
