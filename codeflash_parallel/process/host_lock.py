"""The host lock: what is timed runs alone, among all processes that use the same lock files.

A readers-writer lock of two files, in which a race that waits goes before checks that come later (a
turnstile): everything passes through `turn`, and a race stays in it while the checks inside leave `room`.

::

    shared:     turn (shared)  → room (shared)    → leave turn  … work …     → leave room
    exclusive:  turn (alone)   → room (alone)     … timed section …          → leave both

The files of the host lie where every user may lock them, and one may name others (`QUIET_VARIABLE`). `turn`,
held alone, is the benchmark token: the kernel's table of locks says which process has it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from codeflash_parallel.config.environment import QUIET_VARIABLE, SLOT_VARIABLE
from codeflash_parallel.process.files import FileLock, open_lock, wait_for_lock
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Where every user of a Linux host may make files, and nobody clears up.
_HOST_FOLDER = Path("/dev/shm")  # noqa: S108 - opened without following links, and never read or written
#: A process that is stopped while it holds a lock shall not hold up the whole host for longer.
PATIENCE_S = 1800.0
#: A lock that is taken is tried again: first after so long, for waiting for a `flock` cannot be cancelled …
_FIRST_PAUSE_S = 0.002
#: … and then ever later, up to this. What is being timed is disturbed ten times a second by some 20 µs.
_LONGEST_PAUSE_S = 0.1

#: Code of the fault of a race that does not get its turn.
BUSY = "BENCHMARK_TOKEN_BUSY"
#: What to do where locks cannot be had.
QUIET_HINT = f"Name a folder that is there and that you may write, or unset {QUIET_VARIABLE}."

#: Why a block waits.
_RACED = "another race has this machine"
_TIMED = "something is timed on this machine"
_CHECKED = "checks are still running on this machine"
#: Why it does not wait any longer.
_STOPPED = "whoever has this machine to itself does not let go; we go on beside it"

#: Of the names of the two files.
_SUFFIXES = (".turn", ".room")


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedIntervals:
    """When the blocks were, as pairs of nanoseconds since this machine started (`CLOCK_BOOTTIME`)."""

    shared: tuple[tuple[int, int], ...] = ()
    exclusive: tuple[tuple[int, int], ...] = ()


class HostLock:
    """The locks of a folder, and a book of who was inside when.

    Args:
        folder: of the lock files; whoever shares it shares the quiet. `None`: every block is entered at once,
            and none is noted.
        on_wait: called with a clause when a block has to wait, and with "" when it is entered.
        name: what the names of the files begin with.
        patience_s: how long a block waits for each of the locks. A check whose wait is in vain goes on
            without the lock, as does a race that has waited for checks; the next blocks do not wait, until
            the locks are free again. A race that has waited for another one fails.
    """

    def __init__(
        self,
        folder: Path | None,
        on_wait: Callable[[str], None] = lambda _why: None,
        *,
        name: str = "quiet",
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._files = _files(folder, name) if folder else None
        self._patience_s = patience_s
        self._on_wait = on_wait
        self._waiting = 0
        #: The kind of lock that was waited for in vain, 0 for none; the greater one excludes more.
        self._given_up = 0
        self._shared: list[tuple[int, int]] = []
        self._exclusive: list[tuple[int, int]] = []

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Enter with other checks; wait while something is timed, or is about to be.

        Raises:
            EnvironmentFault: `QUIET_UNUSABLE`.
        """
        if self._files is None:
            yield
            return
        turn_file, room_file = self._files
        with ExitStack() as turn, ExitStack() as room:
            has_turn = await self._enter(turn, turn_file, fcntl.LOCK_SH, _TIMED)
            has_room = await self._enter(room, room_file, fcntl.LOCK_SH, _TIMED)
            self._note_entry(fcntl.LOCK_SH, is_ours=has_turn and has_room)
            turn.close()
            with _noted(self._shared):
                yield

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Enter alone, to time something; no other block is entered until this one is left.

        Raises:
            EnvironmentFault: `BENCHMARK_TOKEN_BUSY`, other races have had the machine for too long; or
                `QUIET_UNUSABLE`.
        """
        if self._files is None:
            yield
            return
        turn_file, room_file = self._files
        with ExitStack() as both:
            await self._enter_turn(both, turn_file)
            has_room = await self._enter(both, room_file, fcntl.LOCK_EX, _CHECKED)
            self._note_entry(fcntl.LOCK_EX, is_ours=has_room)
            with _noted(self._exclusive):
                yield

    def take_intervals(self) -> TimedIntervals:
        """Return the blocks that were left since the last call."""
        found = TimedIntervals(shared=tuple(self._shared), exclusive=tuple(self._exclusive))
        self._shared, self._exclusive = [], []
        return found

    async def _enter_turn(self, stack: ExitStack, path: Path) -> None:
        """Be the only race until the stack is closed."""
        lock = _try(path, fcntl.LOCK_EX)
        if lock is None:
            with self._telling(_RACED):
                lock = await self._poll(path, fcntl.LOCK_EX)
        if lock is None:
            holder = _writer(path) or "process unknown"
            message = f"Another benchmark ({holder}) has had this machine for {self._patience_s:g} s."
            raise EnvironmentFault(BUSY, message, "Run again when it has finished.")
        stack.enter_context(lock)

    async def _enter(self, stack: ExitStack, path: Path, kind: int, why: str) -> bool:
        """Say whether the lock of a file is ours until the stack is closed; it may not be had in time."""
        lock = _try(path, kind)
        if lock is None and not self._given_up:
            with self._telling(why):
                lock = await self._poll(path, kind)
                if lock is None:
                    self._given_up = max(self._given_up, kind)
                    self._on_wait(_STOPPED)
        if lock is not None:
            stack.enter_context(lock)
        return lock is not None

    def _note_entry(self, kind: int, *, is_ours: bool) -> None:
        if is_ours and kind >= self._given_up:  # a shared one is to be had beside a check that is stopped
            self._given_up = 0

    async def _poll(self, path: Path, kind: int) -> FileLock | None:
        """Return the lock of a file, `None` where it does not come free in time."""
        pause_s = _FIRST_PAUSE_S
        with anyio.move_on_after(self._patience_s):
            while (lock := _try(path, kind)) is None:
                await anyio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            return lock
        return None

    @contextmanager
    def _telling(self, why: str) -> Iterator[None]:
        """Say why blocks wait, once for all that wait, and when the last of them has been let in."""
        self._waiting += 1
        if self._waiting == 1:
            self._on_wait(why)
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._on_wait("")


def _try(path: Path, kind: int) -> FileLock | None:
    try:
        return wait_for_lock(path, 0.0, kind)
    except OSError as error:
        what = "the lock that keeps checks away from what is timed"
        raise EnvironmentFault(
            "QUIET_UNUSABLE", f"{path}, {what}, cannot be used: {error.strerror}.", QUIET_HINT
        ) from error


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
) -> HostLock:
    """Return the lock of this host, for all of its users.

    They are those who share a network namespace. A process inside of a check of ours gets one that locks
    nothing: the check is in a block already, and would wait for itself. So does every process on a host
    without a folder for all (`why_not_quiet` says so).

    Args:
        environment: may name another folder (`QUIET_VARIABLE`).
        on_wait: as that of `HostLock`.

    Raises:
        UsageError: `QUIET_UNUSABLE`: no locks can be made in the folder that the environment names.
    """
    if SLOT_VARIABLE in environment:
        return HostLock(None, on_wait)
    why = why_not_quiet(environment)
    if why and environment.get(QUIET_VARIABLE):
        raise UsageError("QUIET_UNUSABLE", f"{QUIET_VARIABLE}: {why}.", QUIET_HINT)
    folder = None if why else quiet_folder(environment)
    return HostLock(folder, on_wait, name=_host_name(), patience_s=PATIENCE_S)


def quiet_folder(environment: Mapping[str, str]) -> Path:
    """Return where the locks of this host lie."""
    return Path(environment.get(QUIET_VARIABLE) or _HOST_FOLDER)


def why_not_quiet(environment: Mapping[str, str]) -> str:
    """Return why no locks can be made there, a clause; empty: they can."""
    folder = quiet_folder(environment)
    if not folder.is_absolute():  # two who name it may be in different folders
        return f"{folder} is not an absolute path"
    try:
        for path in _files(folder, _host_name()):
            os.close(open_lock(path))
    except OSError as error:
        return f"no locks can be made in {folder}: {error.strerror}"
    return ""


def token_holder(environment: Mapping[str, str]) -> str:
    """Return the process that has this host to itself, or waits for checks to end, in words; empty: none."""
    return _writer(_files(quiet_folder(environment), _host_name())[0])


def _writer(path: Path) -> str:
    """Return the process that holds the lock of a file alone, in words; empty where the kernel names none."""
    try:
        status = path.stat()
        locks = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    fields = (line.split() for line in locks.splitlines())
    pids = (field[4] for field in fields if field[1] == "FLOCK" and (field[3], field[5]) == ("WRITE", file))
    return next((f"process {pid}" for pid in pids), "")


def _files(folder: Path, name: str) -> tuple[Path, ...]:
    return tuple(folder / f"{name}{suffix}" for suffix in _SUFFIXES)


def _host_name() -> str:
    return f"codeflash-parallel-quiet-{Path('/proc/self/ns/net').stat().st_ino}"
