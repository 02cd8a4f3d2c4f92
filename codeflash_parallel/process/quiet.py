"""Quiet on the host: what is timed runs alone, among all who keep to the same folder.

A readers-writer lock of two files, in which who waits to be alone goes before those who come later (a
turnstile): everybody passes through `turn`, whoever is to be alone stays in it while those inside leave
`room`. The kernel gives `flock`s back when their holder dies, however it dies.

::

    shared:     turn (shared)  → room (shared)    → leave turn  … work …     → leave room
    exclusive:  turn (alone)   → room (alone)     … timed section …          → leave both
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

#: `flock` cannot be waited for and cancelled, so a lock that is taken is tried again: first after so long …
_FIRST_PAUSE_S = 0.002
#: … and then ever later, up to this. Whoever is being timed is disturbed ten times a second by some 20 µs.
_LONGEST_PAUSE_S = 0.1

#: Why one waits.
_TIMED = "something is timed on this machine"
_CHECKED = "checks are still running on this machine"


class Quiet(Protocol):
    """Keeps checks away from timed sections, and timed sections from each other."""

    def shared(self) -> AbstractAsyncContextManager[None]:
        """Do inside the block what others may do at the same time, but nobody while something is timed."""
        ...

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Time something inside the block: nobody else is in a block of either kind."""
        ...

    def waits(self, why: str) -> None:
        """Say that we wait for somebody else, one clause; empty: not any more."""
        ...


class NotKept:
    """No locks: one process has the machine, or nobody cares."""

    def shared(self) -> AbstractAsyncContextManager[None]:
        """Enter at once."""
        return nullcontext()

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Enter at once."""
        return nullcontext()

    def waits(self, why: str) -> None:
        """Tell nobody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Intervals:
    """When the blocks were, as pairs of nanoseconds since this machine started (`CLOCK_BOOTTIME`)."""

    shared: tuple[tuple[int, int], ...] = ()
    exclusive: tuple[tuple[int, int], ...] = ()


class HostQuiet:
    """The locks of a folder, and a book of who was inside when.

    Args:
        folder: of the lock files; whoever shares it shares the quiet.
        on_wait: called with a clause when a block has to wait, and with "" when it is entered.
    """

    def __init__(self, folder: Path, on_wait: Callable[[str], None] = lambda _why: None) -> None:
        self._turn, self._room = folder / "quiet.turn", folder / "quiet.room"
        self._on_wait = on_wait
        self._shared: list[tuple[int, int]] = []
        self._exclusive: list[tuple[int, int]] = []

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Enter with others; waits while something is timed, or is about to be."""
        turn = await self._locked(self._turn, fcntl.LOCK_SH, _TIMED)
        try:
            room = await self._locked(self._room, fcntl.LOCK_SH, _TIMED)
        finally:
            os.close(turn)
        begun_ns = _now_ns()
        try:
            yield
        finally:
            self._shared.append((begun_ns, _now_ns()))
            os.close(room)

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Enter alone; nobody enters after us until we have left."""
        turn = await self._locked(self._turn, fcntl.LOCK_EX, _TIMED)
        try:
            room = await self._locked(self._room, fcntl.LOCK_EX, _CHECKED)
            begun_ns = _now_ns()
            try:
                yield
            finally:
                self._exclusive.append((begun_ns, _now_ns()))
                os.close(room)
        finally:
            os.close(turn)

    def waits(self, why: str) -> None:
        """Pass it on."""
        self._on_wait(why)

    def take_intervals(self) -> Intervals:
        """Return the blocks that were left since the last call."""
        found = Intervals(shared=tuple(self._shared), exclusive=tuple(self._exclusive))
        self._shared, self._exclusive = [], []
        return found

    async def _locked(self, path: Path, kind: int, why: str) -> int:
        """Return a descriptor that has the lock of a file; closing it gives the lock back."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _try(handle, kind):
                self._on_wait(why)
                await _tried_again(handle, kind)
                self._on_wait("")
        except BaseException:
            os.close(handle)
            raise
        return handle


async def _tried_again(handle: int, kind: int) -> None:
    pause_s = _FIRST_PAUSE_S
    while not _try(handle, kind):
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _try(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
