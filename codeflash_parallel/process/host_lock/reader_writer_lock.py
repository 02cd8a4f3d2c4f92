"""Quiet on the host: what is timed runs alone, among all who keep to the same lock files.

A readers-writer lock of two files, in which who waits to be alone goes before those who come later (a
turnstile): everybody passes through `turn`, whoever is to be alone stays in it while those inside leave
`room`. The kernel gives `flock`s back when their holder dies, however it dies.

::

    shared:     turn (shared)  → room (shared)    → leave turn  … work …     → leave room
    exclusive:  turn (alone)   → room (alone)     … timed section …          → leave both

The files of the host lie where every user may lock them, and one may name others (`quiet_locks`).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import anyio

from codeflash_parallel.config.environment_allowlist import QUIET_VARIABLE
from codeflash_parallel.process.environment import SLOT_VARIABLE
from codeflash_parallel.process.host_lock.file_lock import QUIET_HINT, open_lock, try_lock, wait_for_lock
from codeflash_parallel.result.errors import UsageError

#: Where every user of a Linux host may make files, and nobody clears up.
_HOST_FOLDER = Path("/dev/shm")  # noqa: S108 - opened without following links, and never read or written
#: Who is stopped while it holds a lock shall not hold up the whole host: after that one goes on without it.
PATIENCE_S = 1800.0

#: Why one waits.
_TIMED = "something is timed on this machine"
_CHECKED = "checks are still running on this machine"
#: Why one does not wait any longer.
_STOPPED = "whoever has this machine to itself does not let go; we go on beside it"

#: Of the names of the two files.
_SUFFIXES = (".turn", ".room")


class HostLock(Protocol):
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


class NoHostLock:
    """No locks: one process has the machine, or nobody cares.

    Args:
        on_wait: as that of `ReaderWriterLock`; for what else is waited for.
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

    def take_intervals(self) -> TimedIntervals:
        """Return no blocks: none was kept."""
        return TimedIntervals()


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedIntervals:
    """When the blocks were, as pairs of nanoseconds since this machine started (`CLOCK_BOOTTIME`)."""

    shared: tuple[tuple[int, int], ...] = ()
    exclusive: tuple[tuple[int, int], ...] = ()


class ReaderWriterLock:
    """The locks of a folder, and a book of who was inside when.

    Args:
        folder: of the lock files; whoever shares it shares the quiet.
        on_wait: called with a clause when a block has to wait, and with "" when it is entered.
        name: what the names of the files begin with.
        patience_s: how long a block waits for both locks together; then it is entered without them, and so
            are the next ones, which do not wait, until the locks are free again.
    """

    def __init__(
        self,
        folder: Path,
        on_wait: Callable[[str], None] = lambda _why: None,
        *,
        name: str = "quiet",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._turn, self._room = (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
        self._on_wait = on_wait
        self._waiting = 0
        self._patience_s = patience_s
        #: The kind of lock that was waited for in vain, 0 for none; the greater one excludes more.
        self._given_up = 0
        self._shared: list[tuple[int, int]] = []
        self._exclusive: list[tuple[int, int]] = []

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Enter with others; waits while something is timed, or is about to be.

        Raises:
            EnvironmentFault: `QUIET_UNUSABLE`.
        """
        with ExitStack() as turn, ExitStack() as room:
            await self._enter(fcntl.LOCK_SH, turn, room, _TIMED)
            turn.close()
            with _noted(self._shared):
                yield

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Enter alone; nobody enters after us until we have left.

        Raises:
            EnvironmentFault: `QUIET_UNUSABLE`.
        """
        with ExitStack() as both:
            await self._enter(fcntl.LOCK_EX, both, both, _CHECKED)
            with _noted(self._exclusive):
                yield

    def waits(self, why: str) -> None:
        """Pass it on."""
        self._on_wait(why)

    def take_intervals(self) -> TimedIntervals:
        """Return the blocks that were left since the last call."""
        found = TimedIntervals(shared=tuple(self._shared), exclusive=tuple(self._exclusive))
        self._shared, self._exclusive = [], []
        return found

    async def _enter(self, kind: int, turn: ExitStack, room: ExitStack, why: str) -> None:
        """Have both locks until their stacks are closed, as far as they can be had in time."""
        until = anyio.current_time() + self._patience_s
        is_ours = await self._lock(self._turn, kind, _TIMED, until, turn)
        is_ours = await self._lock(self._room, kind, why, until, room) and is_ours
        if is_ours and kind >= self._given_up:  # a shared one is to be had beside a check that is stopped
            self._given_up = 0

    async def _lock(self, path: Path, kind: int, why: str, until: float, stack: ExitStack) -> bool:
        """Say whether the lock of a file is ours until the stack is closed."""
        handle = try_lock(path, kind)
        if handle is None and not self._given_up:
            handle = await self._waited(path, kind, why, until)
        if handle is not None:
            stack.callback(os.close, handle)
        return handle is not None

    async def _waited(self, path: Path, kind: int, why: str, until: float) -> int | None:
        with self._telling(why):
            with anyio.CancelScope(deadline=until):
                return await wait_for_lock(path, kind)
            self._given_up = max(self._given_up, kind)
            self._on_wait(_STOPPED)
        return None

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


@contextmanager
def _noted(book: list[tuple[int, int]]) -> Iterator[None]:
    begun_ns = _now_ns()
    try:
        yield
    finally:
        book.append((begun_ns, _now_ns()))


def _now_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def host_quiet(
    environment: Mapping[str, str], on_wait: Callable[[str], None] = lambda _why: None
) -> ReaderWriterLock | NoHostLock:
    """Return the quiet of this host, for all of its users.

    They are those who share a network namespace, as with the benchmark token. Who runs inside of a check
    of ours gets none: the check is in a block already, and would wait for itself. Nor does anybody get one
    on a host without a folder for all (`why_not_quiet` says so).

    Args:
        environment: may name another folder (`QUIET_VARIABLE`).
        on_wait: as that of `ReaderWriterLock`.

    Raises:
        UsageError: `QUIET_UNUSABLE`: no locks can be made in the folder that the environment names.
    """
    if SLOT_VARIABLE in environment:
        return NoHostLock(on_wait)
    named = environment.get(QUIET_VARIABLE, "")
    why = why_not_quiet(environment)
    if why and named:
        raise UsageError("QUIET_UNUSABLE", f"{QUIET_VARIABLE}: {why}.", QUIET_HINT)
    return (
        NoHostLock(on_wait)
        if why
        else ReaderWriterLock(quiet_folder(environment), on_wait, name=_host_name())
    )


def quiet_folder(environment: Mapping[str, str]) -> Path:
    """Return where the locks of this host lie."""
    return Path(environment.get(QUIET_VARIABLE) or _HOST_FOLDER)


def why_not_quiet(environment: Mapping[str, str]) -> str:
    """Return why no locks can be made there, a clause; empty: they can."""
    folder = quiet_folder(environment)
    if not folder.is_absolute():  # two who name it may be in different folders
        return f"{folder} is not an absolute path"
    try:
        for suffix in _SUFFIXES:
            os.close(open_lock(folder / f"{_host_name()}{suffix}"))
    except OSError as error:
        return f"no locks can be made in {folder}: {error.strerror}"
    return ""


def _host_name() -> str:
    return f"codeflash-parallel-quiet-{Path('/proc/self/ns/net').stat().st_ino}"
