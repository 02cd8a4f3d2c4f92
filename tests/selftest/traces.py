"""What an attack on the host has left behind: looked for, and removed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from selftest.entries import Trace
from selftest.projects import Marks

_SHARED = Path("/dev/shm")


#: Characters that are a flood.
_FLOOD = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is looked at.

    Attributes:
        shown: all that is reported or kept.
        killed: whoever started it, or another beside it, is dead.
        shared: folders in which others keep their files.
    """

    shown: str
    killed: bool
    shared: tuple[Path, ...] = ()


def reached(trace: Trace, mark: Marks, seen: Seen) -> bool:
    """Say whether an attack has got what it wanted.

    Args:
        trace: how that would be seen.
        mark: of this attack.
        seen: what is looked at.
    """
    looks: dict[Trace, Callable[[], bool]] = {
        Trace.NONE: lambda: False,
        Trace.FILE: lambda: any(mark.outside.iterdir()) or any(_SHARED.glob(f"{mark.token}*")),
        Trace.PROCESS: lambda: any(_processes(mark.token)),
        Trace.SECRET: lambda: mark.token in seen.shown,
        Trace.OUTPUT: lambda: len(seen.shown) > _FLOOD,
        Trace.GIT: lambda: any(any(folder.rglob(mark.token)) for folder in seen.shared),
        Trace.CONNECTION: lambda: _connected(mark),
        Trace.KILLED: lambda: seen.killed,
        Trace.ESCAPES: lambda: "\x1b" in seen.shown,
    }
    return looks[trace]()


def remove(mark: Marks) -> None:
    """End processes and remove files that carry the token."""
    for pid in _processes(mark.token):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for path in _SHARED.glob(f"{mark.token}*"):
        path.unlink(missing_ok=True)


def _processes(token: str) -> Iterator[int]:
    """Yield processes whose command line holds a word; our own has not got it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if token.encode() in (entry / "cmdline").read_bytes():
                    yield int(entry.name)


def _connected(mark: Marks) -> bool:
    if mark.listener is None:
        return False
    try:
        mark.listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
