"""The host's benchmark token: one race at a time on one machine, whoever runs it."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from codeflash_parallel.model.errors import EnvironmentFault

#: In the abstract namespace: no file to leave behind, the same for all users of the host, freed by the
#: kernel when its holder dies, however it dies.
TOKEN_NAME = "codeflash-parallel/benchmark-token/1"  # noqa: S105 - not a password
#: Pause where waiting for the holder's end is not possible: it is just coming or going, or its queue is full.
_RETRY_S = 0.05
#: How many waiters can watch the holder at once; more of them try again every `_RETRY_S`.
_WAITERS = 128
#: pid, user, group
_CREDENTIALS = struct.Struct("iII")


@asynccontextmanager
async def hold_benchmark_token(deadline_s: float, *, name: str = TOKEN_NAME) -> AsyncIterator[None]:
    """Hold the token inside the block; waiting for it can be cancelled.

    Args:
        deadline_s: how long to wait for it.
        name: another token than the host's, for tests.

    Raises:
        EnvironmentFault: `BENCHMARK_TOKEN_BUSY`, it did not come free in time.
    """
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with holder:
        await _acquire(holder, b"\0" + name.encode(), deadline_s)
        yield


async def _acquire(token: socket.socket, address: bytes, deadline_s: float) -> None:
    with anyio.move_on_after(deadline_s):
        while not _bind(token, address):
            await _wait_for_release(address)
        return
    raise EnvironmentFault(
        "BENCHMARK_TOKEN_BUSY",
        f"Another benchmark ({_holder(address)}) has had this machine for {deadline_s:g} s.",
        "Run again when it has finished.",
    )


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


def _holder(address: bytes) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as watch:
        watch.setblocking(False)
        try:
            watch.connect(address)
        except OSError:
            return "process unknown"
        credentials = watch.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"process {_CREDENTIALS.unpack(credentials)[0]}"
