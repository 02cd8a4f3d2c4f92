"""Jobs that will have a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codeflash_parallel.queue.jobs import JobId, JobState, Receipt
from codeflash_parallel.queue.protocol.job_result import FINAL, result_of
from codeflash_parallel.result.errors import CodeflashParallelError

if TYPE_CHECKING:
    from codeflash_parallel.queue.client.sync_client import EvalQueueClient
    from codeflash_parallel.queue.protocol.messages import JobStatus


class JobFuture:
    """A job that will have a result, in the manner of `concurrent.futures.Future`.

    Attributes:
        receipt: what the queue answered when it was submitted.
    """

    def __init__(self, *, client: EvalQueueClient, receipt: Receipt) -> None:
        self.client = client
        self.receipt = receipt

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
