"""The worker process: executes the daemon's jobs and reports progress. It ends when the daemon does.

Messages from the daemon: `job` (an assignment), `ask` (to be answered by `answer`) and `stop` (break the job
off). Messages to the daemon: `ready`, `answer`, `begun`, `progress` (with `waits`: it waits for its turn on
this machine), and at the end of a job one of `done` (its result), `faulted` (the machine's fault) and
`stopped`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from codeflash_parallel.process.host_lock import host_quiet
from codeflash_parallel.process.message_channel import MessageChannel
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.queue.daemon_protocol import error_document
from codeflash_parallel.queue.jobs import JobKind
from codeflash_parallel.queue.worker.job_executor import Assignment, JobExecutor, error_result
from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, InternalError
from codeflash_parallel.result.outcome_codes import Code, Trait

#: An evaluator that has been idle for so long is closed: it holds slots and servers.
_IDLE_S = 300.0


class FaultOwner(StrEnum):
    """Owner of an error."""

    #: The job's: another attempt would fail too, so the error is its result.
    JOB = "job"
    #: The machine's: the job is tried again after a pause, and not charged.
    MACHINE = "machine"
    #: Ours: the attempt counts as crashed.
    US = "us"


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


def blame(error: CodeflashParallelError) -> FaultOwner:
    """Return the owner of an error."""
    if isinstance(error, InternalError):
        return FaultOwner.US
    passing = isinstance(error, EnvironmentFault) and error.code in _PASSING
    return FaultOwner.MACHINE if passing else FaultOwner.JOB


def machine_fault(document: Mapping[str, Any]) -> str:
    """Return the first code that is a fault of the machine; empty if none is."""
    codes = (candidate.get("code", "") for candidate in document.get("candidates", ()))
    return next((code for code in codes if code in _OF_THE_MACHINE), "")


def _has_verdicts(document: Mapping[str, Any]) -> bool:
    """Return whether some candidates have verdicts that must not be lost."""
    codes = [candidate.get("code", "") for candidate in document.get("candidates", ())]
    return Code.RACE_NOT_HELD not in codes and any(code not in _OF_THE_MACHINE for code in codes)


class _Worker:
    """The worker's side of its channel."""

    def __init__(self, channel: MessageChannel, cache: Path, pass_env: Sequence[str]) -> None:
        self._channel = channel
        self._outbox: MemoryObjectSendStream[Message]
        self._outbox, self._to_send = anyio.create_memory_object_stream[Message](float("inf"))
        self._given, self._jobs = anyio.create_memory_object_stream[Assignment](float("inf"))
        self._job = anyio.CancelScope()
        self._claim = ""
        self._unwanted: set[str] = set()
        self._is_waiting = False
        self._performer = JobExecutor(cache, host_quiet(os.environ, self._waits), self._tell, pass_env)

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
        async with self._performer:
            while True:
                assignment = None
                with anyio.move_on_after(_IDLE_S):
                    assignment = await jobs.receive()
                if assignment is None:
                    await self._performer.close()
                else:
                    await self._perform(assignment)

    async def _perform(self, assignment: Assignment) -> None:
        self._say("begun")
        with anyio.CancelScope() as self._job:
            self._claim = assignment.claim
            if self._claim in self._unwanted:
                self._job.cancel()
            end = await self._end_of(assignment)
        self._unwanted.discard(self._claim)
        if self._job.cancelled_caught:
            await self._performer.close()  # it may be in the middle of something
            end = {"t": "stopped"}
        self._say(**end)

    async def _end_of(self, assignment: Assignment) -> dict[str, Any]:
        try:
            result = await self._performer.perform(assignment)
        except CodeflashParallelError as error:
            match blame(error):
                case FaultOwner.US:
                    raise
                case FaultOwner.MACHINE:
                    await self._performer.close()
                    return {"t": "faulted", "fault": error.code, "message": str(error)}
                case FaultOwner.JOB:
                    return {"t": "done", "result": error_result(error_document(error))}
        document = result["document"] or {}
        fault = machine_fault(document)
        if fault:
            await self._performer.close()
            message = f"A candidate could not be judged: {fault}."
            rest = {"result": result} if _has_verdicts(document) else {}
            return {"t": "faulted", "fault": fault, "message": message, **rest}
        return {"t": "done", "result": result}

    # --- what goes on ----------------------------------------------------------------------------------

    def _tell(self, what: str) -> None:
        # A message of one check does not end the wait of another: a long wait would count as stuck.
        self._say("progress", text=what, waits=self._is_waiting)

    def _waits(self, why: str) -> None:
        self._is_waiting = bool(why)
        self._say("progress", text=why, waits=self._is_waiting)

    def _say(self, t: str, **fields: Any) -> None:
        self._outbox.send_nowait({"t": t, **fields})

    async def _send(self, outbox: MemoryObjectReceiveStream[Message]) -> None:
        with suppress(ConnectionError):  # the daemon is gone: `run` ends too
            async for message in outbox:
                await self._channel.send(message)


def main(arguments: list[str]) -> None:
    """Run a worker.

    Args:
        arguments: number of the inherited end of the socket pair, the daemon's cache, and which of our
            variables jobs may ask for.
    """
    number, cache, *pass_env = arguments
    end = socket.socket(fileno=int(number))
    os.set_inheritable(int(number), False)
    anyio.run(_work, end, Path(cache), pass_env, backend="asyncio")


async def _work(end: socket.socket, cache: Path, pass_env: Sequence[str]) -> None:
    with end:
        await _Worker(MessageChannel(end), cache, pass_env).run()


if __name__ == "__main__":
    main(sys.argv[1:])
