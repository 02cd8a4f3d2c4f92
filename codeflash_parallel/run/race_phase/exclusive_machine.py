"""Have the machine to ourselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from codeflash_parallel.process.host_lock.benchmark_token import hold_benchmark_token
from codeflash_parallel.process.host_lock.reader_writer_lock import HostLock

#: How long to wait for another run's race on this host.
_TOKEN_DEADLINE_S = 1800.0


@asynccontextmanager
async def machine_alone(quiet: HostLock) -> AsyncIterator[None]:
    """Be first in line among all races of this host, then away from everybody's checks.

    Raises:
        EnvironmentFault: `BENCHMARK_TOKEN_BUSY`: other races have had the machine for too long; or
            `QUIET_UNUSABLE`.
    """
    token = hold_benchmark_token(_TOKEN_DEADLINE_S, on_wait=quiet.waits)
    async with token, quiet.exclusive():
        yield
