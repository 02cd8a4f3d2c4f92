"""The client of a queue for asynchronous code, under asyncio and trio."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio

from codeflash_parallel.queue.client.sync_client import EvalQueueClient
from codeflash_parallel.queue.client.wait_deadline import WaitDeadline
from codeflash_parallel.queue.jobs import Job, JobId, JobRequest, JobState, QueuePlace, Receipt
from codeflash_parallel.queue.metrics import QueueHealth
from codeflash_parallel.queue.protocol.job_result import FINAL, result_of
from codeflash_parallel.queue.protocol.messages import DaemonInfo, JobStatus
from codeflash_parallel.queue.queue_settings import QueueSettings

#: A thread waits for so many seconds before it looks whether its task still does.
_LOOK_S: Final = 1.0

_T = TypeVar("_T")


class AsyncEvalQueueClient:
    """Submits jobs to the queue in a folder, and follows them: `EvalQueueClient` with awaitable calls.

    Calls run on threads. Waiting can be cancelled; the job goes on.

    .. versionadded:: 0.1.0
    """

    def __init__(self, folder: Path | str, settings: QueueSettings | None = None) -> None:
        self._client = EvalQueueClient(folder, settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _on_a_thread(self._client.close)

    async def submit(self, request: JobRequest) -> AsyncJobFuture:
        """Submit a job and return its future, which can be awaited; see `EvalQueueClient.submit`."""
        future = await _on_a_thread(partial(self._client.submit, request))
        return AsyncJobFuture(client=self, receipt=future.receipt)

    async def submit_new(self, request: JobRequest) -> AsyncJobFuture:
        """Submit a job unless the same has been answered; see `EvalQueueClient.submit_new`."""
        future = await _on_a_thread(partial(self._client.submit_new, request))
        return AsyncJobFuture(client=self, receipt=future.receipt)

    async def job(self, job_id: str) -> AsyncJobFuture:
        """Return the future of a job that was submitted earlier."""
        future = await _on_a_thread(partial(self._client.job, job_id))
        return AsyncJobFuture(client=self, receipt=future.receipt)

    async def daemon(self) -> DaemonInfo | None:
        """Return what the daemon says of itself, `None` if there is none."""
        return await _on_a_thread(lambda: self._client.daemon)

    async def status(self, job_id: str) -> JobStatus:
        """Return a job and where it stands."""
        return await _on_a_thread(partial(self._client.status, job_id))

    async def list(
        self, *, states: Iterable[JobState] = (), submitter: str = "", run: str = "", limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs; see `EvalQueueClient.list`."""
        listing = partial(self._client.list, states=states, submitter=submitter, run=run, limit=limit)
        return await _on_a_thread(listing)

    async def dead(self, limit: int = 100) -> tuple[Job, ...]:
        """Return the jobs whose attempts are used up."""
        return await _on_a_thread(partial(self._client.dead, limit))

    async def health(self) -> QueueHealth:
        """Return the queue's figures."""
        return await _on_a_thread(self._client.health)

    async def metrics(self) -> str:
        """Return the queue's figures as Prometheus reads them."""
        return await _on_a_thread(self._client.metrics)

    async def cancel(self, job_id: str) -> JobState:
        """Cancel a job; one that runs is dead when this returns."""
        return await _on_a_thread(partial(self._client.cancel, job_id))

    async def retry(self, job_id: str) -> QueuePlace:
        """Send a dead job back to the queue."""
        return await _on_a_thread(partial(self._client.retry, job_id))

    async def pause(self) -> None:
        """Start no more jobs; what runs goes on."""
        await _on_a_thread(self._client.pause)

    async def unpause(self) -> None:
        """Start jobs again."""
        await _on_a_thread(self._client.unpause)

    async def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """Return a job when it is final; see `EvalQueueClient.wait`."""
        patience = WaitDeadline(float("inf") if timeout_s is None else time.monotonic() + timeout_s)
        while True:
            looking = partial(self._client.waited, JobId(job_id), patience, _LOOK_S)
            # Waiting changes nothing: a thread may be left alone with it.
            found = await anyio.to_thread.run_sync(looking, abandon_on_cancel=True)
            if found.job.state in FINAL:
                return found.job
            await anyio.sleep(patience.pause_s(self._client.folder, time.monotonic()))

    async def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; for the errors see `EvalQueueClient.result`."""
        return result_of(await self.wait(job_id, timeout_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncJobFuture:
    """A job that will have a result; awaiting it returns the result.

    Attributes:
        receipt: what the queue answered when it was submitted.
    """

    client: AsyncEvalQueueClient
    receipt: Receipt

    @property
    def job_id(self) -> JobId:
        """Return the job's id."""
        return self.receipt.job.job_id

    def __await__(self) -> Generator[Any, Any, dict[str, Any]]:
        return self.result().__await__()

    async def status(self) -> JobStatus:
        """Return the job and where it stands now."""
        return await self.client.status(self.job_id)

    async def done(self) -> bool:
        """Say whether the job is final."""
        return (await self.status()).job.state in FINAL

    async def cancel(self) -> bool:
        """Cancel the job; say whether it is cancelled now."""
        return await self.client.cancel(self.job_id) is JobState.CANCELLED

    async def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the result and return it; for the errors see `JobFuture.result`."""
        return await self.client.result(self.job_id, timeout_s)


async def _on_a_thread(call: Callable[[], _T]) -> _T:
    """Make a call that takes a moment: not cancelled half-way, so that its effect is known."""
    return await anyio.to_thread.run_sync(call)
