"""Evaluation by the daemon of the queue: the same call and result as a local one."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.user_context import queue_folder
from codeflash_parallel.queue.async_client import AsyncEvalQueueClient
from codeflash_parallel.queue.job_builder import job_request
from codeflash_parallel.queue.jobs import JobKind, JobRequest
from codeflash_parallel.repair.command_providers import CommandProvider
from codeflash_parallel.result.candidate_model import Submission
from codeflash_parallel.result.errors import UsageError
from codeflash_parallel.result.events import CandidateFinished, Observer, RunFinished
from codeflash_parallel.result.result_model import RunResult
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.run_folder import stored_result

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
        future = await client.submit(request)
        try:
            return await future
        except anyio.get_cancelled_exc_class():
            if future.receipt.is_new:  # else another client waits for it too
                with anyio.CancelScope(shield=True):
                    await future.cancel()
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
