"""The host's benchmark token: one race at a time on one machine, whoever runs it."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import anyio

from codeflash_parallel.process.host_lock.reader_writer_lock import HostLock
from codeflash_parallel.result.errors import EnvironmentFault

#: In the abstract namespace: no file to leave behind, the same for all users of the host, freed by the
#: kernel when its holder dies, however it dies.
TOKEN_NAME = "codeflash-parallel/benchmark-token/1"  # noqa: S105 - not a password
#: Code of the fault when it does not come free.
BUSY = "BENCHMARK_TOKEN_BUSY"
#: How long to wait for another run's race on this host.
_DEADLINE_S = 1800.0
#: Pause where waiting for the holder's end is not possible: it is just coming or going, or its queue is full.
_RETRY_S = 0.05
#: How many waiters can watch the holder at once; more of them try again every `_RETRY_S`.
_WAITERS = 128
#: pid, user, group
_CREDENTIALS = struct.Struct("iII")
#: Of a socket that listens, in /proc/net/unix (SO_ACCEPTCON of linux/net.h).
_ACCEPTS = 1 << 16
_UNKNOWN = "process unknown"


@asynccontextmanager
async def machine_alone(quiet: HostLock) -> AsyncIterator[None]:
    """Be first in line among all races of this host, then away from everybody's checks.

    Raises:
        EnvironmentFault: `BENCHMARK_TOKEN_BUSY`: other races have had the machine for too long; or
            `QUIET_UNUSABLE`.
    """
    async with hold_benchmark_token(_DEADLINE_S, on_wait=quiet.waits), quiet.exclusive():
        yield


@asynccontextmanager
async def hold_benchmark_token(
    deadline_s: float, *, name: str = TOKEN_NAME, on_wait: Callable[[str], None] = lambda _why: None
) -> AsyncIterator[None]:
    """Hold the token inside the block; waiting for it can be cancelled.

    Args:
        deadline_s: how long to wait for it.
        name: another token than the host's, for tests.
        on_wait: called with a clause when it is not free, and with "" when the wait is over.

    Raises:
        EnvironmentFault: `BENCHMARK_TOKEN_BUSY`, it did not come free in time.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with holder:
        if not _bind(holder, _address(name)):
            on_wait("another race has this machine")
            try:
                await _acquire(holder, name, deadline_s)
            finally:
                on_wait("")
        yield


async def _acquire(token: socket.socket, name: str, deadline_s: float) -> None:
    address = _address(name)
    with anyio.move_on_after(deadline_s):
        while not _bind(token, address):
            await _wait_for_release(address)
        return
    who = token_holder(name=name) or _UNKNOWN
    raise EnvironmentFault(
        BUSY,
        f"Another benchmark ({who}) has had this machine for {deadline_s:g} s.",
        "Run again when it has finished.",
    )


def _address(name: str) -> bytes:
    return b"\0" + name.encode()


def token_holder(*, name: str = TOKEN_NAME) -> str:
    """Return who has the token, in words; empty: nobody. Asking often disturbs nobody."""
    inode = _listening(name)
    return _named(name, inode) if inode else ""


def _listening(name: str) -> str:
    """Return the number of the holder's socket; empty if there is none."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()
    fields = (line.split(maxsplit=7) for line in lines if line.endswith(f" @{name}"))
    return next((field[6] for field in fields if int(field[3], 16) & _ACCEPTS), "")


@cache
def _named(name: str, _inode: str) -> str:
    """Return who holds a socket. Asked once for each: a connection stays in the holder's queue."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as watch:
        watch.setblocking(False)
        try:
            watch.connect(_address(name))
        except OSError:
            return _UNKNOWN
        credentials = watch.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"process {_CREDENTIALS.unpack(credentials)[0]}"


def _bind(token: socket.socket, address: bytes) -> bool:
    try:
        token.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    token.listen(_WAITERS)
    return True


async def _wait_for_release(address: bytes) -> None:
    """Wait until the holder's socket is gone: a connection to it ends then."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as watch:
        watch.setblocking(False)
        try:
            watch.connect(address)
        except OSError:  # not listening yet, gone by now, or its queue is full
            await anyio.sleep(_RETRY_S)
        else:
            await anyio.wait_readable(watch)
