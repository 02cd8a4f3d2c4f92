"""The client of a queue for asynchronous code, under asyncio and trio."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.evalqueue import calls
from codeflash_parallel.evalqueue.calls import DaemonInfo, JobEvent, JobStatus
from codeflash_parallel.evalqueue.client import EvalQueueClient
from codeflash_parallel.evalqueue.figures import Health
from codeflash_parallel.evalqueue.link import no_daemon, not_usable, socket_of, stalled
from codeflash_parallel.evalqueue.outcomes import FINAL, result_of
from codeflash_parallel.evalqueue.patience import Patience
from codeflash_parallel.evalqueue.protocol import (
    MAX_LINE,
    STALLED_S,
    Alive,
    Answer,
    read_reply,
    request_line,
)
from codeflash_parallel.model.jobs import Job, JobId, JobRequest, JobState, Place, Receipt
from codeflash_parallel.model.queue_settings import QueueSettings

_T = TypeVar("_T")


class AsyncEvalQueueClient:
    """Submits jobs to the queue in a folder, and follows them: `EvalQueueClient` with awaitable calls.

    Short calls run on threads; waiting and watching hold a socket and no thread, and can be cancelled (the
    job goes on).

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

    async def health(self) -> Health:
        """Return the queue's figures."""
        return await _on_a_thread(self._client.health)

    async def metrics(self) -> str:
        """Return the queue's figures as Prometheus reads them."""
        return await _on_a_thread(self._client.metrics)

    async def cancel(self, job_id: str) -> JobState:
        """Cancel a job; one that runs is dead when this returns."""
        return await _on_a_thread(partial(self._client.cancel, job_id))

    async def retry(self, job_id: str) -> Place:
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
        patience = Patience(float("inf") if timeout_s is None else time.monotonic() + timeout_s)
        while True:
            found = await self._waited(JobId(job_id), patience)
            if found.job.state in FINAL:
                return found.job
            await anyio.sleep(patience.pause_s(self._client.folder, time.monotonic()))

    async def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; for the errors see `EvalQueueClient.result`."""
        return result_of(await self.wait(job_id, timeout_s))

    @asynccontextmanager
    async def watch(self, job_id: str = "") -> AsyncIterator[AsyncIterator[JobEvent]]:
        """Give an iterator over what changes, of one job until it is final, or (empty) of all."""
        async with _open_link(self._client.folder) as link:
            if link is None:
                raise no_daemon(self._client.folder)
            async with aclosing(_events(link, calls.Watch(job_id=JobId(job_id)))) as events:
                yield events

    async def _waited(self, job_id: JobId, patience: Patience) -> JobStatus:
        wanted = calls.Wait(job_id=job_id, max_s=patience.left_s(time.monotonic()))
        async with _open_link(self._client.folder) as link:
            if link is not None:
                try:
                    found: JobStatus = await link.ask(wanted)
                except ConnectionError:  # it went away
                    patience.seen = time.monotonic()
                else:
                    patience.seen = time.monotonic()
                    return found
        return await self.status(job_id)


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


class _Link:
    """A connection to a daemon."""

    def __init__(self, folder: Path, stream: SocketStream) -> None:
        self._folder = folder
        self._stream = stream
        self._buffered = BufferedByteReceiveStream(stream)

    async def ask(self, request: calls.Request) -> Any:
        """Make a call and return its answer; raises as `link.Link.ask` does."""
        async with aclosing(self.replies(request)) as replies:
            async for reply in replies:
                if isinstance(reply, Answer):
                    return reply.value
        raise AssertionError(request)  # pragma: no cover - the replies end with an answer

    async def replies(self, request: calls.Request) -> AsyncGenerator[JobEvent | Answer]:
        """Make a call and yield its events and, last, its answer."""
        await self._spoken(self._stream.send(request_line(request)))
        while True:
            line = await self._spoken(self._buffered.receive_until(b"\n", MAX_LINE))
            reply = read_reply(line, request)
            if isinstance(reply, Alive):
                continue
            yield reply
            if isinstance(reply, Answer):
                return

    async def _spoken(self, exchange: Any) -> Any:
        try:
            with anyio.fail_after(STALLED_S):
                return await exchange
        except TimeoutError as error:
            raise stalled(self._folder) from error
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise ConnectionResetError(f"the daemon of {self._folder} has gone away") from error


@asynccontextmanager
async def _open_link(folder: Path) -> AsyncIterator[_Link | None]:
    """Connect to the daemon of a folder; `None` if there is none."""
    try:
        with socket_of(folder) as address, anyio.fail_after(STALLED_S):
            stream = await anyio.connect_unix(address)
    except (FileNotFoundError, ConnectionRefusedError):
        yield None
        return
    except (TimeoutError, BlockingIOError) as error:
        raise stalled(folder) from error
    except OSError as error:
        raise not_usable(folder, error) from error
    async with stream:
        yield _Link(folder, stream)


async def _events(link: _Link, wanted: calls.Watch) -> AsyncGenerator[JobEvent]:
    async with aclosing(link.replies(wanted)) as replies:
        async for reply in replies:
            if isinstance(reply, JobEvent):
                yield reply


async def _on_a_thread(call: Callable[[], _T]) -> _T:
    """Make a call that takes a moment: not cancelled half-way, so that its effect is known."""
    return await anyio.to_thread.run_sync(call)
