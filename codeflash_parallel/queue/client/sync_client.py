"""The client of a queue, for synchronous code: through its daemon, or on its files where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from codeflash_parallel.queue.client.job_future import JobFuture
from codeflash_parallel.queue.client.queue_access import QueueAccess
from codeflash_parallel.queue.client.store_queries import listed, without_daemon
from codeflash_parallel.queue.clock import now
from codeflash_parallel.queue.errors import Duplicate
from codeflash_parallel.queue.jobs import Job, JobId, JobRequest, JobState, QueuePlace, Receipt
from codeflash_parallel.queue.protocol.job_result import FINAL, result_of, submit_anew

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.wait_deadline import WaitDeadline
    from codeflash_parallel.queue.metrics import QueueHealth
    from codeflash_parallel.queue.protocol import messages
    from codeflash_parallel.queue.protocol.messages import DaemonInfo, JobEvent, JobStatus
    from codeflash_parallel.queue.store.store import Store

# `queue submit` answers at once: what is said to a daemon (`messages`, `link`) is imported where there may be
# one, the store where there is none.


class EvalQueueClient(QueueAccess):
    """Submits jobs to the queue in a folder, and follows them.

    A context manager; threads may share one. What needs no daemon (submitting, looking, cancelling, pausing)
    is done on the queue's files while none is running: jobs are kept until one is started.

    Args:
        folder: the queue's folder, `config.cache_paths.queue_folder`.
        settings: rules of the queue, for what is done without a daemon; a daemon goes by its own.

    Raises:
        EnvironmentFault: from every call: `DAEMON_STALLED` after 3.5 s of silence, or the files are unfit.
        NoQueue: from every call but `submit` and `pause`, which make a queue where there is none.

    .. versionadded:: 0.1.0
    """

    # --- submitting ------------------------------------------------------------------------------------

    def submit(self, request: JobRequest) -> JobFuture:
        """Submit a job, on the disk when this returns, and return its future; equal jobs share one.

        Raises:
            Refused: the queue does not take it; the class says why, and when to try again.
        """

        def directly(store: Store) -> Receipt:
            receipt = submit_anew(store, request, now())
            return receipt._replace(place=without_daemon(receipt.place))

        def asked() -> messages.Request:
            from codeflash_parallel.queue.protocol import messages

            return messages.Submit(request=request)

        receipt: Receipt = self._make(asked, directly)
        return JobFuture(client=self, receipt=receipt)

    def submit_new(self, request: JobRequest) -> JobFuture:
        """Submit a job unless the same has been answered already.

        Raises:
            Duplicate: it has; here is the verdict.
            Refused: as in `submit`.
        """
        future = self.submit(request)
        if not future.receipt.is_new and future.receipt.job.state is JobState.DONE:
            raise Duplicate(future.receipt.job)
        return future

    def job(self, job_id: str) -> JobFuture:
        """Return the future of a job that was submitted earlier, by whomever.

        Raises:
            UnknownJob: the queue has none of that id.
        """
        status = self.status(job_id)
        return JobFuture(client=self, receipt=Receipt(job=status.job, place=status.place, is_new=False))

    # --- looking ---------------------------------------------------------------------------------------

    @property
    def daemon(self) -> DaemonInfo | None:
        """Return what the daemon says of itself, `None` if there is none."""
        info: DaemonInfo | None = self._asked(_ping, lambda: None)
        return info

    def status(self, job_id: str) -> JobStatus:
        """Return a job and where it stands.

        Raises:
            UnknownJob: the queue has none of that id.
        """
        from codeflash_parallel.queue.protocol import messages

        name = JobId(job_id)

        def directly(store: Store) -> JobStatus:
            return messages.JobStatus(job=store.job(name), place=without_daemon(store.place(name, now())))

        found: JobStatus = self._read(lambda: messages.GetStatus(job_id=name), directly)
        return found

    def list(
        self, *, states: Iterable[JobState] = (), submitter: str = "", run: str = "", limit: int = 100
    ) -> tuple[Job, ...]:
        """Return jobs without their payloads and results; empty arguments: whatever they are.

        Args:
            limit: the latest so many.
        """
        from codeflash_parallel.queue.protocol import messages

        wanted = messages.List(states=frozenset(states), submitter=submitter, run=run, limit=limit)
        found: messages.Jobs = self._read(lambda: wanted, lambda store: listed(store, wanted))
        return found.jobs

    def dead(self, limit: int = 100) -> tuple[Job, ...]:
        """Return the jobs whose attempts are used up."""
        return self.list(states=(JobState.DEAD,), limit=limit)

    def health(self) -> QueueHealth:
        """Return the queue's figures, counted from its rows."""
        from codeflash_parallel.queue.protocol import messages

        found: QueueHealth = self._read(messages.GetHealth, lambda store: store.health(now()))
        return found

    def metrics(self) -> str:
        """Return the queue's figures as Prometheus reads them."""
        from codeflash_parallel.queue.metrics import prometheus

        return prometheus(self.health())

    # --- waiting ---------------------------------------------------------------------------------------

    def wait(self, job_id: str, timeout_s: float | None = None) -> Job:
        """Return a job when it is final. Another wait may follow one that ended for want of time.

        Args:
            timeout_s: `None`: however long it takes.

        Raises:
            TimeoutError: the time is up.
            EnvironmentFault: `NO_DAEMON`: nobody takes jobs; one that goes away has 30 s to come back.
        """
        from codeflash_parallel.queue.client.wait_deadline import WaitDeadline

        patience = WaitDeadline(float("inf") if timeout_s is None else time.monotonic() + timeout_s)
        while True:
            found = self.waited(JobId(job_id), patience)
            if found.job.state in FINAL:
                return found.job
            time.sleep(patience.pause_s(self.folder, time.monotonic()))

    def waited(self, job_id: JobId, patience: WaitDeadline, longest_s: float = -1.0) -> JobStatus:
        """Wait while the daemon is there, and return how the job is.

        Args:
            job_id: of the queue.
            patience: of the whole wait.
            longest_s: of this look; negative: as long as the patience.
        """
        from codeflash_parallel.queue.protocol import messages

        link = self._link()
        if link is not None:
            left_s = patience.left_s(time.monotonic())
            max_s = min((s for s in (left_s, longest_s) if s >= 0), default=-1.0)
            wanted = messages.Wait(job_id=job_id, max_s=max_s)
            with link, suppress(ConnectionError):
                found: JobStatus = link.ask(wanted)
                patience.seen = time.monotonic()
                return found
            patience.seen = time.monotonic()
        return self.status(job_id)

    def result(self, job_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Return the result of a job when there is one; it raises as `wait` and `outcomes.result_of` do."""
        return result_of(self.wait(job_id, timeout_s))

    def watch(self, job_id: str = "") -> Iterator[JobEvent]:
        """Yield what changes, of one job until it is final, or (empty) of all.

        Raises:
            EnvironmentFault: `NO_DAEMON`: there is none, or it went away.
        """
        from codeflash_parallel.queue.client.daemon_connection import no_daemon
        from codeflash_parallel.queue.protocol import messages

        link = self._link()
        if link is None:
            raise no_daemon(self.folder)
        with link:
            try:
                for reply in link.replies(messages.WatchJob(job_id=JobId(job_id))):
                    if isinstance(reply, messages.JobEvent):
                        yield reply
            except ConnectionError as error:
                raise no_daemon(self.folder) from error

    # --- changing --------------------------------------------------------------------------------------

    def cancel(self, job_id: str) -> JobState:
        """Cancel a job; one that runs is dead when this returns. Return the state it is in now.

        Raises:
            UnknownJob: the queue has none of that id.
        """
        from codeflash_parallel.queue.protocol import messages

        name = JobId(job_id)

        def directly(store: Store) -> messages.NewState:
            return messages.NewState(state=store.cancel(name, now()))

        found: messages.NewState = self._write(lambda: messages.Cancel(job_id=name), directly)
        return found.state

    def retry(self, job_id: str) -> QueuePlace:
        """Send a dead job back to the queue.

        Raises:
            UsageError: it is not dead, or not known.
        """
        from codeflash_parallel.queue.protocol import messages

        name = JobId(job_id)
        asked = messages.Retry(job_id=name)
        place: QueuePlace = self._write(lambda: asked, lambda store: store.retry(name, now()))
        return place

    def pause(self) -> None:
        """Start no more jobs; what runs goes on."""
        from codeflash_parallel.queue.protocol import messages

        self._make(messages.Pause, lambda store: store.pause(now()))

    def unpause(self) -> None:
        """Start jobs again."""
        from codeflash_parallel.queue.protocol import messages

        self._write(messages.Unpause, lambda store: store.unpause(now()))


def _ping() -> messages.Request:
    from codeflash_parallel.queue.protocol import messages

    return messages.Ping()
