"""Quiet on the host: what is timed runs alone, among all who keep to the same lock files.

A readers-writer lock of two files, in which who waits to be alone goes before those who come later (a
turnstile): everybody passes through `turn`, whoever is to be alone stays in it while those inside leave
`room`. The kernel gives `flock`s back when their holder dies, however it dies.

::

    shared:     turn (shared)  → room (shared)    → leave turn  … work …     → leave room
    exclusive:  turn (alone)   → room (alone)     … timed section …          → leave both

The files of the host lie where every user may lock them, and one may name others. Somebody may remove them
(logind does at the last logout of a user, with what is his): a lock holds only while its file has its name.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from codeflash_parallel.process.environment import QUIET_VARIABLE, SLOT_VARIABLE

#: Where every user of a Linux host may make files, and nobody clears up.
_HOST_FOLDER = Path("/dev/shm")  # noqa: S108 - opened without following links, and never read or written
#: Who is stopped while it holds a lock shall not hold up the whole host: after that one goes on without it.
PATIENCE_S = 1800.0

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
    """No locks: one process has the machine, or nobody cares.

    Args:
        on_wait: as that of `HostQuiet`; for what else is waited for.
    """

    def __init__(self, on_wait: Callable[[str], None] = lambda _why: None) -> None:
        self._on_wait = on_wait

    def shared(self) -> AbstractAsyncContextManager[None]:
        """Enter at once."""
        return nullcontext()

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Enter at once."""
        return nullcontext()

    def waits(self, why: str) -> None:
        """Pass it on."""
        self._on_wait(why)

    def take_intervals(self) -> Intervals:
        """Return no blocks: none was kept."""
        return Intervals()


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
        name: what the names of the files begin with.
        patience_s: how long a lock is waited for; then the block is entered without it.
    """

    def __init__(
        self,
        folder: Path,
        on_wait: Callable[[str], None] = lambda _why: None,
        *,
        name: str = "quiet",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._turn, self._room = folder / f"{name}.turn", folder / f"{name}.room"
        self._on_wait = on_wait
        self._waiting = 0
        self._patience_s = patience_s
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

    def look(self) -> None:
        """Make sure that the files can be opened.

        Raises:
            OSError: they cannot.
        """
        for path in (self._turn, self._room):
            os.close(_opened(path))

    def take_intervals(self) -> Intervals:
        """Return the blocks that were left since the last call."""
        found = Intervals(shared=tuple(self._shared), exclusive=tuple(self._exclusive))
        self._shared, self._exclusive = [], []
        return found

    async def _locked(self, path: Path, kind: int, why: str) -> int:
        """Return a descriptor that has the lock of a file; closing it gives the lock back."""
        handle = _try(path, kind)
        if handle is not None:
            return handle
        with self._telling(why), anyio.move_on_after(self._patience_s):
            return await _tried_again(path, kind)
        return _opened(path)  # whoever has it is stopped, or never lets go

    @contextmanager
    def _telling(self, why: str) -> Iterator[None]:
        """Say why we wait, once for all who wait, and when the last of them has been let in."""
        self._waiting += 1
        if self._waiting == 1:
            self._on_wait(why)
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._on_wait("")


async def _tried_again(path: Path, kind: int) -> int:
    pause_s = _FIRST_PAUSE_S
    while (handle := _try(path, kind)) is None:
        await anyio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    return handle


def _try(path: Path, kind: int) -> int | None:
    """Return a descriptor that has the lock, `None` where somebody else has it."""
    handle = _opened(path)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
        if _has_name(handle, path):
            return handle
    except BlockingIOError:
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _has_name(handle: int, path: Path) -> bool:
    """Say whether a file that is open still has its name: another one may have been made since."""
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _opened(path: Path) -> int:
    """Open a lock file, whoever made it: who may read a file may lock it. It is made if there is none."""
    while True:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            _make(path)


def _make(path: Path) -> None:
    """Make a lock file, readable for all from the moment on at which it has its name."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        os.fchmod(handle, 0o644)
        with suppress(FileExistsError):  # somebody else was faster
            path.hardlink_to(draft)
    finally:
        os.close(handle)
        Path(draft).unlink()


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def host_quiet(
    environment: Mapping[str, str], on_wait: Callable[[str], None] = lambda _why: None
) -> HostQuiet | NotKept:
    """Return the quiet of this host, for all of its users.

    They are those who share a network namespace, as with the benchmark token. Who runs inside of a check
    of ours gets none: the check is in a block already, and would wait for itself. Nor does anybody get one
    where no file can be made that all may lock.

    Args:
        environment: may name another folder (`QUIET_VARIABLE`).
        on_wait: as that of `HostQuiet`.
    """
    if SLOT_VARIABLE in environment:
        return NotKept(on_wait)
    folder = Path(environment.get(QUIET_VARIABLE) or _HOST_FOLDER)
    try:
        name = f"codeflash-parallel-quiet-{Path('/proc/self/ns/net').stat().st_ino}"
        quiet = HostQuiet(folder, on_wait, name=name)
        quiet.look()
    except OSError:
        return NotKept(on_wait)
    return quiet
