"""The daemon's workers: processes that are started when they are needed, kept warm, and killed as trees."""

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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import anyio

import codeflash_parallel
from codeflash_parallel.process.message_frames import Message
from codeflash_parallel.process.process_table import ProcessEntry
from codeflash_parallel.queue.daemon import worker_processes
from codeflash_parallel.queue.daemon.worker_liveness import WorkerSample
from codeflash_parallel.queue.worker.channel import WorkerChannel
from codeflash_parallel.queue.worker.job_executor import Assignment
from codeflash_parallel.result.errors import EnvironmentFault

#: Starts a worker by code: its interpreter need not know where we are installed.
_START = (
    "import sys; sys.path.append(sys.argv.pop(1)); "
    "from codeflash_parallel.queue.worker.worker_process import main; main(sys.argv[1:])"
)
#: How much of what a worker said last is kept when it dies.
_LAST_BYTES = 4096
#: How long a worker that has closed its channel may take to end.
_END_S = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerDeath:
    """The worker is gone.

    Attributes:
        begun: it had begun with the job.
    """

    begun: bool
    how: str
    last_output: str


#: How a job ended in its worker: what it said last, or its death.
Ending = Message | WorkerDeath


@dataclass(slots=True)
class Worker:
    """One worker process. Made by `WorkerPool.hire`.

    Attributes:
        warm_for: repository and settings of its open evaluator; empty: none.
        progress: what it said last.
        told: how many times it has said that something happened.
        answers: how many times it has answered us.
        waits: it waits for its turn on this machine.
    """

    popen: subprocess.Popen[bytes]
    channel: WorkerChannel
    log: Path
    warm_for: str = ""
    job_id: str = ""
    progress: str = ""
    told: int = 0
    answers: int = 0
    waits: bool = False
    used_s: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def repository(self) -> str:
        """What its open evaluator is for; empty: it has none."""
        return str(json.loads(self.warm_for)[0]) if self.warm_for else ""

    @property
    def is_alive(self) -> bool:
        """Whether it can be given a job."""
        return self.popen.poll() is None

    def begin(self, job_id: str) -> None:
        """Be busy with a job."""
        self.job_id, self.progress, self.waits = job_id, "", False

    def end(self, warm_for: str) -> None:
        """Be idle again, warm for something."""
        self.job_id, self.warm_for, self.used_s = "", warm_for, time.monotonic()

    async def perform(self, assignment: Assignment, on_progress: Callable[[], None]) -> Ending:
        """Have it perform a job, and return how that ended."""
        begun = False
        try:
            await self.channel.send({"t": "job", "job": asdict(assignment)})
            while (message := await self.channel.receive()) is not None:
                match message:
                    case {"t": "begun"}:
                        begun = True
                    case {"t": "progress", "text": text, "waits": waits}:
                        self._note(text, waits=waits)
                        on_progress()
                    case {"t": "answer"}:
                        self.answers += 1
                    case {"t": "done" | "faulted" | "stopped"}:
                        return message
        except ConnectionError:
            pass  # seen below
        return await self._death(begun=begun)

    async def ask(self) -> None:
        """Have its event loop answer, if it turns."""
        with contextlib.suppress(ConnectionError):
            await self.channel.send({"t": "ask"})

    async def stop(self, assignment: Assignment) -> None:
        """Ask it to break off a job; `perform` returns when it has."""
        with contextlib.suppress(ConnectionError):
            await self.channel.send({"t": "stop", "claim": assignment.claim})

    def sign(self) -> WorkerSample:
        """Look at it."""
        stopped = worker_processes.is_stopped(self.pid)
        return WorkerSample(
            answers=self.answers,
            told=self.told,
            cpu_s=worker_processes.cpu_s(self.pid),
            waits=self.waits,
            stopped=stopped,
        )

    def _note(self, text: str, *, waits: bool) -> None:
        self.told += 1
        self.progress = text or self.progress
        self.waits = waits

    async def _death(self, *, begun: bool) -> WorkerDeath:
        status = await anyio.to_thread.run_sync(self._ended)
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return WorkerDeath(begun=begun, how=how, last_output=self.last_output())

    def _ended(self) -> int:
        """Return its exit status; whoever has closed the channel and goes on is killed."""
        try:
            return self.popen.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            return self.popen.wait()

    def last_output(self) -> str:
        """Return the end of what it has printed."""
        with contextlib.suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LAST_BYTES))
            return log.read().decode("utf-8", "replace")
        return ""


class WorkerPool:
    """All workers of a daemon.

    Args:
        folder: the queue's.
        cache: of everything that workers keep.
        size: how many there are at most.
        pass_env: names and patterns of our variables that jobs may ask for.
    """

    def __init__(self, folder: Path, cache: Path, size: int, pass_env: Sequence[str] = ()) -> None:
        self._folder, self._cache, self._size = folder, cache, size
        self._pass_env = pass_env
        self.workers: list[Worker] = []
        #: What could not be killed, as "pid name".
        self.unkillable: list[str] = []
        self._started = 0
        self._book = threading.Lock()  # a newborn worker must not be taken for an orphan

    @classmethod
    @asynccontextmanager
    async def open(
        cls, folder: Path, cache: Path, size: int, pass_env: Sequence[str] = ()
    ) -> AsyncIterator[WorkerPool]:
        """Open a crew; leaving the block ends all workers and whatever they have started."""
        (folder / "workers").mkdir(mode=0o700, exist_ok=True)
        with worker_processes.adopting_orphans():
            crew = cls(folder, cache, size, pass_env)
            try:
                yield crew
            finally:
                with anyio.CancelScope(shield=True):
                    async with anyio.create_task_group() as group:
                        for worker in tuple(crew.workers):
                            group.start_soon(crew.retire, worker)

    @property
    def trouble(self) -> str:
        """What is wrong with the processes of workers, one sentence; empty: nothing."""
        left = ", ".join(self.unkillable)
        return f"Processes that could not be killed: {left}." if left else ""

    def hire(self, warm_for: str) -> Worker:
        """Return an idle worker: one that is warm for this, else a new one, else the one idle for longest.

        Raises:
            EnvironmentFault: `CANNOT_START_PROCESS`.
        """
        idle = [worker for worker in self.workers if not worker.job_id]
        for dead in [worker for worker in idle if not worker.is_alive]:
            self._forget(dead)
        idle = sorted((w for w in idle if w.is_alive), key=lambda worker: worker.used_s)
        warm = [worker for worker in idle if worker.warm_for == warm_for]
        if warm:
            return warm[-1]
        cold = [worker for worker in idle if not worker.warm_for]
        if cold:
            return cold[0]
        return self._start() if len(self.workers) < self._size or not idle else idle[0]

    def _start(self) -> Worker:
        with self._book, contextlib.ExitStack() as undo:
            try:
                ours, theirs = socket.socketpair()
                undo.callback(ours.close)
                log = self._new_log()
                popen = self._popen(theirs, log)
            except OSError as error:
                message = f"No worker can be started: {error}."
                raise EnvironmentFault("CANNOT_START_PROCESS", message) from error
            undo.pop_all()
            worker = Worker(popen=popen, channel=WorkerChannel(ours), log=log)
            self.workers.append(worker)
        return worker

    def _popen(self, theirs: socket.socket, log: Path) -> subprocess.Popen[bytes]:
        home = str(Path(codeflash_parallel.__file__).resolve().parent.parent)
        argv = [sys.executable, "-P", "-c", _START, home, str(theirs.fileno())]
        with theirs, log.open("wb") as output:
            return subprocess.Popen(
                [*argv, str(self._cache), *self._pass_env],
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl-C on the daemon's terminal is for the daemon
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _new_log(self) -> Path:
        """Return a log that no living worker writes to; the last ones of the dead are kept for a while."""
        taken = {worker.log for worker in self.workers}
        while True:
            self._started += 1
            log = self._folder / "workers" / f"{self._started % (self._size + len(taken) + 1)}.log"
            if log not in taken:
                return log

    async def retire(self, worker: Worker) -> None:
        """Let a worker that is idle remove its slots and go; one that does not is dismissed."""
        if not worker.job_id:
            worker.channel.finish()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await anyio.to_thread.run_sync(worker.popen.wait, _END_S)
        await self.dismiss(worker)

    async def dismiss(self, worker: Worker) -> None:
        """End a worker and everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            worker.popen.send_signal(signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(worker.popen.wait)
            self._forget(worker)
            self.unkillable += await anyio.to_thread.run_sync(worker_processes.end_orphans, self._orphans)

    def _orphans(self) -> list[ProcessEntry]:
        """Return what dead workers have left; it was their children's, and is ours now."""
        with self._book:
            return worker_processes.orphans([worker.pid for worker in self.workers])

    def _forget(self, worker: Worker) -> None:
        """Strike a worker off; while somebody still listens to it, its channel stays open."""
        if worker in self.workers:
            self.workers.remove(worker)
        if not worker.job_id:
            worker.channel.close()
