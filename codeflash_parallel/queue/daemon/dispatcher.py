"""Starts jobs when they may start, and publishes their ends. It wakes up on events and due times only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel import __version__
from codeflash_parallel.process.files import write_durably
from codeflash_parallel.process.machine import auto_slots, read_machine
from codeflash_parallel.queue.daemon.job_supervisor import AbortReason, JobSupervisor, ThreadedStore
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.daemon_protocol import DaemonInfo, WorkerInfo
from codeflash_parallel.queue.job_builder import remove_unneeded
from codeflash_parallel.queue.jobs import FINAL, Job, JobId, JobState, Overflow, outcome_of
from codeflash_parallel.queue.queue_errors import LeaseLost, QueueDamaged
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.result.errors import EnvironmentFault

#: A command that takes longer is killed.
_COMMAND_S = 60.0
#: A log that is larger is begun anew.
_LARGEST_LOG_BYTES = 1024 * 1024


class Publication:
    """Publishes ends; files appear whole, and survive a power cut.

    Args:
        folder: of the queue.
        command: program and arguments, run when a job has ended and its file is there; empty: none.
    """

    def __init__(self, folder: Path, workers: WorkerPool, command: Sequence[str] = ()) -> None:
        self._folder = folder / "results"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._log = folder / "on-end.log"
        self._workers, self._command = workers, command
        self._turn = anyio.Lock()

    def _path(self, job: Job) -> Path:
        return self._folder / f"{job.job_id}.json"

    def is_out_of_date(self, job: Job) -> bool:
        """Return whether a job has ended and has no file, or has one from before it was retried."""
        return (job.state in FINAL) is not self._path(job).exists()

    def write(self, job: Job) -> None:
        """Write the file of a job that has ended; remove that of one that was retried."""
        if job.state not in FINAL:
            self._path(job).unlink(missing_ok=True)
            return
        document = {
            "job_id": job.job_id,
            "key": job.key,
            "kind": job.kind.value,
            "submitter": job.submitter,
            "run": job.run,
            "state": job.state.value,
            "fault": job.fault,
            "cpu_s": job.cpu_s,
            "wall_s": job.wall_s,
            "result": json.loads(job.result) if job.result else None,
        }
        write_durably(self._path(job), json.dumps(document, indent=1).encode("ascii"))

    async def run_command(self, job: Job) -> str:
        """Run the command for a job that has ended; return what was wrong, empty if nothing was."""
        if not self._command or job.state not in FINAL:
            return ""
        environment = {
            **os.environ,
            "CODEFLASH_PARALLEL_JOB": job.job_id,
            "CODEFLASH_PARALLEL_VERDICT": outcome_of(job),
        }
        async with self._turn:
            is_large = self._log.exists() and self._log.stat().st_size > _LARGEST_LOG_BYTES
            with self._log.open("wb" if is_large else "ab") as log:
                wrong = await self._workers.run_beside(self._command, environment, log, _COMMAND_S)
                if wrong:
                    wrong = f"The command of --on-end {wrong} (job {job.job_id})."
                    log.write(f"{wrong}\n".encode("utf-8", "replace"))
        return wrong


#: A store that could not be used is tried again after so many seconds.
_RETRY_S = 1.0
#: When the daemon ends, commands of `--on-end` that still run have so long.
_COMMANDS_S = 10.0
#: Ends that the store decides by itself.
_BY_THEMSELVES = frozenset({JobState.EXPIRED, JobState.DROPPED, JobState.DEAD})
#: So many of the latest of them are published after a sweep.
_ENDS = 100
#: So many of the latest jobs are looked at when a daemon starts: the last one may have died before it wrote
#: their files.
_LATEST = 200


class Dispatcher:
    """Runs jobs.

    Args:
        folder: of the queue.
        drain_s: seconds that running jobs may take to end when the daemon is to end.
    """

    def __init__(
        self,
        store: ThreadedStore,
        workers: WorkerPool,
        publication: Publication,
        settings: QueueSettings,
        folder: Path,
        drain_s: float,
    ) -> None:
        self._store, self._workers, self._publication, self._folder = store, workers, publication, folder
        self._settings, self._drain_s = settings, drain_s
        self._running: dict[JobId, JobSupervisor] = {}
        self._awake, self._published = anyio.Event(), anyio.Event()
        self._commands, self._publishing = anyio.create_task_group(), anyio.Lock()
        self._tidied = ""
        self._started = time.monotonic()
        self._draining = False
        self._drained = anyio.Event()
        self._last_fault = ""
        self._sweeps = 0
        self._slots_per_job = max(1, auto_slots(read_machine()) // store.slots)

    async def run(self) -> None:
        """Start jobs until the daemon is drained, and wait for the running ones."""
        async with self._commands:
            await self._run()
            self._commands.cancel_scope.deadline = anyio.current_time() + _COMMANDS_S

    async def _run(self) -> None:
        async with anyio.create_task_group() as group:
            await self._catch_up()
            while not self._draining:
                self._awake = anyio.Event()
                pause_s = await self._fill(group)
                with anyio.move_on_after(pause_s) as scope:
                    await self._awake.wait()
                if scope.cancelled_caught:  # something is due by time
                    await self._publish_ends()
            group.start_soon(self._wind_up)

    async def _fill(self, group: TaskGroup) -> float | None:
        """Start what may start; return the seconds until something is due by time."""
        try:
            while self._has_room() and not self._draining:
                job = await self._claim()
                if job is None:
                    break
                self._start(group, job)
            sweeps = await self._store.do(lambda store, now: store.sweep(now))
            if sweeps != self._sweeps:
                self._sweeps = sweeps
                await self._publish_ends()
            pause_s = await self._store.do(lambda store, now: store.next_change(now))
        except QueueDamaged:
            raise  # an operator has to move the file away, which needs that no process has it open
        except EnvironmentFault as fault:  # the disk is full, or a stopped process holds the store
            self._last_fault = str(fault)
            return _RETRY_S
        # Overdue without room is the lease of a job that is being broken off: its end wakes us.
        return _RETRY_S if pause_s == 0 and not self._has_room() else pause_s

    async def _claim(self) -> Job | None:
        worker, ending = f"daemon {os.getpid()}", len(self._running)
        return await self._store.do(lambda store, now: store.claim(worker, now, ending=ending))

    def _has_room(self) -> bool:
        """Return whether one more job may start; beside a suspect none may, even while that one ends."""
        alone = any(supervisor.job.suspect for supervisor in self._running.values())
        return len(self._running) < self._store.slots and not alone

    def _start(self, group: TaskGroup, job: Job) -> None:
        supervisor = JobSupervisor(job=job, workers=self._workers, store=self._store, settings=self._settings)
        self._running[job.job_id] = supervisor
        group.start_soon(self._attend, supervisor)

    async def _attend(self, supervisor: JobSupervisor) -> None:
        job_id = supervisor.job.job_id
        try:
            await supervisor.run(self._slots_per_job)
        except Exception as error:  # noqa: BLE001 - a defect costs this job its lease, not the others their daemon
            self._last_fault = f"Job {job_id}: {type(error).__name__}: {error}"
        finally:
            if self._running.get(job_id) is supervisor:  # else it failed, and has been claimed again
                del self._running[job_id]
            self.wake()
            if self._draining and not self._running:
                self._drained.set()
        await self._publish(job_id)

    # --- ends ------------------------------------------------------------------------------------------

    async def _publish(self, job_id: JobId) -> None:
        """Publish the state of a job that may have ended: its file first, then to clients that wait."""
        try:
            async with self._publishing:
                job = await self._job(job_id)
                if job.fault and job.state is not JobState.DONE:
                    self._last_fault = f"{job.fault} (job {job_id})"
                if self._publication.is_out_of_date(job):
                    await anyio.to_thread.run_sync(self._publication.write, job)
                    self._commands.start_soon(self._run_command, job)
            await self._tidy()
        except (OSError, EnvironmentFault) as error:  # its result is in the queue, with or without a file
            self._last_fault = str(error)
        self._published.set()
        self._published = anyio.Event()

    async def _run_command(self, job: Job) -> None:
        try:
            wrong = await self._publication.run_command(job)
        except OSError as error:
            wrong = str(error)
        self._last_fault = wrong or self._last_fault

    async def _tidy(self) -> None:
        """Remove snapshots that no job needs; once a day, as they are kept by the day."""
        today = time.strftime("%Y-%m-%d", time.gmtime())
        if today != self._tidied:
            self._tidied = today
            needed = await self._store.do(lambda store, _now: store.snapshots())
            await anyio.to_thread.run_sync(remove_unneeded, self._folder, needed)

    async def _job(self, job_id: JobId) -> Job:
        return await self._store.do(lambda store, _now: store.job(job_id))

    async def _publish_ends(self) -> None:
        """Publish the ends that the store decided by itself."""
        try:
            ended = await self._store.do(lambda store, _now: store.jobs(states=_BY_THEMSELVES, limit=_ENDS))
            for job in ended:
                if self._publication.is_out_of_date(job):
                    await self._publish(job.job_id)
        except EnvironmentFault as fault:
            self._last_fault = str(fault)

    async def _catch_up(self) -> None:
        """Take over from a daemon that was killed: requeue its jobs, and write missing files.

        There is one daemon per folder, so its workers are dead or about to end, and its claims end here. A
        daemon that drained leaves none; so a job may have killed this one, and its attempt counts.
        """
        running = await self._store.do(lambda store, _now: store.jobs(states={JobState.RUNNING}))
        for job in running:
            await self._abandon(job)
        if running:
            names = ", ".join(job.job_id for job in running)
            self._last_fault = f"The daemon before this one died while these jobs ran: {names}."
        for job in await self._store.do(lambda store, _now: store.jobs(limit=_LATEST)):
            if self._publication.is_out_of_date(job):
                await self._publish(job.job_id)

    async def _abandon(self, job: Job) -> None:
        with suppress(LeaseLost):  # cancelled meanwhile, by a client that works on the files
            await self._store.do(lambda store, now: store.abandon(job.job_id, job.fence, now))

    # --- the end of the daemon -------------------------------------------------------------------------

    def end(self) -> None:
        """Start no more jobs; end when the running ones have ended or `drain_s` is over; again: at once."""
        if self._draining or not self._running:
            self._drained.set()
        self._draining = True
        self.wake()

    async def _wind_up(self) -> None:
        """Wait for running jobs, then kill them and send them back to the queue."""
        with anyio.move_on_after(self._drain_s):
            await self._drained.wait()
        async with anyio.create_task_group() as group:
            for supervisor in tuple(self._running.values()):
                group.start_soon(supervisor.break_off, AbortReason.DRAINED)

    # --- for the request handler -------------------------------------------------------------------------

    def wake(self) -> None:
        """Look at the queue: a job may be able to start."""
        self._awake.set()

    async def look(self, job_id: str) -> None:
        """Look at what a client did to the store: kill a job that was cancelled, and publish ends.

        Args:
            job_id: of the job that may have ended, or come back; empty: none.
        """
        if job_id:
            supervisor = self._running.get(JobId(job_id))
            if supervisor is not None and (await self._job(JobId(job_id))).state is JobState.CANCELLED:
                await supervisor.break_off(AbortReason.CANCELLED)
            await self._publish(JobId(job_id))
        elif self._settings.overflow is Overflow.DROP_OLDEST:
            await self._publish_ends()
        self.wake()

    async def wait(self, job_id: str, max_s: float) -> None:
        """Return when a job is final, or after so many seconds; negative: no limit."""
        with anyio.move_on_after(max_s if max_s >= 0 else None):
            while True:
                published = self._published
                if (await self._job(JobId(job_id))).state in FINAL:
                    return
                await published.wait()

    def info(self) -> DaemonInfo:
        """Return the state of the daemon."""
        now = time.monotonic()
        leases = {job_id: now - supervisor.lease_at for job_id, supervisor in self._running.items()}
        return DaemonInfo(
            pid=os.getpid(),
            version=__version__,
            slots=self._store.slots,
            slots_busy=len(self._running),
            workers=tuple(
                WorkerInfo(w.pid, w.job_id, w.repository, w.progress, leases.get(JobId(w.job_id), 0.0))
                for w in self._workers.workers
            ),
            draining=self._draining,
            up_s=now - self._started,
            last_fault=self._workers.trouble or self._last_fault,
        )
