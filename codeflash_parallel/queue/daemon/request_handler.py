"""The daemon's answers to its clients' calls."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from codeflash_parallel.config.environment_allowlist import uncovered
from codeflash_parallel.process.host_lock import token_holder
from codeflash_parallel.queue.daemon.dispatcher import Dispatcher
from codeflash_parallel.queue.daemon.notifications import Notifications
from codeflash_parallel.queue.daemon.threaded_store import ThreadedStore
from codeflash_parallel.queue.daemon_protocol import (
    ALIVE_S,
    MAX_LINE,
    DaemonInfo,
    JobEvent,
    alive_line,
    answer_line,
    error_line,
    event_line,
    read_request,
)
from codeflash_parallel.queue.errors import QueueDamaged, VariablesNotPassed
from codeflash_parallel.queue.job_result import FINAL, submit_anew
from codeflash_parallel.queue.jobs import JobId, JobRequest, JobState, JobStatus, QueuePlace, Receipt
from codeflash_parallel.result.errors import CodeflashParallelError, InternalError, first_of

#: pid, user, group
_CREDENTIALS = struct.Struct("iII")

#: Sends a line to the client.
Send = Callable[[bytes], Awaitable[None]]


class RequestHandler:
    """Answers calls on any number of connections.

    Args:
        pass_env: names and patterns of the daemon's variables that jobs may ask for.
    """

    def __init__(
        self,
        store: ThreadedStore,
        notifications: Notifications,
        dispatcher: Dispatcher,
        pass_env: Sequence[str] = (),
    ) -> None:
        self._store, self._notifications, self._dispatcher = store, notifications, dispatcher
        self._pass_env = pass_env
        self._answers: Mapping[str, Callable[..., Awaitable[Any]]] = {
            "ping": self._ping,
            "look": dispatcher.look,
            "submit": self._submit,
            "wait": self._wait,
            "status": self._status,
            "list": lambda **wanted: store.do(lambda s, _now: s.listed(**wanted)),
            "cancel": self._cancel,
            "retry": self._retry,
            "pause": lambda: store.do(lambda s, now: s.pause(now)),
            "unpause": self._unpause,
            "health": lambda: store.do(lambda s, now: s.health(now)),
        }

    async def serve(self, stream: SocketStream) -> None:
        """Answer one connection until its client leaves; close it if it is another user's."""
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
                return  # the client left while it was answered

    async def _one(self, stream: SocketStream, line: bytes) -> None:
        sending = anyio.Lock()

        async def send(text: bytes) -> None:
            async with sending:
                await stream.send(text)

        async def send_heartbeats() -> None:
            while True:
                await anyio.sleep(ALIVE_S)
                await send(alive_line())

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(send_heartbeats)
                answer = await self._answer_line(line, send)
                group.cancel_scope.cancel()
        except BaseExceptionGroup as error:
            # A client that left breaks heartbeats and events alike.
            raise first_of(error) from None
        await send(answer)

    async def _answer_line(self, line: bytes, send: Send) -> bytes:
        try:
            request = read_request(line)
            if request.call == "watch":
                await self._watch(send, **request.arguments)
                return answer_line(None)
            return answer_line(await self._answers[request.call](**request.arguments))
        except CodeflashParallelError as error:
            if isinstance(error, QueueDamaged):
                self._dispatcher.wake()  # it ends the daemon
            return error_line(error)
        except Exception as error:  # noqa: BLE001 - a defect of one answer must not end the daemon
            return error_line(InternalError("UNEXPECTED", f"{type(error).__name__}: {error}"))

    async def _ping(self) -> DaemonInfo:
        return self._dispatcher.info()._replace(token_holder=token_holder(os.environ))

    async def _submit(self, request: JobRequest) -> Receipt:
        if missing := uncovered(request.pass_env, self._pass_env):
            raise VariablesNotPassed(missing)
        receipt = await self._store.do(lambda store, now: submit_anew(store.submit, request, now))
        await self._dispatcher.submitted()
        return receipt

    async def _status(self, job_id: JobId) -> JobStatus:
        busy = bool(token_holder(os.environ))
        found = await self._store.do(
            lambda store, now: JobStatus(store.job(job_id), store.place(job_id, now, token_busy=busy))
        )
        progress = self._dispatcher.progress_of(job_id)
        return found._replace(job=found.job._replace(progress=progress)) if progress else found

    async def _wait(self, job_id: JobId, max_s: float) -> JobStatus:
        limit_s = max_s if max_s >= 0 else None
        with self._notifications.watching(job_id) as changes, anyio.move_on_after(limit_s):
            while (await self._store.do(lambda store, _now: store.job(job_id))).state not in FINAL:
                await changes.receive()
        return await self._status(job_id)

    async def _watch(self, send: Send, job_id: JobId) -> None:
        with self._notifications.watching(job_id) as changes:
            if job_id and await self._emit(send, job_id) in FINAL:
                return
            async for changed in changes:
                if await self._emit(send, changed) in FINAL and job_id:
                    return

    async def _emit(self, send: Send, job_id: JobId) -> JobState:
        job, place = await self._status(job_id)
        event = JobEvent(job_id, job.state, place.position, place.reason, place.wait_s, job.progress)
        await send(event_line(event))
        return job.state

    async def _cancel(self, job_id: JobId) -> JobState:
        state = await self._store.do(lambda store, now: store.cancel(job_id, now))
        if state is JobState.CANCELLED:
            await self._dispatcher.end_job(job_id)
            await self._dispatcher.publish(job_id)
        self._dispatcher.wake()
        return state

    async def _retry(self, job_id: JobId) -> QueuePlace:
        place = await self._store.do(lambda store, now: store.retry(job_id, now))
        await self._dispatcher.publish(job_id)  # removes the file of its last end
        self._dispatcher.wake()
        return place

    async def _unpause(self) -> None:
        await self._store.do(lambda store, now: store.unpause(now))
        self._dispatcher.wake()


def _is_ours(peer: socket.socket) -> bool:
    """Return whether the other end is our own user or root, whatever the file's permissions are by now."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(credentials)[1] in {os.geteuid(), 0}
