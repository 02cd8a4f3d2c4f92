"""The daemon's answers to its clients' calls."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, assert_never

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.config.environment_allowlist import uncovered
from codeflash_parallel.process.host_lock.benchmark_token import token_holder
from codeflash_parallel.queue.client.store_queries import listed
from codeflash_parallel.queue.daemon.notifications import Notifications
from codeflash_parallel.queue.daemon.store_threads import ThreadedStore
from codeflash_parallel.queue.errors import QueueDamaged, VariablesNotPassed
from codeflash_parallel.queue.jobs import JobId, JobRequest, JobState, QueuePlace, Receipt
from codeflash_parallel.queue.protocol import messages
from codeflash_parallel.queue.protocol.job_result import FINAL, submit_anew
from codeflash_parallel.queue.protocol.messages import DaemonInfo, JobEvent, JobStatus
from codeflash_parallel.queue.protocol.wire_format import (
    ALIVE_S,
    MAX_LINE,
    alive_line,
    answer_line,
    error_line,
    event_line,
    read_request,
)
from codeflash_parallel.result.errors import CodeflashParallelError, InternalError
from codeflash_parallel.run.state.fault_conversion import first_of

#: pid, user, group
_CREDENTIALS = struct.Struct("iII")

#: Sends an event to the client.
Emit = Callable[[JobEvent], Awaitable[None]]


class JobManager(Protocol):
    """What runs the jobs."""

    def wake(self) -> None:
        """Look at the queue: something may start."""
        ...

    async def submitted(self) -> None:
        """Look at the queue: there is one more job."""
        ...

    async def look(self) -> None:
        """Look at what somebody else has done to the store."""
        ...

    async def end_job(self, job_id: JobId) -> None:
        """Kill a job that has been cancelled, if it runs."""
        ...

    def info(self) -> DaemonInfo:
        """Say what runs."""
        ...

    def progress_of(self, job_id: JobId) -> str:
        """Return what the worker of a job said last."""
        ...

    async def tell_ended(self, job_id: JobId) -> None:
        """Publish how a job stands that has ended, or has not any more."""
        ...


class RequestHandler:
    """Answers calls, on any number of connections.

    Args:
        pass_env: names and patterns of the daemon's variables that jobs may ask for.
    """

    def __init__(
        self, desk: ThreadedStore, notices: Notifications, manager: JobManager, pass_env: Sequence[str] = ()
    ) -> None:
        self._desk, self._notices, self._manager = desk, notices, manager
        self._pass_env = pass_env

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection until its client leaves; a stranger's is closed."""
        async with stream:
            if not _is_ours(stream.extra(SocketAttribute.raw_socket)):  # noqa: S610 - it is no Django
                return
            buffered = BufferedByteReceiveStream(stream)
            try:
                while True:
                    await self._one(stream, await buffered.receive_until(b"\n", MAX_LINE))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                return
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the client has gone while it was answered

    async def _one(self, stream: SocketStream, line: bytes) -> None:
        sending = anyio.Lock()

        async def send(text: bytes) -> None:
            async with sending:
                await stream.send(text)

        async def say_alive() -> None:
            while True:
                await anyio.sleep(ALIVE_S)
                await send(alive_line())

        async def emit(event: JobEvent) -> None:
            await send(event_line(event))

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(say_alive)
                answer = await self._answer_line(line, emit)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            # A client that went away breaks signs of life and events alike.
            raise first_of(error) from None
        await send(answer)

    async def _answer_line(self, line: bytes, emit: Emit) -> bytes:
        try:
            return answer_line(await self._answer(read_request(line), emit))
        except CodeflashParallelError as error:
            if isinstance(error, QueueDamaged):
                self._manager.wake()  # who starts jobs ends the daemon for it
            return error_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the daemon
            return error_line(InternalError("UNEXPECTED", f"{type(error).__name__}: {error}"))

    async def _answer(self, request: messages.Request, emit: Emit) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case each
        match request:
            case messages.Ping():
                return self._manager.info()._replace(token_holder=token_holder())
            case messages.StoreChanged():
                await self._manager.look()
                return messages.Acknowledgement()
            case messages.Submit(request=job):
                return await self._submit(job)
            case messages.Wait(job_id=job_id, max_s=max_s):
                return await self._wait(job_id, max_s)
            case messages.WatchJob(job_id=job_id):
                return await self._watch(job_id, emit)
            case messages.GetStatus(job_id=job_id):
                return await self._status(job_id)
            case messages.List():
                return await self._desk.do(lambda store, _now: listed(store, request))
            case messages.Cancel(job_id=job_id):
                return await self._cancel(job_id)
            case messages.Retry(job_id=job_id):
                return await self._retry(job_id)
            case messages.Pause():
                await self._desk.do(lambda store, now: store.pause(now))
                return messages.Acknowledgement()
            case messages.Unpause():
                await self._desk.do(lambda store, now: store.unpause(now))
                self._manager.wake()
                return messages.Acknowledgement()
            case messages.GetHealth():
                return await self._desk.do(lambda store, now: store.health(now))
            case _:
                assert_never(request)

    async def _submit(self, job: JobRequest) -> Receipt:
        if missing := uncovered(job.pass_env, self._pass_env):
            raise VariablesNotPassed(missing)
        receipt = await self._desk.do(lambda store, now: submit_anew(store, job, now))
        await self._manager.submitted()
        return receipt

    async def _status(self, job_id: JobId) -> JobStatus:
        busy = bool(token_holder())
        found = await self._desk.do(
            lambda store, now: JobStatus(
                job=store.job(job_id), place=store.place(job_id, now, token_busy=busy)
            )
        )
        said = self._manager.progress_of(job_id)
        return found._replace(job=found.job._replace(progress=said)) if said else found

    async def _wait(self, job_id: JobId, max_s: float) -> JobStatus:
        with self._notices.waiting_for(job_id), anyio.move_on_after(max_s if max_s >= 0 else None):
            while True:
                changed = self._notices.next_change(job_id)
                job = await self._desk.do(lambda store, _now: store.job(job_id))
                if job.state in FINAL:
                    break
                await changed.wait()
        return await self._status(job_id)

    async def _watch(self, job_id: JobId, emit: Emit) -> messages.Acknowledgement:
        with self._notices.watching() as changes:
            if job_id and await self._emitted(job_id, emit) in FINAL:
                return messages.Acknowledgement()
            async for changed in changes:
                if job_id in {"", changed} and await self._emitted(changed, emit) in FINAL and job_id:
                    return messages.Acknowledgement()
        return messages.Acknowledgement()

    async def _emitted(self, job_id: JobId, emit: Emit) -> JobState:
        found = await self._status(job_id)
        job, place = found.job, found.place
        await emit(
            JobEvent(
                job_id=job.job_id,
                state=job.state,
                position=place.position,
                reason=place.reason,
                wait_s=place.wait_s,
                progress=job.progress,
            )
        )
        return job.state

    async def _cancel(self, job_id: JobId) -> messages.NewState:
        state = await self._desk.do(lambda store, now: store.cancel(job_id, now))
        if state is JobState.CANCELLED:
            await self._manager.end_job(job_id)
            await self._manager.tell_ended(job_id)
        self._manager.wake()
        return messages.NewState(state=state)

    async def _retry(self, job_id: JobId) -> QueuePlace:
        place = await self._desk.do(lambda store, now: store.retry(job_id, now))
        await self._manager.tell_ended(job_id)  # that it has not: the file of its last end goes
        self._manager.wake()
        return place


def _is_ours(peer: socket.socket) -> bool:
    """Say whether the other end is of our own user, or root, whatever the file's permissions are by now."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in {os.geteuid(), 0}
