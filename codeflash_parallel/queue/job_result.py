"""The result of a job as its submitter gets it, and the repetition of a failed one. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from codeflash_parallel.queue.jobs import Instant, Job, JobRequest, JobState, Receipt
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

#: States that end a job.
FINAL: Final = frozenset(JobState) - {JobState.QUEUED, JobState.RUNNING}

#: Final states without a result → code, what happened, what to do.
_WITHOUT_RESULT: Mapping[JobState, tuple[str, str, str]] = {
    JobState.CANCELLED: ("JOB_CANCELLED", "was cancelled", "Submit it again if it is still wanted."),
    JobState.EXPIRED: ("JOB_EXPIRED", "waited for longer than a job may", "Submit it again."),
    JobState.DROPPED: ("JOB_DROPPED", "made room for a newer one in a full queue", "Submit it again."),
    JobState.DEAD: ("JOB_DEAD", "failed on all its attempts", "`queue retry` sends it back to the queue."),
}


class JobEnded(EnvironmentFault):
    """A job ended without a result.

    Args:
        job: as it is now.

    Attributes:
        job_id, state: of the job.
        fault: its last fault; empty if it had none.
        last_output: end of the output of its last failed attempt.
    """

    def __init__(self, job: Job) -> None:
        code, what, hint = _WITHOUT_RESULT[job.state]
        why = f" ({job.fault})" if job.fault else ""
        super().__init__(code, f"Job {job.job_id} {what}{why}.", hint)
        self.job_id = job.job_id
        self.state = job.state
        self.fault = job.fault
        self.last_output = job.last_output


def result_of(job: Job) -> dict[str, Any]:
    """Return the result of a job that is final.

    Returns:
        What its worker wrote: `document`, `scores`, `error`, `intervals`, `cpu_s` and `worker`.

    Raises:
        CodeflashParallelError: the error that its evaluation ended with.
        JobEnded: it has no result.
    """
    if job.state is not JobState.DONE:
        raise JobEnded(job)
    result: dict[str, Any] = json.loads(job.result)
    error = error_in(job)
    if error is not None:
        raise error
    return result


def error_in(job: Job) -> CodeflashParallelError | None:
    """Return the error that is a job's result, `None` for a verdict."""
    data = json.loads(job.result).get("error") if job.result else None
    if not data:
        return None
    from codeflash_parallel.queue.daemon_protocol import error_of  # most have none, and it loads all calls

    return error_of(data)


def submit_anew(
    submit: Callable[[JobRequest, Instant], Receipt], request: JobRequest, now: Instant
) -> Receipt:
    """Submit a job; if an equal job ended with an error, submit it again under a new key.

    A verdict holds for its key, an error does not: a missing package may have been installed since. The new
    key follows from the last job, so that clients that submit it at the same time share one job.

    Args:
        submit: takes a job, or returns the one with its key.

    Raises:
        Refused: the queue does not take it.
    """
    receipt = submit(request, now)
    while not receipt.is_new and receipt.job.state is JobState.DONE and error_in(receipt.job) is not None:
        key = digest_of(f"{receipt.job.key} {receipt.job.job_id}".encode())
        receipt = submit(replace(request, key=key), now)
    return receipt
