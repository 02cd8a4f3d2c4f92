"""The daemon's workers: processes that are started on demand, kept warm, and killed with all descendants."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import anyio

import codeflash_parallel
from codeflash_parallel.process import process_table
from codeflash_parallel.process.message_channel import MessageChannel
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.process.supervisor.spawner import adopt_no_more_orphans, adopt_orphans
from codeflash_parallel.queue.worker import Assignment
from codeflash_parallel.result.errors import EnvironmentFault

#: Starts a worker by code: its interpreter need not know where we are installed.
_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.queue.worker import main; main(sys.argv[1:])"
)
#: Bytes of a worker's last output that are kept when it dies.
_LAST_BYTES = 4096
#: Seconds that a worker that has closed its channel may take to end.
_END_S = 15.0
#: A worker's launcher kills its jobs by itself once the worker is gone, which takes it 2 s at most.
_GRACE_S = 3.0
#: After that, orphans are killed for so many seconds.
_KILL_S = 5.0
_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerDeath:
    """The worker is gone.

    Attributes:
        begun: it had begun with the job.
    """

    begun: bool
    how: str
    last_output: str


#: How a job ended in its worker: its last message, or its death.
Ending = Message | WorkerDeath


@dataclass(slots=True)
class Worker:
    """One worker process, made by `WorkerPool.hire`.

    Attributes:
        warm_for: repository and settings of its open evaluator; empty if none.
        progress: its last message.
        used_s: when it was last used, by the monotonic clock.
        answers: number of answers of its event loop.
    """

    popen: subprocess.Popen[bytes]
    channel: MessageChannel
    log: Path
    warm_for: str = ""
    job_id: str = ""
    progress: str = ""
    used_s: float = field(default_factory=time.monotonic)
    answers: int = 0

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def repository(self) -> str:
        """Repository of its open evaluator; empty if none."""
        return str(json.loads(self.warm_for)[0]) if self.warm_for else ""

    @property
    def is_alive(self) -> bool:
        """Whether it can be given a job."""
        return self.popen.poll() is None

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process, its descendants, and those of them that ended and were reaped."""
        own = process_table.process(self.pid)
        descendants = process_table.descendants(self.pid)
        return sum((proc.cpu_s for proc in descendants), own.cpu_s if own else 0.0)

    async def perform(self, assignment: Assignment) -> Ending:
        """Have it perform a job, and return how that ended."""
        begun = False
        self.progress = ""
        try:
            await self.channel.send({"t": "job", "job": asdict(assignment)})
            while (message := await self.channel.receive()) is not None:
                match message:
                    case {"t": "begun"}:
                        begun = True
                    case {"t": "progress", "text": text}:
                        self.progress = text or self.progress
                    case {"t": "answer"}:
                        self.answers += 1
                    case {"t": "done" | "faulted" | "stopped"}:
                        return message
        except ConnectionError:
            pass  # its status is known below
        status = await anyio.to_thread.run_sync(self._status)
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return WorkerDeath(begun=begun, how=how, last_output=self._last_output())

    def release(self, warm_for: str) -> None:
        """Note that it is idle again, and what it is warm for."""
        self.job_id, self.warm_for, self.used_s = "", warm_for, time.monotonic()

    async def ask(self) -> None:
        """Ask its event loop for an answer."""
        with contextlib.suppress(ConnectionError):
            await self.channel.send({"t": "ask"})

    async def stop(self, assignment: Assignment) -> None:
        """Ask it to break off a job; `perform` returns when it has."""
        with contextlib.suppress(ConnectionError):
            await self.channel.send({"t": "stop", "claim": assignment.claim})

    def _status(self) -> int:
        """Return its exit status; a worker that has closed its channel and continues is killed."""
        try:
            return self.popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()

    def _last_output(self) -> str:
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LAST_BYTES))
            return log.read().decode("utf-8", "replace")
        return ""


class WorkerPool:
    """All workers of a daemon, made by `open_worker_pool`."""

    def __init__(
        self,
        folder: Path,
        cache: Path,
        size: int,
        pass_env: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder, self._cache, self._size = folder, cache, size
        self._pass_env, self._where = pass_env, dict(where or {})
        self.workers: list[Worker] = []
        #: Processes that could not be killed, as "pid name".
        self.unkillable: list[str] = []
        self._started = 0
        self._starting = threading.Lock()  # a new process must not be taken for an orphan
        self._beside: set[int] = set()

    @property
    def trouble(self) -> str:
        """Fault of the processes of workers, one sentence; empty if there is none."""
        left = ", ".join(self.unkillable)
        return f"Processes that could not be killed: {left}." if left else ""

    def hire(self, warm_for: str) -> Worker:
        """Return an idle worker: a warm one, else a new one, else the one that has been idle longest.

        Raises:
            EnvironmentFault: `CANNOT_START_PROCESS`.
        """
        idle = [worker for worker in self.workers if not worker.job_id]
        for dead in [worker for worker in idle if not worker.is_alive]:
            self._forget(dead)
        idle = sorted((w for w in idle if w.is_alive), key=lambda worker: worker.used_s)
        if warm := [worker for worker in idle if worker.warm_for == warm_for]:
            return warm[-1]
        if cold := [worker for worker in idle if not worker.warm_for]:
            return cold[0]
        return self._start() if len(self.workers) < self._size or not idle else idle[0]

    def _start(self) -> Worker:
        with self._starting, contextlib.ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair()
                undo.callback(ours.close)
                log = self._new_log()
                popen = self._popen(theirs, log)
            except OSError as error:
                message = f"No worker can be started: {error}."
                raise EnvironmentFault("CANNOT_START_PROCESS", message) from error
            undo.pop_all()
            worker = Worker(popen=popen, channel=MessageChannel(ours), log=log)
            self.workers.append(worker)
        return worker

    def _popen(self, theirs: socket.socket, log: Path) -> subprocess.Popen[bytes]:
        home = str(Path(codeflash_parallel.__file__).resolve().parent.parent)
        argv = [sys.executable, "-P", "-c", _START, home, str(theirs.fileno())]
        with theirs, log.open("wb") as output:
            return subprocess.Popen(
                [*argv, str(self._folder), str(self._cache), json.dumps(self._where), *self._pass_env],
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl-C on the daemon's terminal is for the daemon
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _new_log(self) -> Path:
        """Return a log that no living worker writes to; those of dead ones are kept for a while."""
        taken = {worker.log for worker in self.workers}
        while True:
            self._started += 1
            log = self._folder / "workers" / f"{self._started % (self._size + len(taken) + 1)}.log"
            if log not in taken:
                return log

    async def retire(self, worker: Worker) -> None:
        """Let an idle worker remove its slots and end; kill one that does not."""
        if not worker.job_id:
            worker.channel.finish()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await anyio.to_thread.run_sync(worker.popen.wait, _END_S)
        await self.kill(worker)

    async def kill(self, worker: Worker) -> None:
        """End a worker and everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            worker.popen.send_signal(signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(worker.popen.wait)
            self._forget(worker)
            self.unkillable += await anyio.to_thread.run_sync(self._end_orphans)

    async def run_beside(
        self, argv: Sequence[str], environment: Mapping[str, str], log: BinaryIO, deadline_s: float
    ) -> str:
        """Run a command that is no worker; return what was wrong with it, empty if nothing was.

        Args:
            log: file that its output goes to.
            deadline_s: after that it is killed, with its process group.
        """
        try:
            process = self._start_beside(argv, environment, log)
        except OSError as error:
            return f"cannot be started: {error}"
        try:
            with anyio.move_on_after(deadline_s):
                await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
            if process.returncode is None:
                return f"has not ended within {deadline_s:g} s"
            return f"ended with status {process.returncode}" if process.returncode else ""
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            self._beside.discard(process.pid)

    def _start_beside(
        self, argv: Sequence[str], environment: Mapping[str, str], log: BinaryIO
    ) -> subprocess.Popen[bytes]:
        with self._starting:
            process = subprocess.Popen(
                argv,
                env=environment,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            self._beside.add(process.pid)
        return process

    def _end_orphans(self) -> list[str]:
        """Wait until no orphans are left, and kill them after a grace period; return those that remain."""
        begun = time.monotonic()
        while left := self._orphans():
            waited_s = time.monotonic() - begun
            if waited_s > _GRACE_S + _KILL_S:
                return [str(proc) for proc in left]
            if waited_s > _GRACE_S:
                for proc in left:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(proc.pid, signal.SIGKILL)
            time.sleep(_LOOK_S)
        return []

    def _orphans(self) -> list[ProcessEntry]:
        """Return our descendants that belong to no living worker; reap the dead among our own children."""
        with self._starting:
            known = {worker.pid for worker in self.workers} | self._beside
            found = [proc for proc in process_table.descendants(os.getpid()) if proc.head not in known]
        for proc in found:
            if proc.gone and proc.pid == proc.head:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(proc.pid, os.WNOHANG)
        return [proc for proc in found if not proc.gone]

    def _forget(self, worker: Worker) -> None:
        """Remove a worker from the pool; while `perform` listens to it, its channel stays open."""
        if worker in self.workers:
            self.workers.remove(worker)
        if not worker.job_id:
            worker.channel.close()


@asynccontextmanager
async def open_worker_pool(
    folder: Path,
    cache: Path,
    size: int,
    pass_env: Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
) -> AsyncIterator[WorkerPool]:
    """Open a pool; leaving the block ends all workers and everything that they have started.

    Args:
        folder: the queue's.
        cache: where workers keep everything.
        size: number of workers at most.
        pass_env: names and patterns of our variables that jobs may ask for.
        where: settings that say on which hosts jobs are evaluated; by default on this one.
    """
    (folder / "workers").mkdir(mode=0o700, exist_ok=True)
    adopt_orphans()
    pool = WorkerPool(folder, cache, size, pass_env, where)
    try:
        yield pool
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for worker in tuple(pool.workers):
                    group.start_soon(pool.retire, worker)
        adopt_no_more_orphans()
