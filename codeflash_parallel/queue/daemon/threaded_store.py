"""The daemon's access to the store, on threads: a slow disk does not stop the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio

from codeflash_parallel.queue.jobs import Instant, now
from codeflash_parallel.queue.store.store import Store

_T = TypeVar("_T")

#: Threads that wait for the store, which serves one at a time.
_THREADS = 4


class ThreadedStore:
    """Calls the store."""

    def __init__(self, store: Store) -> None:
        self.slots = store.slots
        self._store = store
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def do(self, act: Callable[[Store, Instant], _T]) -> _T:
        """Return what a call of the store returns, and raise what it raises; it is not cancelled half-way."""
        return await anyio.to_thread.run_sync(lambda: act(self._store, now()), limiter=self._threads)
