"""The worker process: executes the daemon's jobs and reports progress. It ends when the daemon does.

Messages from the daemon: `job` (an assignment), `ask` (to be answered by `answer`) and `stop` (break the job
off). Messages to the daemon: `ready`, `answer`, `begun`, `progress`, and at the end of a job one of `done`
(with its result), `faulted` (the machine's fault) and `stopped`.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from codeflash_parallel.config.environment import uncovered
from codeflash_parallel.config.settings import Settings, settings_of
from codeflash_parallel.process.host_lock import HostLock, host_quiet
from codeflash_parallel.process.message_channel import MessageChannel
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.queue.job_builder import JobPayload, mirror_of, task_of
from codeflash_parallel.queue.jobs import JobKind, error_document
from codeflash_parallel.queue.queue_errors import VariablesNotPassed
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, InternalError
from codeflash_parallel.result.events import CandidateFinished, Event, PhaseStarted
from codeflash_parallel.result.outcome_codes import Code, Trait
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
        where: settings that say on which hosts jobs are evaluated; by default on this one.
    """

    def __init__(
        self,
        folder: Path,
        cache: Path,
        quiet: HostLock,
        tell: Callable[[str], None],
        pass_env: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder, self._cache = folder, cache
        self._quiet, self._tell, self._pass_env = quiet, tell, pass_env
        self._where = dict(where or {})
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
        settings = settings_of(task.settings, cache_dir=str(self._cache), **self._where)
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


#: An evaluator that has been idle for so long is closed: it holds slots and servers.
_IDLE_S = 300.0


#: Faults of the machine that may be gone in a minute. All other environment faults are the project's.
_PASSING: Final = frozenset(
    {
        *("DISK_FULL", "NO_MEMORY", "TOO_MANY_FILES", "TOO_FEW_PROCESSES", "CANNOT_START_PROCESS"),
        *("CACHE_BUSY", "CACHE_UNWRITABLE", "GIT_HANGS", "GIT_FAILED", "MIRROR_DAMAGED", "NO_SLOT"),
        *("BENCHMARK_TOKEN_BUSY", "QUIET_UNUSABLE"),
    }
)

#: Codes of candidates that are faults of the machine.
_OF_THE_MACHINE: Final = frozenset(code for code in Code if Trait.INFRA in code.traits) | {Code.RACE_NOT_HELD}


def ending_of_error(error: CodeflashParallelError) -> dict[str, Any]:
    """Return the message for a job that ended with an error: `faulted` where another attempt may succeed.

    Raises:
        InternalError: it is one: the attempt counts as crashed.
    """
    if isinstance(error, InternalError):
        raise error
    if isinstance(error, EnvironmentFault) and error.code in _PASSING:
        return {"t": "faulted", "fault": error.code, "message": str(error)}
    return {"t": "done", "result": error_result(error_document(error))}


def ending_of_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message for a result: `faulted` where the machine failed candidates.

    It has the result where other candidates have verdicts, which must not be lost with the last attempt.
    """
    candidates = (result["document"] or {}).get("candidates", ())
    codes = [candidate.get("code", "") for candidate in candidates]
    fault = next((code for code in codes if code in _OF_THE_MACHINE), "")
    if not fault:
        return {"t": "done", "result": result}
    is_partial = Code.RACE_NOT_HELD not in codes and any(code not in _OF_THE_MACHINE for code in codes)
    message = f"A candidate could not be judged: {fault}."
    return {"t": "faulted", "fault": fault, "message": message, **({"result": result} if is_partial else {})}


class _Worker:
    """The worker's side of its channel."""

    def __init__(
        self,
        channel: MessageChannel,
        folder: Path,
        cache: Path,
        where: Mapping[str, Any],
        pass_env: Sequence[str],
    ) -> None:
        self._channel = channel
        self._outbox: MemoryObjectSendStream[Message]
        self._outbox, self._to_send = anyio.create_memory_object_stream[Message](float("inf"))
        self._given, self._jobs = anyio.create_memory_object_stream[Assignment](float("inf"))
        self._job = anyio.CancelScope()
        self._claim = ""
        self._unwanted: set[str] = set()
        quiet = host_quiet(os.environ, self._tell)
        self._executor = JobExecutor(folder, cache, quiet, self._tell, pass_env, where)

    async def run(self) -> None:
        """Serve until the daemon is gone."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._send, self._to_send)
            group.start_soon(self._perform_all, self._jobs)
            self._say("ready", pid=os.getpid())
            while (message := await self._channel.receive()) is not None:
                self._take(message)
            group.cancel_scope.cancel()

    def _take(self, message: Message) -> None:
        match message:
            case {"t": "job", "job": job}:
                self._given.send_nowait(Assignment(**{**job, "kind": JobKind(job["kind"])}))
            case {"t": "ask"}:
                self._say("answer")
            case {"t": "stop", "claim": claim}:
                self._unwanted.add(claim)  # it may not have begun yet
                if claim == self._claim:
                    self._job.cancel()

    async def _perform_all(self, jobs: MemoryObjectReceiveStream[Assignment]) -> None:
        try:
            while True:
                assignment = None
                with anyio.move_on_after(_IDLE_S):
                    assignment = await jobs.receive()
                if assignment is None:
                    await self._executor.close()
                else:
                    self._say("begun")
                    self._say(**await self._ending(assignment))
        finally:
            await self._executor.close()

    async def _ending(self, assignment: Assignment) -> dict[str, Any]:
        """Perform a job and return the message that ends it."""
        ending = {"t": "stopped"}
        try:
            perform = await self._executor.prepare(assignment)
            with anyio.CancelScope() as self._job:
                self._claim = assignment.claim
                if self._claim in self._unwanted:
                    self._job.cancel()
                ending = ending_of_result(await perform())
        except CodeflashParallelError as error:
            ending = ending_of_error(error)
        self._unwanted.discard(assignment.claim)
        if ending["t"] != "done":
            await self._executor.close()  # it may be in the middle of something
        return ending

    def _tell(self, text: str) -> None:
        self._say("progress", text=text)

    def _say(self, t: str, **fields: Any) -> None:
        self._outbox.send_nowait({"t": t, **fields})

    async def _send(self, outbox: MemoryObjectReceiveStream[Message]) -> None:
        with suppress(ConnectionError):  # the daemon is gone: `run` ends too
            async for message in outbox:
                await self._channel.send(message)


def main(arguments: list[str]) -> None:
    """Run a worker.

    Args:
        arguments: number of the inherited end of the socket pair, the queue's folder, the daemon's cache, the
            settings that say on which hosts jobs are evaluated, in JSON, and the names of our variables that
            jobs may ask for.
    """
    number, folder, cache, where, *pass_env = arguments
    end = socket.socket(fileno=int(number))
    os.set_inheritable(int(number), False)
    anyio.run(_work, end, Path(folder), Path(cache), json.loads(where), pass_env, backend="asyncio")


async def _work(
    end: socket.socket, folder: Path, cache: Path, where: Mapping[str, Any], pass_env: Sequence[str]
) -> None:
    with end:
        await _Worker(MessageChannel(end), folder, cache, where, pass_env).run()
