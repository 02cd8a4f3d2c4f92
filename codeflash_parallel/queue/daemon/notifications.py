"""Notifications that a job has changed, for clients that wait for a job or watch jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from codeflash_parallel.queue.jobs import JobId

#: Changes that a slow watcher may lag behind. Later ones are dropped; it asks for the state itself.
_BACKLOG = 1000


class Notifications:
    """Distributes the ids of jobs that have changed."""

    def __init__(self) -> None:
        self._watchers: dict[MemoryObjectSendStream[JobId], JobId] = {}

    @contextmanager
    def watching(self, job_id: JobId) -> Iterator[MemoryObjectReceiveStream[JobId]]:
        """Give a stream of the changes of one job, or (empty id) of all; open it before the job is read."""
        send, receive = anyio.create_memory_object_stream[JobId](_BACKLOG)
        self._watchers[send] = job_id
        try:
            with send, receive:
                yield receive
        finally:
            del self._watchers[send]

    def tell(self, job_id: JobId) -> None:
        """Note that a job has changed."""
        for watcher, wanted in tuple(self._watchers.items()):
            if wanted in {"", job_id}:
                with suppress(anyio.WouldBlock):
                    watcher.send_nowait(job_id)

    def tell_all(self) -> None:
        """Note that any job may have changed."""
        for job_id in {wanted for wanted in self._watchers.values() if wanted}:
            self.tell(job_id)
