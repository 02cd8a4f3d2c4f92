"""The client of a queue for synchronous code: through the daemon, or on the store if no daemon runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from codeflash_parallel.queue.errors import Duplicate
from codeflash_parallel.queue.job_result import FINAL, result_of, submit_anew
from codeflash_parallel.queue.jobs import (
    Job,
    JobId,
    JobRequest,
    JobState,
    JobStatus,
    QueuePlace,
    Receipt,
    WaitReason,
    now,
)
from codeflash_parallel.queue.queue_settings import SOCKET_NAME, QueueSettings
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.daemon_connection import DaemonConnection
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo, JobEvent
    from codeflash_parallel.queue.metrics import QueueHealth
    from codeflash_parallel.queue.store.store import Store

# `queue submit` answers in 0.1 s: the protocol is imported only where there may be a daemon, the store only
# where there is none.

#: A waiting client gives a daemon that went away so many seconds to come back.
PATIENCE_S: Final = 30.0
#: Seconds between its attempts to reach it.
RETRY_S: Final = 0.2


class EvalQueueClient:
    """Submits jobs to the queue in a folder, and follows them.

    A context manager; threads may share one. Calls that need no daemon (submitting, looking, cancelling,
    pausing) work on the queue's files while none is running: jobs are kept until one is started.

    Args:
        folder: the queue's folder, `config.user_context.queue_folder`.
        settings: rules of the queue for what is done without a daemon; a daemon has its own.

    Raises:
        EnvironmentFault: from every call: `DAEMON_STALLED` after 3.5 s of silence, or the files are unfit.
        NoQueue: from every call but `submit` and `pause`, which create a queue if there is none.

    .. versionadded:: 0.1.0
    """

    def __init__(self, folder: Path | str, settings: QueueSettings | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._settings = settings or QueueSettings()
        self._stack = ExitStack()
        self._opened: Store | None = None
        self._lock = threading.Lock()
        self._served = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the queue's files if they were opened. Later calls open them again."""
        with self._lock:
            self._opened = None
            self._stack.close()

    @property
    def is_served(self) -> bool:
        """Whether a daemon answered the last call."""
        return self._served

    # --- submitting ------------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> JobFuture:
        """Submit a job, on the disk when this returns, and return its future; equal jobs share one.

        Raises:
            Refused: the queue does not take it; the class says why, and when to try again.
        """

        def directly(store: Store) -> Receipt:
            receipt = submit_anew(store.submit, request, now())
            return receipt._replace(place=_without_daemon(receipt.place))

        receipt: Receipt = self._call("submit", {"request": request}, directly, writes=True, creates=True)
        return JobFuture(client=self, receipt=receipt)

    def submit_new(self, request: JobRequest) -> JobFuture:
        """Submit a job unless an equal one has been answered already.

        Raises:
            Duplicate: it has; the error holds the job.
            Refused: as in `submit`.
        """
        future = self.submit(request)
        if not future.receipt.is_new and future.receipt.job.state is JobState.DONE:
            raise Duplicate(future.receipt.job)
        return future

    def job(self, job_id: str) -> JobFuture:
        """Return the future of a job that was submitted earlier, by any process.

        Raises:
            UnknownJob: the queue has no such job.
        """
        status = self.status(job_id)
        return JobFuture(client=self, receipt=Receipt(job=status.job, place=status.place, is_new=False))

    # --- looking ---------------------------------------------------------------------------------------

    @property
    def daemon(self) -> DaemonInfo | None:
        """Return the state of the daemon, `None` if there is none."""
        info: DaemonInfo | None = self._ask("ping", {}, lambda: None)
        return info

    def status(self, job_id: str) -> JobStatus:
        """Return a job and its place.

        Raises:
            UnknownJob: the queue has no such job.
        """

        def directly(store: Store) -> JobStatus:
            return JobStatus(store.job(job_id), _without_daemon(store.place(job_id, now())))

        found: JobStatus = self._call("status", {"job_id": job_id}, directly)
        return found

    def list(
        self, *, states: Iterable[JobState] = (), submitter: str = "", run: str = "", limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs without their payloads and results; empty arguments do not restrict.

        Args:
            limit: the latest so many.
        """
        chosen = frozenset(states)
        wanted = {"states": chosen, "submitter": submitter, "run": run, "limit": limit}
        found: tuple[Job, ...] = self._call(
            "list", wanted, lambda store: store.listed(chosen, submitter, run, limit)
        )
        return found

    def dead(self, limit: int = 100) -> tuple[Job, ...]:
        """Return the jobs whose attempts are used up."""
        return self.list(states=(JobState.DEAD,), limit=limit)

    def health(self) -> QueueHealth:
        """Return the queue's figures, counted from its rows."""
        found: QueueHealth = self._call("health", {}, lambda store: store.health(now()))
        return found

    def metrics(self) -> str:
        """Return the queue's figures in the text format of Prometheus."""
        from codeflash_parallel.queue.metrics import prometheus

        return prometheus(self.health())

    # --- waiting ---------------------------------------------------------------------------------------

    def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """Return a job when it is final. After a timeout, `wait` can be called again.

        Args:
            timeout_s: `None` means no limit.

        Raises:
            TimeoutError: the time is up.
            EnvironmentFault: `NO_DAEMON`; one that goes away has 30 s to come back.
        """
        return next(job for job in self.looks(job_id, timeout_s) if job is not None)

    def looks(
        self, job_id: str, timeout_s: float | None, longest_s: float = float("inf")
    ) -> Iterator[Job | None]:
        """Yield `None` at least every `longest_s` seconds, and the job when it is final. Raise as `wait`."""
        end = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        seen_s = float("-inf")  # when the daemon was last there
        while True:
            status = None
            connection = self._connection()
            if connection is not None:
                left_s = min(max(0.0, end - time.monotonic()), longest_s)
                wanted = {"job_id": job_id, "max_s": left_s if left_s < float("inf") else -1.0}
                with connection, suppress(ConnectionError):
                    status = connection.ask("wait", wanted)
                seen_s = time.monotonic()
            is_served = status is not None
            status = status or self.status(job_id)
            if status.job.state in FINAL:
                yield status.job
                return
            at = time.monotonic()
            if at >= end:
                raise TimeoutError("the job is not final yet")
            if at - seen_s > PATIENCE_S:
                raise _no_daemon(self.folder)
            yield None
            if not is_served:
                time.sleep(min(RETRY_S, end - at))

    def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; raise as `wait` and `job_result.result_of`."""
        return result_of(self.wait(job_id, timeout_s))

    def watch(self, job_id: str = "") -> Iterator[JobEvent]:
        """Yield the changes of one job until it is final, or (empty id) of all jobs.

        Raises:
            EnvironmentFault: `NO_DAEMON`: there is none, or it went away.
        """
        connection = self._connection()
        if connection is None:
            raise _no_daemon(self.folder)
        with connection:
            try:
                yield from connection.events("watch", {"job_id": job_id})
            except ConnectionError as error:
                raise _no_daemon(self.folder) from error

    # --- changing --------------------------------------------------------------------------------------

    def cancel(self, job_id: str) -> JobState:
        """Cancel a job and return its state; a running one has ended when this returns.

        Raises:
            UnknownJob: the queue has no such job.
        """
        state: JobState = self._call(
            "cancel", {"job_id": job_id}, lambda store: store.cancel(job_id, now()), writes=True
        )
        return state

    def retry(self, job_id: str) -> QueuePlace:
        """Send a dead job back to the queue.

        Raises:
            UsageError: it is not dead, or not known.
        """
        place: QueuePlace = self._call(
            "retry", {"job_id": job_id}, lambda store: store.retry(job_id, now()), writes=True
        )
        return place

    def pause(self) -> None:
        """Start no more jobs; running ones continue."""
        self._call("pause", {}, lambda store: store.pause(now()), writes=True, creates=True)

    def unpause(self) -> None:
        """Start jobs again."""
        self._call("unpause", {}, lambda store: store.unpause(now()), writes=True)

    # --- through the daemon, or on the store -------------------------------------------------------------

    def _call(
        self,
        call: str,
        arguments: Mapping[str, Any],
        directly: Callable[[Store], Any],
        *,
        writes: bool = False,
        creates: bool = False,
    ) -> Any:
        """Have the daemon answer a call; without a daemon, do it on the store.

        Args:
            directly: does it on the store.
            writes: a daemon that has just started has to look at the store afterwards.
            creates: the queue need not exist.
        """

        def done() -> Any:
            value = self._on_store(directly, creates=creates)
            if writes:
                with suppress(ConnectionError, EnvironmentFault):
                    self._ask("look", {}, lambda: None)
            return value

        return self._ask(call, arguments, done)

    def _ask(self, call: str, arguments: Mapping[str, Any], otherwise: Callable[[], Any]) -> Any:
        connection = self._connection()
        if connection is not None:
            # A daemon that went away may have done it; every call may be made twice.
            with connection, suppress(ConnectionError):
                answer = connection.ask(call, arguments)
                self._served = True
                return answer
        self._served = False
        return otherwise()

    def _connection(self) -> DaemonConnection | None:
        try:
            os.lstat(self.folder / SOCKET_NAME)
        except FileNotFoundError:
            return None
        except OSError:
            pass  # connecting says what is wrong
        from codeflash_parallel.queue.client.daemon_connection import DaemonConnection

        return DaemonConnection.open(self.folder)

    def _on_store(self, act: Callable[[Store], Any], *, creates: bool) -> Any:
        from codeflash_parallel.queue.store.database import must_exist
        from codeflash_parallel.queue.store.store import Store

        with self._lock:
            if self._opened is None:
                if not creates:
                    must_exist(self.folder)
                self._opened = self._stack.enter_context(Store.open(self.folder, self._settings))
            return act(self._opened)


class JobFuture:
    """A job that will have a result, in the manner of `concurrent.futures.Future`.

    Attributes:
        receipt: the queue's answer to the submission.
    """

    def __init__(self, *, client: EvalQueueClient, receipt: Receipt) -> None:
        self.client = client
        self.receipt = receipt

    @property
    def job_id(self) -> JobId:
        """Return the job's id; `client.job` finds it again from another process."""
        return self.receipt.job.job_id

    def status(self) -> JobStatus:
        """Return the job and its place."""
        return self.client.status(self.job_id)

    def done(self) -> bool:
        """Return whether the job is final."""
        return self.status().job.state in FINAL

    def cancel(self) -> bool:
        """Cancel the job; return whether it is cancelled now."""
        return self.client.cancel(self.job_id) is JobState.CANCELLED

    def result(self, timeout: float | None = None) -> dict[str, Any]:
        """Wait for the result, for so many seconds at most, and return it.

        Raises:
            TimeoutError: the time is up; ask again.
            CodeflashParallelError: the job ended with this error, or without a result (`JobEnded`).
        """
        return self.client.result(self.job_id, timeout)

    def exception(self, timeout: float | None = None) -> CodeflashParallelError | None:
        """Wait as `result` does, and return the error that the job ended with, `None` for a result."""
        job = self.client.wait(self.job_id, timeout)
        try:
            result_of(job)
        except CodeflashParallelError as error:
            return error
        return None


def _without_daemon(place: QueuePlace) -> QueuePlace:
    return place._replace(reason=WaitReason.NO_DAEMON) if place.position else place


def _no_daemon(folder: Path) -> EnvironmentFault:
    return EnvironmentFault(
        "NO_DAEMON",
        f"No daemon is running for {folder}.",
        "Start one with `codeflash-parallel serve`; jobs that are queued are kept.",
    )
