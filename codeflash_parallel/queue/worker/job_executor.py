"""Executes jobs with an evaluator that stays open for the next job."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from codeflash_parallel.config.environment_allowlist import uncovered
from codeflash_parallel.config.settings import Settings, settings_of
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.queue.errors import VariablesNotPassed
from codeflash_parallel.queue.job_builder import JobPayload, task_of
from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.queue.snapshot_store import mirror_of
from codeflash_parallel.result.events import CandidateFinished, Event, PhaseStarted
from codeflash_parallel.result.result_document import document
from codeflash_parallel.run.evaluator import Evaluator
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.run_state import RaceMode

_MODES: Final = {
    JobKind.EVALUATE: RaceMode.RACE,
    JobKind.CHECK: RaceMode.CHECK,
    JobKind.RACE: RaceMode.TIME,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """A job as the daemon gives it to a worker.

    Attributes:
        payload: see `queue.job_builder.JobPayload`.
        slots: how many candidates it may evaluate at once.
        sharers: how many workers share the machine's memory.
    """

    job_id: str
    fence: int
    kind: JobKind
    payload: str
    slots: int
    sharers: int

    @property
    def claim(self) -> str:
        """Id of this attempt: a job may come back to the same worker."""
        return f"{self.job_id} {self.fence}"


class JobExecutor:
    """Executes jobs one after the other, in one task.

    Args:
        folder: of the queue; it holds the snapshots of jobs.
        cache: the daemon's cache.
        quiet: lock of this host.
        tell: receives progress messages, one clause each.
        pass_env: names and patterns of our variables that jobs may ask for.
    """

    def __init__(
        self,
        folder: Path,
        cache: Path,
        quiet: HostLock,
        tell: Callable[[str], None],
        pass_env: Sequence[str] = (),
    ) -> None:
        self._folder, self._cache = folder, cache
        self._quiet, self._tell, self._pass_env = quiet, tell, pass_env
        self._stack = AsyncExitStack()
        self._evaluator: Evaluator | None = None
        self._open_for: tuple[str, Settings] | None = None

    async def close(self) -> None:
        """Close the evaluator if one is open: its processes end and its slots are removed."""
        self._evaluator = None
        await self._stack.aclose()

    async def prepare(self, assignment: Assignment) -> Callable[[], Awaitable[dict[str, Any]]]:
        """Open an evaluator for a job, unless the open one has its repository and settings.

        The evaluator outlives the job, so this is to be called outside of the job's cancel scope.

        Returns:
            Executes the job and returns its result; raises as `prepare`.

        Raises:
            UsageError: the job asks for something impossible.
            EnvironmentFault: a fault of the project or the machine.
        """
        task = task_of(assignment.payload)
        settings = self._settings(task, assignment)
        wanted = (task.repository, settings)
        if self._evaluator is None or self._open_for != wanted:
            await self.close()
            self._tell("opens the repository")
            evaluator = Evaluator(task.repository, settings, self._quiet, assignment.sharers)
            self._evaluator = await self._stack.enter_async_context(evaluator)
            self._open_for = wanted
        self._evaluator.pin(task.stored.snapshot, mirror_of(self._folder, task.stored.place))
        return partial(self._perform, assignment.kind, self._evaluator, task, settings)

    def _settings(self, task: JobPayload, assignment: Assignment) -> Settings:
        """Return the settings of a job; the daemon decides on folders and slots.

        Raises:
            VariablesNotPassed: the job was submitted while no daemon ran, or one with another `pass_env`.
        """
        settings = settings_of(task.settings, cache_dir=str(self._cache))
        if missing := uncovered(settings.pass_env, self._pass_env):
            raise VariablesNotPassed(names=", ".join(missing))
        wanted = settings.parallel_candidates
        slots = assignment.slots if wanted == "auto" else min(wanted, assignment.slots)
        settings = replace(settings, parallel_candidates=slots)
        if assignment.kind is JobKind.RACE:
            return replace(settings, repair_command="", refine_command="")
        return settings

    async def _perform(
        self, kind: JobKind, evaluator: Evaluator, task: JobPayload, settings: Settings
    ) -> dict[str, Any]:
        self._quiet.take_intervals()  # those of a job that was broken off
        began_s = time.monotonic()
        if kind is JobKind.COMMAND:
            self._tell("runs the command")
            done = {"scores": await evaluator.grade(task.candidates[0], task.command)}
        else:
            repair, refine = settings.repair_command, settings.refine_command
            providers = Providers.of(repair, refine, deadline_s=settings.provider_timeout, cwd=task.cwd)
            result = await evaluator.evaluate(
                task.candidates,
                repairer=providers.repairer,
                refiner=providers.refiner,
                observers=(self._observe,),
                race=_MODES[kind],
            )
            done = {"document": document(result)}
        intervals = self._quiet.take_intervals()
        return _result(
            **done,
            intervals={"checks": intervals.shared, "timed": intervals.exclusive},
            wall_s=time.monotonic() - began_s,
        )

    def _observe(self, event: Event) -> None:
        match event:
            case PhaseStarted(phase=phase):
                self._tell(phase)
            case CandidateFinished(candidate=candidate, result=result):
                self._tell(f"{candidate}: {result.status.value}")


def error_result(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a job that ended with an error."""
    return _result(error=dict(error))


def _result(**known: object) -> dict[str, Any]:
    nothing = {"document": None, "scores": None, "error": None, "intervals": {"checks": (), "timed": ()}}
    return {**nothing, "worker": os.getpid(), "wall_s": 0.0, **known}
