"""The client of a queue for synchronous code."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from codeflash_parallel.config.environment import uncovered
from codeflash_parallel.queue.jobs import (
    FINAL,
    Job,
    JobId,
    JobRequest,
    JobState,
    JobStatus,
    QueuePlace,
    Receipt,
    WaitReason,
    now,
    result_of,
)
from codeflash_parallel.queue.queue_errors import SnapshotNotStored, VariablesNotPassed
from codeflash_parallel.queue.queue_settings import SOCKET_NAME, QueueSettings
from codeflash_parallel.queue.store.database import DatabaseFileCheck, must_exist, open_database
from codeflash_parallel.queue.store.store import Store
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.queue.daemon_protocol import DaemonInfo
    from codeflash_parallel.queue.metrics import QueueHealth
    from codeflash_parallel.queue.store.database import Database

#: A client that waits without a deadline gives a daemon that went away so many seconds to come back.
PATIENCE_S: Final = 30.0
#: Seconds between its attempts to reach it.
RETRY_S: Final = 0.2

_T = TypeVar("_T")


class EvalQueueClient:
    """Submits jobs to the queue in a folder, and follows them.

    A context manager; threads may share one. Calls work on the queue's files and tell the daemon to look at
    them; without a daemon, jobs are kept until one is started.

    Args:
        folder: the queue's folder, `config.settings_reader.queue_folder`.
        settings: rules of the queue until a daemon has served it; then those of the last daemon hold.

    Raises:
        EnvironmentFault: from every call: `DAEMON_STALLED` after 3.5 s of silence, or the files are unfit.
        NoQueue: from every call but `submit` and `pause`, which create a queue if there is none.

    Attributes:
        is_served: a daemon answered the last call that told it something.

    .. versionadded:: 0.1.0
    """

    def __init__(self, folder: Path | str, settings: QueueSettings | None = None) -> None:
        self.folder = Path(folder).absolute()
        self._settings = settings or QueueSettings()
        self._stack = ExitStack()
        self._database: Database | None = None
        self._store: Store | None = None
        self._rules = ""
        self._lock = threading.Lock()
        self.is_served = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the queue's files if they were opened. Later calls open them again."""
        with self._lock:
            self._database = self._store = None
            self._stack.close()

    # --- submitting ------------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> JobFuture:
        """Submit a job, on the disk when this returns, and return its future; equal jobs share one.

        Raises:
            Refused: the queue does not take it; the class says why, and when to try again.
        """
        if request.snapshot and not (self.folder / "snapshots" / request.snapshot).is_dir():
            raise SnapshotNotStored(folder=self.folder)

        def submit(store: Store) -> Receipt:
            if self._has_socket and (missing := uncovered(request.pass_env, store.pass_env)):
                raise VariablesNotPassed(names=", ".join(missing))
            return store.submit(request, now())

        receipt = self._on_store(submit, creates=True)
        self._tell_daemon()
        return JobFuture(client=self, receipt=receipt._replace(place=self._with_daemon(receipt.place)))

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
        answer = self._ask("ping")
        if answer is None:
            return None
        from codeflash_parallel.queue.daemon_protocol import read_info

        return read_info(answer)

    def status(self, job_id: str) -> JobStatus:
        """Return a job and its place.

        Raises:
            UnknownJob: the queue has no such job.
        """
        info = self.daemon
        token_busy = bool(info and info.token_holder)
        job, place = self._on_store(
            lambda store: JobStatus(store.job(job_id), store.place(job_id, now(), token_busy=token_busy))
        )
        for worker in info.workers if info else ():
            if worker.job_id == job_id and worker.progress:  # newer than what the store has
                job = job._replace(progress=worker.progress)
        return JobStatus(job, self._with_daemon(place))

    def list(
        self, *, states: Iterable[JobState] = (), submitter: str = "", run: str = "", limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs without their payloads and results; empty arguments do not restrict.

        Args:
            limit: the latest so many.
        """
        found = self._on_store(
            lambda store: store.jobs(states=frozenset(states), submitter=submitter, run=run, limit=limit)
        )
        return tuple(job._replace(payload="", result="") for job in found)

    def dead(self, limit: int = 100) -> tuple[Job, ...]:
        """Return the jobs whose attempts are used up."""
        return self.list(states=(JobState.DEAD,), limit=limit)

    def health(self) -> QueueHealth:
        """Return the queue's figures, counted from its rows."""
        return self._on_store(lambda store: store.health(now()))

    def metrics(self) -> str:
        """Return the queue's figures in the text format of Prometheus."""
        from codeflash_parallel.queue.metrics import prometheus

        return prometheus(self.health())

    # --- waiting ---------------------------------------------------------------------------------------

    def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """Return a job when it is final. After a timeout, `wait` can be called again.

        Args:
            timeout_s: until then, a daemon may be started or started again; `None` means no limit.

        Raises:
            TimeoutError: the time is up.
            EnvironmentFault: `NO_DAEMON`, without a limit; one that goes away has 30 s to come back.
        """
        return next(job for job in self.looks(job_id, timeout_s) if job is not None)

    def looks(
        self, job_id: str, timeout_s: float | None, longest_s: float = float("inf")
    ) -> Iterator[Job | None]:
        """Yield `None` at least every `longest_s` seconds, and the job when it is final. Raise as `wait`."""
        end = float("inf") if timeout_s is None else time.monotonic() + timeout_s
        seen_s = float("-inf")  # when the daemon was last there
        while (job := self._on_store(lambda store: store.job(job_id))).state not in FINAL:
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("the job is not final yet")
            max_s = min(left_s, longest_s)
            self._ask("wait", job_id=job_id, max_s=max_s if max_s < float("inf") else -1.0)
            if self.is_served:
                seen_s = time.monotonic()
            elif timeout_s is None and time.monotonic() - seen_s > PATIENCE_S:
                raise EnvironmentFault(
                    "NO_DAEMON",
                    f"No daemon is running for {self.folder}.",
                    "Start one with `codeflash-parallel serve`; jobs that are queued are kept.",
                )
            else:
                time.sleep(min(RETRY_S, max_s))
            yield None
        yield job

    def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; raise as `wait` and `jobs.result_of`."""
        return result_of(self.wait(job_id, timeout_s))

    # --- changing --------------------------------------------------------------------------------------

    def cancel(self, job_id: str) -> JobState:
        """Cancel a job and return its state; a running one has ended when this returns.

        Raises:
            UnknownJob: the queue has no such job.
        """
        state = self._on_store(lambda store: store.cancel(job_id, now()))
        self._tell_daemon(job_id)
        return state

    def retry(self, job_id: str) -> QueuePlace:
        """Send a dead job back to the queue.

        Raises:
            UsageError: it is not dead, or not known.
        """
        place = self._on_store(lambda store: store.retry(job_id, now()))
        self._tell_daemon(job_id)
        return place

    def pause(self) -> None:
        """Start no more jobs; running ones continue."""
        self._on_store(lambda store: store.pause(now()), creates=True)
        self._tell_daemon()

    def unpause(self) -> None:
        """Start jobs again."""
        self._on_store(lambda store: store.unpause(now()))
        self._tell_daemon()

    # --- the store and the daemon ------------------------------------------------------------------------

    def _on_store(self, act: Callable[[Store], _T], *, creates: bool = False) -> _T:
        """Return what a call of the store returns.

        Args:
            creates: the queue need not exist.
        """
        with self._lock:
            if self._database is None:
                if not creates:
                    must_exist(self.folder)
                opened = open_database(self.folder, DatabaseFileCheck.HEADER)
                self._database = self._stack.enter_context(opened)
            rules = self._database.rules()
            if self._store is None or rules != self._rules:
                self._store = Store.under_rules(self._database, rules, self._settings)
                self._rules = rules
            return act(self._store)

    @property
    def _has_socket(self) -> bool:
        return os.path.lexists(self.folder / SOCKET_NAME)

    def _tell_daemon(self, job_id: str = "") -> None:
        """Have the daemon, if one runs, look at the store, and at a job that may have ended."""
        self._ask("look", job_id=job_id)

    def _ask(self, call: str, **arguments: Any) -> Any:
        """Return the daemon's answer, `None` if there is no daemon."""
        self.is_served = False
        if not self._has_socket:
            return None
        from codeflash_parallel.queue.daemon_protocol import ask_daemon  # `queue submit` answers at once

        try:
            answer = ask_daemon(self.folder, call, **arguments)
        except ConnectionError:  # it was killed, or is gone: every call may be made again
            return None
        self.is_served = True
        return answer

    def _with_daemon(self, place: QueuePlace) -> QueuePlace:
        """Return the place of a job with the reason that no daemon runs, where that is so."""
        return place._replace(reason=WaitReason.NO_DAEMON) if place.position and not self.is_served else place


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
