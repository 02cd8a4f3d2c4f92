"""Executes jobs with an evaluator that stays open for the next job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, assert_never

import anyio
from anyio.abc import TaskStatus

from codeflash_parallel.config.environment_allowlist import uncovered
from codeflash_parallel.config.settings import Settings
from codeflash_parallel.config.settings_json import settings_of
from codeflash_parallel.process.host_lock import HostLock
from codeflash_parallel.queue.errors import VariablesNotPassed
from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.queue.submission.job_builder import JobPayload, stamp, task_of
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError, ungrouped
from codeflash_parallel.result.events import CandidateFinished, Event, PhaseStarted, StepChanged
from codeflash_parallel.result.result_document import document
from codeflash_parallel.run.evaluator import Evaluator
from codeflash_parallel.run.providers import Providers
from codeflash_parallel.run.run_state import RaceMode
from codeflash_parallel.workspace.git.repository import find_repository

#: Receives progress messages: one clause each.
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Assignment:
    """A job as the daemon gives it to a worker.

    Attributes:
        payload: see `queue.submission.job_builder.JobPayload`.
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
    """Executes jobs one after the other; an async context manager.

    Args:
        cache: the daemon's cache.
        quiet: lock of this host.
        tell: receives progress messages for the daemon.
        pass_env: names and patterns of our variables that jobs may ask for.
    """

    def __init__(self, cache: Path, quiet: HostLock, tell: Tell, pass_env: Sequence[str] = ()) -> None:
        self._sharers = 1
        self._cache, self._quiet, self._tell = cache, quiet, tell
        self._pass_env = pass_env
        self._keeping = anyio.create_task_group()
        self._kept: _Kept | None = None
        self._step: StepChanged | None = None

    async def __aenter__(self) -> Self:
        await self._keeping.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        finally:
            await self._keeping.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Close the evaluator if one is open: its processes end and its slots are removed."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.wanted_no_more.set()
            with anyio.CancelScope(shield=True):
                await kept.closed.wait()

    async def perform(self, assignment: Assignment) -> dict[str, Any]:
        """Execute a job and return its result.

        Raises:
            UsageError: the job asks for something impossible.
            EnvironmentFault: a fault of the project or the machine.
        """
        self._sharers = assignment.sharers
        self._quiet.take_intervals()  # those of a job that was broken off
        began_s = time.monotonic()
        task = task_of(assignment.payload)
        settings = self._settings(task, assignment)
        await self._verify(task, settings)
        done = await self._dispatch(assignment.kind, task, settings)
        intervals = self._quiet.take_intervals()
        return _result(
            **done,
            intervals={"checks": intervals.shared, "timed": intervals.exclusive},
            wall_s=time.monotonic() - began_s,
        )

    def _settings(self, task: JobPayload, assignment: Assignment) -> Settings:
        """Return the settings of a job; the daemon decides on folders and slots.

        Raises:
            VariablesNotPassed: the job was submitted while no daemon ran, or one with another `pass_env`.
        """
        settings = settings_of(task.settings, cache_dir=str(self._cache))
        if missing := uncovered(settings.pass_env, self._pass_env):
            raise VariablesNotPassed(missing)
        wanted = settings.parallel_candidates
        slots = assignment.slots if wanted == "auto" else min(wanted, assignment.slots)
        settings = replace(settings, parallel_candidates=slots)
        if assignment.kind is JobKind.RACE:
            return replace(settings, repair_command="", refine_command="")
        return settings

    async def _dispatch(self, kind: JobKind, task: JobPayload, settings: Settings) -> dict[str, Any]:
        match kind:
            case JobKind.EVALUATE:
                return {"document": await self._evaluated(task, settings, RaceMode.RACE)}
            case JobKind.CHECK:
                return {"document": await self._evaluated(task, settings, RaceMode.CHECK)}
            case JobKind.RACE:
                return {"document": await self._evaluated(task, settings, RaceMode.TIME)}
            case JobKind.COMMAND:
                return {"scores": await self._graded(task, settings)}
            case _:
                assert_never(kind)

    # --- evaluations -----------------------------------------------------------------------------------

    async def _evaluated(self, task: JobPayload, settings: Settings, mode: RaceMode) -> dict[str, Any]:
        evaluator = await self._evaluator_for(task, settings)
        repair, refine = settings.repair_command, settings.refine_command
        providers = Providers.of(repair, refine, deadline_s=settings.provider_timeout, cwd=task.cwd)
        changed = anyio.Event()

        async def verify() -> None:
            """Break the job off if the snapshot is of another tree than the submitted one."""
            try:
                await self._verify(task, settings)
            except (UsageError, EnvironmentFault):
                changed.set()
                evaluator.interrupt(_CHANGED)

        try:
            with ungrouped():
                async with anyio.create_task_group() as group:

                    def observe(event: Event) -> None:
                        self._observe(event)
                        if isinstance(event, PhaseStarted) and event.phase == "baseline":
                            group.start_soon(verify)

                    result = await evaluator.evaluate(
                        task.candidates,
                        repairer=providers.repairer,
                        refiner=providers.refiner,
                        observers=(observe,),
                        race=mode,
                    )
        except CodeflashParallelError as error:
            if not changed.is_set():
                raise
            raise _tree_has_changed(task) from error
        if changed.is_set():
            raise _tree_has_changed(task)
        return document(result)

    def _observe(self, event: Event) -> None:
        match event:
            case PhaseStarted(phase=phase):
                self._tell(phase)
            case CandidateFinished(candidate=candidate, result=result):
                self._tell(f"{candidate}: {result.status.value}")
            case StepChanged() if event == self._step:
                pass  # a repeated step is no progress
            case StepChanged():
                self._step = event
                self._tell("")
            case _:
                self._tell("")

    async def _evaluator_for(self, task: JobPayload, settings: Settings) -> Evaluator:
        """Return the open evaluator if repository and settings are the same, else a new one."""
        if self._kept is None or self._kept.open_for != (task.repository, settings):
            await self.close()
            self._tell("opens the repository")
            evaluator = Evaluator(task.repository, settings, self._quiet, self._sharers)
            kept = _Kept(evaluator=evaluator, open_for=(task.repository, settings))
            await self._keeping.start(kept.keep)
            self._kept = kept
        return self._kept.evaluator

    async def _graded(self, task: JobPayload, settings: Settings) -> dict[str, Any]:
        evaluator = await self._evaluator_for(task, settings)
        self._tell("runs the command")
        scores = await evaluator.grade(task.candidates[0], task.command)
        await self._verify(task, settings)
        return scores

    async def _verify(self, task: JobPayload, settings: Settings) -> None:
        """Verify that the tree is the one that was submitted.

        Raises:
            UsageError: `SNAPSHOT_CHANGED`.
        """

        def now() -> str:
            return stamp(find_repository(Path(task.repository)), settings)

        if await anyio.to_thread.run_sync(now) != task.tree:
            raise _tree_has_changed(task)


@dataclass(kw_only=True, slots=True)
class _Kept:
    """An open evaluator in a task of its own: it outlives the cancel scopes of jobs."""

    evaluator: Evaluator
    open_for: tuple[str, Settings]
    wanted_no_more: anyio.Event = field(default_factory=anyio.Event)
    closed: anyio.Event = field(default_factory=anyio.Event)

    async def keep(self, *, task_status: TaskStatus[None]) -> None:
        """Keep it open until `wanted_no_more` is set."""
        try:
            async with self.evaluator:
                task_status.started()
                await self.wanted_no_more.wait()
        finally:
            self.closed.set()


_CHANGED = "SNAPSHOT_CHANGED"


def _tree_has_changed(task: JobPayload) -> UsageError:
    return UsageError(
        _CHANGED, f"The tree of {task.repository} is not the one that was submitted.", "Submit it again."
    )


def error_result(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a job that ended with an error."""
    return _result(error=dict(error))


def _result(**known: object) -> dict[str, Any]:
    nothing = {"document": None, "scores": None, "error": None, "intervals": {"checks": (), "timed": ()}}
    return {**nothing, "worker": os.getpid(), "wall_s": 0.0, **known}
