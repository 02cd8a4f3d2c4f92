"""Jobs that will have a result, and the patience of those who wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from codeflash_parallel.evalqueue.outcomes import FINAL, result_of
from codeflash_parallel.model.errors import CodeflashParallelError
from codeflash_parallel.model.jobs import JobId, JobState, Receipt

if TYPE_CHECKING:
    from codeflash_parallel.evalqueue.calls import JobStatus
    from codeflash_parallel.evalqueue.client import EvalQueueClient

#: How long a waiting client waits for a daemon that went away to come back, in seconds.
PATIENCE_S: Final = 30.0
#: How often it looks whether it has, in seconds.
RETRY_S: Final = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFuture:
    """A job that will have a result, in the manner of `concurrent.futures.Future`.

    Attributes:
        receipt: what the queue answered when it was submitted.
    """

    client: EvalQueueClient
    receipt: Receipt

    @property
    def job_id(self) -> JobId:
        """Return the job's id; `client.job` finds it again from another process."""
        return self.receipt.job.job_id

    def status(self) -> JobStatus:
        """Return the job and where it stands now."""
        return self.client.status(self.job_id)

    def done(self) -> bool:
        """Say whether the job is final."""
        return self.status().job.state in FINAL

    def cancel(self) -> bool:
        """Cancel the job; say whether it is cancelled now."""
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


@dataclass(slots=True)
class Patience:
    """How long a client waits for a job, and for a daemon that went away.

    Attributes:
        end: when its time is up, by the monotonic clock; infinite: never.
        seen: when the daemon was there last; negative: it never was.
    """

    end: float
    seen: float = -1.0

    def left_s(self, at: float) -> float:
        """Return for how long the daemon may let us wait; negative: however long it takes."""
        return max(0.0, self.end - at) if self.end != float("inf") else -1.0

    def pause_s(self, folder: Path, at: float) -> float:
        """Return for how long to pause before looking again.

        Raises:
            TimeoutError: the time is up.
            EnvironmentFault: `NO_DAEMON`: there was none, or it has been away for long.
        """
        if at >= self.end:
            raise TimeoutError("the job is not final yet")
        if self.seen < 0 or at - self.seen > PATIENCE_S:
            from codeflash_parallel.evalqueue.link import no_daemon

            raise no_daemon(folder)
        return min(RETRY_S, self.end - at)
