"""Who waits for what: events for those who wait for a job, streams for those who watch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from codeflash_parallel.queue.jobs import JobId

#: Changes that a slow watcher may lag behind; what comes then is left out: it asks for the state itself.
_BACKLOG = 1000


class Notifications:
    """Tells that something about a job has changed."""

    def __init__(self) -> None:
        self._changes: dict[JobId, anyio.Event] = defaultdict(anyio.Event)
        self._waiters: dict[JobId, int] = defaultdict(int)
        self._watchers: set[MemoryObjectSendStream[JobId]] = set()

    @contextmanager
    def waiting_for(self, job_id: JobId) -> Iterator[None]:
        """Be interested in a job inside the block."""
        self._waiters[job_id] += 1
        try:
            yield
        finally:
            self._waiters[job_id] -= 1
            if not self._waiters[job_id]:
                del self._waiters[job_id]
                self._changes.pop(job_id, None)

    def next_change(self, job_id: JobId) -> anyio.Event:
        """Return what is set at the next change of a job; ask for it before looking at the job."""
        return self._changes[job_id]

    @contextmanager
    def watching(self) -> Iterator[MemoryObjectReceiveStream[JobId]]:
        """Give the ids of jobs that change."""
        send, receive = anyio.create_memory_object_stream[JobId](_BACKLOG)
        self._watchers.add(send)
        try:
            with send, receive:
                yield receive
        finally:
            self._watchers.discard(send)

    def tell(self, job_id: JobId) -> None:
        """Say that a job has changed."""
        event = self._changes.pop(job_id, None)
        if event is not None:
            event.set()
        for watcher in tuple(self._watchers):
            try:
                watcher.send_nowait(job_id)
            except anyio.WouldBlock:
                continue

    def tell_all(self) -> None:
        """Say that any job may have changed: those that somebody waits for are looked at."""
        for job_id in tuple(self._waiters):
            self.tell(job_id)
