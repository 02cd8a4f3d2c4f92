"""The queue for asynchronous code, under asyncio and trio: its client, and whole evaluations by a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Sequence
from functools import partial, wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import anyio

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_reader import queue_folder
from codeflash_parallel.queue.daemon_protocol import DaemonInfo
from codeflash_parallel.queue.job_builder import job_request
from codeflash_parallel.queue.jobs import (
    Job,
    JobKind,
    JobRequest,
    Receipt,
    result_of,
)
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.sync_client import EvalQueueClient
from codeflash_parallel.repair.command_providers import CommandProvider
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.events import CandidateFinished, Observer, RunFinished
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.run_folder import stored_result

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

    Waiting can be cancelled; the job continues. The methods are those of `EvalQueueClient`; `submit` returns
    a receipt, and `result` waits for its job.

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

    async def submit(self, request: JobRequest) -> Receipt:
        """Submit a job and return the queue's answer; see `EvalQueueClient.submit`."""
        return (await self._submit(request)).receipt

    _submit = _awaitable(EvalQueueClient.submit)
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


#: Race mode of a run → kind of job.
_KINDS = {"race": JobKind.EVALUATE, "time": JobKind.RACE, "check": JobKind.CHECK}

#: Where candidates come from.
Source = AsyncIterable[Submission] | Iterable[Submission]


async def evaluate_queued(
    mode: str,
    project: Path,
    settings: Settings,
    source: Source,
    providers: Providers,
    observers: Sequence[Observer],
) -> RunResult:
    """Submit candidates, wait, and return the result.

    Args:
        mode: how far the run goes, `evaluator.RaceMode`.
        source: read to its end first.
        providers: commands that the settings name; a daemon cannot call others.
        observers: receive the results and the end of the run only.

    Raises:
        UsageError: `QUEUE_NEEDS_COMMAND`.
        Refused: the queue does not take the job.
        EnvironmentFault: `NO_DAEMON`, or whatever the evaluation ended with. Cancelling cancels the job if it
            is our own.
    """
    _must_be_command(providers.repairer, settings.repair_command, "repair_command")
    _must_be_command(providers.refiner, settings.refine_command, "refine_command")
    there = await _collected(source)
    request = await anyio.to_thread.run_sync(partial(job_request, _KINDS[mode], project, there, settings))
    done = await _done(request, settings)
    result = stored_result(done["document"])
    _announce(result, observers)
    return result


async def grade_queued(
    project: Path, settings: Settings, candidate: Submission, command: Sequence[str]
) -> dict[str, Any]:
    """Submit a candidate for a grader, wait, and return the scores.

    Raises:
        Refused, UsageError, EnvironmentFault: as `evaluate_queued`, or `run.evaluator.grade`.
    """
    made = partial(job_request, JobKind.COMMAND, project, [candidate], settings, command=command)
    done = await _done(await anyio.to_thread.run_sync(made), settings)
    scores: dict[str, Any] = done["scores"]
    return scores


async def _done(request: JobRequest, settings: Settings) -> dict[str, Any]:
    """Submit a job and return its result; cancelling cancels the job if it is our own."""
    async with AsyncEvalQueueClient(queue_folder(settings)) as client:
        receipt = await client.submit(request)
        try:
            return await client.result(receipt.job.job_id)
        except anyio.get_cancelled_exc_class():
            if receipt.is_new:  # else another client waits for it too
                with anyio.CancelScope(shield=True):
                    await client.cancel(receipt.job.job_id)
            raise


async def _collected(source: Source) -> list[Submission]:
    if isinstance(source, AsyncIterable):
        return [candidate async for candidate in source]
    return list(source)


def _must_be_command(given: object, command: str, name: str) -> None:
    """Refuse a provider that is not made from a setting: workers make theirs from settings."""
    if given is None or (isinstance(given, CommandProvider) and command):
        return
    raise UsageError(
        "QUEUE_NEEDS_COMMAND",
        "A daemon cannot call a provider of this process.",
        f"Give it as the setting {name}.",
    )


def _announce(result: RunResult, observers: Sequence[Observer]) -> None:
    for observer in observers:
        for candidate in result.candidates:
            observer(CandidateFinished(run_id=result.run_id, candidate=candidate.id, result=candidate))
        observer(RunFinished(run_id=result.run_id, result=result))
