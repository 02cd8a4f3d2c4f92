"""The library: `evaluate` for one call, `Evaluator` for many on one preflight, and the user's own grader."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from codeflash_parallel.config.settings import FREE, Executor, Settings, changed_settings, settings_of
from codeflash_parallel.config.settings_reader import cache_root
from codeflash_parallel.process.host_lock import HostLock, host_quiet
from codeflash_parallel.repair.provider_protocol import Refiner, Repairer
from codeflash_parallel.result.candidate_model import Submission, Unappliable
from codeflash_parallel.result.errors import UsageError, ungrouped
from codeflash_parallel.result.events import CandidateFinished, Event, Observer
from codeflash_parallel.result.outcome_codes import ExitKind
from codeflash_parallel.result.result_model import CandidateResult, RunResult
from codeflash_parallel.result.runtime_protocols import ProcessExit, ProcessLimits
from codeflash_parallel.run.kept_evaluators import library_thread
from codeflash_parallel.run.pipeline import Run, new_run_id
from codeflash_parallel.run.provider_requests import Providers
from codeflash_parallel.run.remote_hosts import Cluster
from codeflash_parallel.run.run_state import RaceMode, RunState, begun_run, read_state, resumed_run
from codeflash_parallel.run.run_targets import targets_of
from codeflash_parallel.run.setup.evaluator_resources import EvaluatorResources
from codeflash_parallel.run.setup.surroundings import Surroundings, surroundings_of
from codeflash_parallel.sandbox.runner_command import parse_records, start_command
from codeflash_parallel.workspace.cache_layout import disk_faults
from codeflash_parallel.workspace.git.git_client import find_repository
from codeflash_parallel.workspace.snapshot.candidate_builder import materialise
from codeflash_parallel.workspace.snapshot.snapshot import Snapshot

_State = TypeVar("_State")
Candidates = Iterable[Submission] | AsyncIterable[Submission]


class Evaluator:
    """Evaluates candidates of one repository; many calls share launcher, mirror, slots and preflight.

    An async context manager for asyncio and trio. Leaving it kills what runs and removes the slots.
    Calls of `evaluate` on one evaluator take turns.

    Args:
        repository: a path inside the user's repository; it is only read.
        settings: of every call.
        quiet: keeps what is timed apart from the checks of other processes that share it; by default that of
            the host, `process.host_lock.host_quiet`.
        sharers: how many evaluators share the machine's memory.
        once: `evaluate` is called once: few candidates are then checked without warm servers.

    Attributes:
        was_interrupted: `interrupt` has ended an evaluation of it.

    Raises:
        UsageError: on entering: not a repository, a bad interpreter, no locks for quiet.
        EnvironmentFault: on entering or evaluating: an unfit machine, a red baseline.
    """

    def __init__(
        self,
        repository: Path | str = ".",
        settings: Settings | None = None,
        quiet: HostLock | None = None,
        sharers: int = 1,
        *,
        once: bool = False,
    ) -> None:
        self._path = Path(repository)
        self._settings = settings or Settings()
        self._quiet = quiet
        self._sharers, self._once = sharers, once
        self._stack = AsyncExitStack()
        self._turn = anyio.Lock()
        self._resources: EvaluatorResources | None = None
        self._cluster: Cluster | None = None
        self._run: Run | None = None
        self.was_interrupted = False

    async def __aenter__(self) -> Self:
        if not self._is_queued:
            quiet = self._quiet or host_quiet(os.environ, self._wait)
            opened = EvaluatorResources.open(
                self._path, self._settings, quiet, self._sharers, once=self._once
            )
            if Executor(self._settings.executor).is_cluster:
                from codeflash_parallel.hosts.cluster.host_cluster import open_cluster

                self._cluster = await self._stack.enter_async_context(open_cluster(self._settings))
            with disk_faults(cache_root(self._settings)):
                self._resources = await self._stack.enter_async_context(opened)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources = self._cluster = None
        await self._stack.__aexit__(kind, error, trace)

    async def evaluate(
        self,
        candidates: Candidates,
        *,
        repairer: Repairer | None = None,
        refiner: Refiner | None = None,
        observers: Sequence[Observer] = (),
        race: RaceMode = RaceMode.RACE,
    ) -> RunResult:
        """Evaluate candidates and return the result.

        Args:
            candidates: a list, or a plain or async iterator that may still be producing.
            repairer: called on threads of an executor; see `repair.provider_protocol`.
            refiner: likewise.
            observers: receive every event on the event loop's thread.
            race: whether equivalent candidates are raced.

        Raises:
            UsageError, EnvironmentFault: the run could not be made. Cancelling kills what runs.
        """
        if self._is_queued:
            from codeflash_parallel.queue.async_client import evaluate_queued

            providers = Providers(repairer=repairer, refiner=refiner)
            return await evaluate_queued(
                race.value, self._path, self._settings, candidates, providers, observers
            )
        resources, providers, run_id = self._open, Providers(repairer=repairer, refiner=refiner), new_run_id()
        async with self._turn:
            with self._stored(begun_run(resources.setup.run_dir(run_id))):
                run = Run(
                    resources=resources,
                    run_id=run_id,
                    providers=providers,
                    observers=observers,
                    mode=race,
                    cluster=self._cluster,
                )
                return await self._made(run, candidates)

    @property
    def _is_queued(self) -> bool:
        return self._settings.executor == Executor.QUEUE

    async def resume(
        self,
        run_id: str,
        *,
        repairer: Repairer | None = None,
        refiner: Refiner | None = None,
        observers: Sequence[Observer] = (),
    ) -> RunResult:
        """Resume a run that was killed, interrupted or cut short by its wall budget; return its result.

        What is finished is not done again: verdicts, answers of providers and races are taken from the run's
        step cache. The snapshot is that of the run, even when the tree has changed since.

        Args:
            run_id: the whole id. The evaluator has the settings of the run (`stored_run`); only what
                changes no verdict may differ.
            repairer: as in `evaluate`; commands that the run had are found again.
            refiner: likewise.
            observers: as in `evaluate`.

        Raises:
            UsageError: `RUN_ALIVE`, `RUN_FINISHED`, `NO_JOURNAL`, `OTHER_SETTINGS`, or (with `executor`
                `queue`) `QUEUE_CANNOT_RESUME`: a daemon begins anew what it has to do again.
            EnvironmentFault: `BAD_JOURNAL`, `NEWER_JOURNAL` or `SNAPSHOT_GONE`; or as in `evaluate`.

        .. versionadded:: 0.1.0
        """
        if self._is_queued:
            hint = 'Continue it in this process: executor = "local".'
            raise UsageError("QUEUE_CANNOT_RESUME", "The daemon cannot continue a run.", hint)
        resources, given = self._open, Providers(repairer=repairer, refiner=refiner)
        async with self._turn:
            with self._stored(resumed_run(resources.setup.run_dir(run_id), self._must_fit)) as state:
                providers = given.resumed(state.request, self._settings.provider_timeout)
                run = Run(
                    resources=resources,
                    run_id=run_id,
                    providers=providers,
                    observers=observers,
                    mode=state.request.mode,
                    notes=(*_notes_on(state), *providers.missing(state.request)),
                    cluster=self._cluster,
                )
                return await self._made(run, state.submissions)

    async def grade(self, candidate: Submission, command: Sequence[str]) -> dict[str, Any]:
        """Return the JSON object that a command of the caller's prints in a slot that holds a candidate.

        Raises:
            UsageError, EnvironmentFault: see `grade`. Cancelling kills the command.

        .. versionadded:: 0.1.0
        """
        if self._is_queued:
            from codeflash_parallel.queue.async_client import grade_queued

            return await grade_queued(self._path, self._settings, candidate, command)
        resources = self._open
        async with self._turn:
            with ungrouped(), disk_faults(resources.setup.cache):
                return await grade(resources, candidate, command, new_run_id())

    def pin(self, snapshot: Snapshot, source: Path) -> None:
        """Let the next evaluations be of a snapshot that was taken earlier, instead of the tree as it is.

        Args:
            source: git directory of the mirror that holds it.
        """
        self._open.pinned = (snapshot, source)

    def _wait(self, why: str) -> None:
        if self._run is not None:
            self._run.wait(why)

    def _must_fit(self, state: RunState) -> None:
        """Refuse to resume a run under settings that may lead to other verdicts."""
        differing = changed_settings(state.request.settings, self._settings)
        if differing:
            message = f"Run {state.request.run_id} has other settings: {', '.join(differing)}."
            raise UsageError("OTHER_SETTINGS", message, "Take those of the run: `stored_run`.")

    @property
    def _open(self) -> EvaluatorResources:
        if self._resources is None:
            raise UsageError(
                "NOT_OPEN", "The evaluator is not open.", "Use it as `async with Evaluator(…) as e:`."
            )
        return self._resources

    @contextmanager
    def _stored(self, opened: AbstractContextManager[_State]) -> Iterator[_State]:
        """Hold a run's folder; faults are noted in it and raised as single errors."""
        cache = self._open.setup.cache
        with disk_faults(cache), opened as state, ungrouped(), disk_faults(cache):
            yield state

    async def _made(self, run: Run, candidates: Candidates) -> RunResult:
        self._run = run
        try:
            return await run.evaluate(candidates)
        finally:
            self._run = None

    @asynccontextmanager
    async def stream(
        self,
        candidates: Candidates,
        *,
        repairer: Repairer | None = None,
        refiner: Refiner | None = None,
        race: RaceMode = RaceMode.RACE,
    ) -> AsyncIterator[ResultStream]:
        """Evaluate in the background and iterate over results as they come; leaving the block cancels."""
        send, receive = anyio.create_memory_object_stream[CandidateResult](float("inf"))
        results = ResultStream(receive)

        def observe(event: Event) -> None:
            if isinstance(event, CandidateFinished):
                send.send_nowait(event.result)

        async def evaluate() -> None:
            with send:
                results.run = await self.evaluate(
                    candidates, repairer=repairer, refiner=refiner, observers=(observe,), race=race
                )

        with receive:
            async with anyio.create_task_group() as group:
                group.start_soon(evaluate)
                yield results
                group.cancel_scope.cancel()

    def interrupt(self, code: str) -> None:
        """End the running evaluation: kill what runs; its result is incomplete, with what is finished.

        Args:
            code: why, e.g. ``"SIGINT"``; it becomes the result's error code.
        """
        if self._run is not None:
            self.was_interrupted = True
            self._run.interrupt(code)

    def surroundings(self) -> Surroundings:
        """Return the surroundings as they are now; blocks."""
        return surroundings_of(self._open.setup, os.environ)

    @property
    def memory_bytes(self) -> int:
        """Resident memory of its processes; none when it is not open."""
        return self._resources.setup.launcher.memory_bytes if self._resources else 0


def _notes_on(state: RunState) -> Iterator[str]:
    """Yield warnings of a run that is resumed, one sentence each."""
    if not state.is_complete:
        yield "The source of candidates had not ended; those that it had not given are not part of the run."
    yield f"The run goes on: {state.progress} when it ended."


def evaluate(
    candidates: Candidates,
    repository: Path | str = ".",
    settings: Settings | None = None,
    *,
    repairer: Repairer | None = None,
    refiner: Refiner | None = None,
    observers: Sequence[Observer] = (),
    race: RaceMode = RaceMode.RACE,
    backend: str = "asyncio",
) -> RunResult:
    """Evaluate candidates from synchronous code: `Evaluator` under an event loop of its own.

    With the setting `keep_warm`, evaluator and event loop are kept in a thread of this process for the next
    call with the same settings, for 10 minutes.

    Args:
        candidates: a list, or a plain or async iterator that may still be producing.
        repository: a path inside the user's repository; it is only read.
        settings: of the run; defaults where none are given.
        repairer: called on a thread with one `RepairRequest`; returns `Answer`s or `None`.
        refiner: called on a thread with all `RefinementRequest`s that are ready; returns likewise.
        observers: receive every event on the event loop's thread.
        race: whether equivalent candidates are raced.
        backend: event loop, `asyncio` or `trio`.

    Returns:
        The result. Whatever a candidate does is a value in it.

    Raises:
        UsageError, EnvironmentFault: the run could not be made.
    """

    async def main(opened: AbstractAsyncContextManager[Evaluator]) -> RunResult:
        async with opened as evaluator:
            return await evaluator.evaluate(
                candidates, repairer=repairer, refiner=refiner, observers=observers, race=race
            )

    if settings is None or not settings.keep_warm or settings.executor == Executor.QUEUE:
        return anyio.run(main, Evaluator(repository, settings, once=True), backend=backend)
    thread = library_thread(Evaluator, backend)
    return thread.run(lambda: main(thread.lend(Path(repository), settings)))


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredRun:
    """A run that can be resumed.

    Attributes:
        project: folder in the user's repository that it was begun for.
        settings: of the run, with the cache that holds it.
    """

    run_id: str
    project: Path
    settings: Settings


def stored_run(
    run_id: str, repository: Path | str = ".", *, cache_dir: str = "", **changed: object
) -> StoredRun:
    """Return what a run was asked for, for an `Evaluator` with its settings that resumes it.

    Args:
        run_id: the whole id.
        repository: a path inside the user's repository.
        cache_dir: where the run is kept; empty: the user's cache directory.
        changed: settings with other values than those of the run; only those that change no verdict.

    Raises:
        UsageError: not a repository, no such run, or `OTHER_SETTINGS`.
        EnvironmentFault: its files cannot be read.
    """
    other = sorted(changed.keys() - set(FREE))
    if other:
        raise UsageError("OTHER_SETTINGS", f"A run that goes on keeps its {', '.join(other)}.")
    cache, found = cache_root(Settings(cache_dir=cache_dir)), find_repository(Path(repository))
    run_dir = cache / found.key / "runs" / run_id
    if not run_id or not run_dir.is_dir():
        raise UsageError("NO_SUCH_RUN", f"There is no run {run_id!r} of this repository.", "See `list`.")
    request = read_state(run_dir).request
    settings = settings_of(request.settings, **{**changed, "cache_dir": str(cache)})
    return StoredRun(run_id=run_id, project=found.root / request.project, settings=settings)


def resume(
    run_id: str,
    repository: Path | str = ".",
    *,
    cache_dir: str = "",
    repairer: Repairer | None = None,
    refiner: Refiner | None = None,
    observers: Sequence[Observer] = (),
    backend: str = "asyncio",
) -> RunResult:
    """Resume a run from synchronous code: `Evaluator.resume` under an event loop of its own.

    Args:
        run_id: as in `stored_run`.
        repository: as in `stored_run`.
        cache_dir: as in `stored_run`.
        repairer: as in `evaluate`; commands that the run had are found again.
        refiner: likewise.
        observers: as in `evaluate`.
        backend: event loop, `asyncio` or `trio`.

    Raises:
        UsageError, EnvironmentFault: it cannot be resumed; see `Evaluator.resume`.

    .. versionadded:: 0.1.0
    """
    stored = stored_run(run_id, repository, cache_dir=cache_dir)

    async def main() -> RunResult:
        async with Evaluator(stored.project, stored.settings, once=True) as evaluator:
            return await evaluator.resume(run_id, repairer=repairer, refiner=refiner, observers=observers)

    return anyio.run(main, backend=backend)


@dataclass(slots=True)
class ResultStream:
    """Results as they come; `run` is the whole once the stream is exhausted."""

    _results: MemoryObjectReceiveStream[CandidateResult]
    run: RunResult | None = None

    def __aiter__(self) -> AsyncIterator[CandidateResult]:
        return self

    async def __anext__(self) -> CandidateResult:
        try:
            return await self._results.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


#: How much of what a failing command said is told.
_SAID_CHARS = 2000
#: Longest time of a command where the settings name no wall budget.
_WALL_S = 3600.0


async def grade(
    resources: EvaluatorResources, submission: Submission, command: Sequence[str], run_id: str
) -> dict[str, Any]:
    """Return the JSON object that a command prints in a slot that holds a candidate.

    The command is run in the project's folder, `python` is the project's interpreter, and it may do what
    tests may do. It ends with status 0 and prints one JSON object, and nothing else, to its standard output.

    Args:
        resources: of the repository.
        run_id: names the slots' owner.

    Raises:
        UsageError: `DOES_NOT_APPLY`, `COMMAND_FAILED`, or `BAD_SCORES`.
        EnvironmentFault: the machine, or the snapshot. Cancelling kills the command.
    """
    setup = resources.setup
    limits = ProcessLimits(
        wall_s=setup.settings.wall_budget or _WALL_S,
        memory_bytes=setup.shares.memory_bytes,
        output_bytes=1 << 20,
    )
    async with setup.quiet.shared():
        snapshot = await resources.snapshot()
        pool = await resources.pool(snapshot, run_id)
        targets = await targets_of(setup.mirror, snapshot, setup.settings.functions, [submission])
        made = await materialise(setup.mirror, snapshot, submission, targets, interpreter=setup.interpreter)
        if isinstance(made, Unappliable):
            raise UsageError(made.code, made.reason)
        async with pool.acquire() as slot:
            await slot.stage(made.edits)
            spec = {"mode": "command", "command": list(command)}
            done = await setup.launcher.run(start_command(slot.workspace, spec, limits, setup.runner_dir))
    return scores_of(done, command)


def scores_of(done: ProcessExit, command: Sequence[str]) -> dict[str, Any]:
    """Return what a command printed.

    Raises:
        UsageError: `COMMAND_FAILED` or `BAD_SCORES`, with what it said.
        EnvironmentFault: `NO_MEMORY`: it was killed for want of it.
    """
    name = " ".join(command)[:_SAID_CHARS]
    said = (done.stderr or done.stdout or done.message)[-_SAID_CHARS:]
    statuses = [
        record.get("status") for record in parse_records(done.records) if record.get("t") == "command"
    ]
    if done.ended is not ExitKind.EXITED or not statuses:
        raise UsageError("COMMAND_FAILED", f"`{name}` was ended ({done.ended.value}): {said}")
    if statuses[-1] != 0:
        how = "was not found" if statuses[-1] is None else f"ended with status {statuses[-1]}"
        raise UsageError("COMMAND_FAILED", ": ".join(filter(None, (f"`{name}` {how}", said))))
    try:
        scores = json.loads(done.stdout)
        json.dumps(scores, allow_nan=False)  # NaN is read by us, and by few others
    except (ValueError, RecursionError) as error:
        raise UsageError("BAD_SCORES", f"`{name}` printed no JSON: {error}.") from error
    if not isinstance(scores, dict):
        raise UsageError("BAD_SCORES", f"`{name}` printed JSON that is no object.")
    return scores
