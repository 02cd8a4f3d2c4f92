"""The client of a queue for asynchronous code, under asyncio and trio: `EvalQueueClient` on threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import anyio

from codeflash_parallel.queue.daemon_protocol import DaemonInfo
from codeflash_parallel.queue.jobs import (
    FINAL,
    Job,
    JobId,
    JobRequest,
    JobState,
    JobStatus,
    Receipt,
    result_of,
)
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.sync_client import EvalQueueClient

#: A waiting thread returns after so many seconds to see whether its task still waits.
_LOOK_S: Final = 1.0

_T = TypeVar("_T")
_P = ParamSpec("_P")


def _awaitable(
    method: Callable[Concatenate[EvalQueueClient, _P], _T],
) -> Callable[Concatenate[AsyncEvalQueueClient, _P], Coroutine[Any, Any, _T]]:
    """Return a method of the client as a coroutine that is not cancelled half-way: its effect is known."""

    @wraps(method)
    async def call(self: AsyncEvalQueueClient, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return await anyio.to_thread.run_sync(partial(method, self.client, *args, **kwargs))

    return call


class AsyncEvalQueueClient:
    """Submits jobs to the queue in a folder, and follows them: `EvalQueueClient` with awaitable calls.

    Waiting can be cancelled; the job continues. The methods are those of `EvalQueueClient`.

    Attributes:
        client: makes the calls.

    .. versionadded:: 0.1.0
    """

    def __init__(self, folder: Path | str, settings: QueueSettings | None = None) -> None:
        self.client = EvalQueueClient(folder, settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await anyio.to_thread.run_sync(self.client.close)

    async def submit(self, request: JobRequest) -> AsyncJobFuture:
        """Submit a job and return its future, which can be awaited; see `EvalQueueClient.submit`."""
        return AsyncJobFuture(client=self, receipt=(await self._submit(request)).receipt)

    async def job(self, job_id: str) -> AsyncJobFuture:
        """Return the future of a job that was submitted earlier."""
        return AsyncJobFuture(client=self, receipt=(await self._job(job_id)).receipt)

    _submit = _awaitable(EvalQueueClient.submit)
    _job = _awaitable(EvalQueueClient.job)
    status = _awaitable(EvalQueueClient.status)
    list = _awaitable(EvalQueueClient.list)
    dead = _awaitable(EvalQueueClient.dead)
    health = _awaitable(EvalQueueClient.health)
    metrics = _awaitable(EvalQueueClient.metrics)
    cancel = _awaitable(EvalQueueClient.cancel)
    retry = _awaitable(EvalQueueClient.retry)
    pause = _awaitable(EvalQueueClient.pause)
    unpause = _awaitable(EvalQueueClient.unpause)

    async def daemon(self) -> DaemonInfo | None:
        """Return the state of the daemon, `None` if there is none."""
        return await anyio.to_thread.run_sync(lambda: self.client.daemon)

    async def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """Return a job when it is final; see `EvalQueueClient.wait`."""
        looks = self.client.looks(job_id, timeout_s, _LOOK_S)
        found = None
        while found is None:
            # Waiting changes nothing: a cancelled task leaves its thread alone.
            found = await anyio.to_thread.run_sync(next, looks, abandon_on_cancel=True)
        return found

    async def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; for the errors see `EvalQueueClient.result`."""
        return result_of(await self.wait(job_id, timeout_s))


@dataclass(frozen=True, kw_only=True, slots=True)
class AsyncJobFuture:
    """A job that will have a result; awaiting it returns the result.

    Attributes:
        receipt: the queue's answer to the submission.
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
        """Return the job and its place."""
        return await self.client.status(self.job_id)

    async def done(self) -> bool:
        """Return whether the job is final."""
        return (await self.status()).job.state in FINAL

    async def cancel(self) -> bool:
        """Cancel the job; return whether it is cancelled now."""
        return await self.client.cancel(self.job_id) is JobState.CANCELLED

    async def result(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait for the result and return it; for the errors see `JobFuture.result`."""
        return await self.client.result(self.job_id, timeout_s)
