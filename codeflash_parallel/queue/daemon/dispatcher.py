"""Start jobs when they may start, and see to their ends. Nothing is done on a fixed interval."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial

import anyio
from anyio.abc import TaskGroup

from codeflash_parallel import __version__
from codeflash_parallel.process.machine import auto_slots, read_machine
from codeflash_parallel.queue.daemon.job_supervisor import AbortReason, JobSupervisor
from codeflash_parallel.queue.daemon.notifications import Notifications
from codeflash_parallel.queue.daemon.result_files import LATEST, ResultFiles
from codeflash_parallel.queue.daemon.store_threads import ThreadedStore
from codeflash_parallel.queue.daemon.worker_pool import WorkerPool
from codeflash_parallel.queue.errors import LeaseLost, QueueDamaged, UnknownJob
from codeflash_parallel.queue.jobs import Instant, Job, JobId, JobKind, JobState, Overflow
from codeflash_parallel.queue.protocol.messages import DaemonInfo, WorkerInfo
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store
from codeflash_parallel.result.errors import EnvironmentFault

#: How soon the store is asked again that could not be used.
_AGAIN_S = 1.0
#: Ends that come about by themselves, inside the store.
_BY_THEMSELVES = frozenset({JobState.EXPIRED, JobState.DROPPED, JobState.DEAD})
#: How many of the latest of them are looked at.
_ENDS = 100


class Dispatcher:
    """Runs jobs (`answering.Manager`).

    Args:
        drain_s: how long jobs that run may go on when the daemon is to end.
    """

    def __init__(
        self,
        desk: ThreadedStore,
        crew: WorkerPool,
        notices: Notifications,
        files: ResultFiles,
        settings: QueueSettings,
        drain_s: float,
    ) -> None:
        self._desk, self._crew, self._notices, self._files = desk, crew, notices, files
        self._settings, self._drain_s = settings, drain_s
        self._running: dict[JobId, JobSupervisor] = {}
        self._awake = anyio.Event()
        self._begun = time.monotonic()
        self._draining = False
        self._last_fault = ""
        self._swept = 0
        self._hurry = anyio.Event()
        self._slots_each = max(1, auto_slots(read_machine()) // desk.slots)

    async def run(self) -> None:
        """Start what may start until the daemon is drained, and wait for what runs."""
        async with anyio.create_task_group() as group:
            await self._catch_up()
            while not self._draining:
                self._awake = anyio.Event()
                pause_s = await self._fill(group)
                with anyio.move_on_after(pause_s) as scope:
                    await self._awake.wait()
                if scope.cancelled_caught:  # time itself has changed something
                    await self._publish_ends()
            group.start_soon(self._wind_up)

    async def _fill(self, group: TaskGroup) -> float | None:
        """Start what may start; return after how many seconds time alone changes something."""
        try:
            while self._has_room() and not self._draining:
                job = await self._desk.do(partial(_claim, f"daemon {os.getpid()}", len(self._running)))
                if job is None:
                    break
                self._start(group, job)
            await self._sweep()
            pause_s = await self._desk.do(lambda store, now: store.next_change(now))
        except QueueDamaged:
            raise  # the next daemon makes the file anew, which it can while nobody has it open
        except EnvironmentFault as fault:  # the disk is full, or a stopped process holds the store
            self._last_fault = str(fault)
            return _AGAIN_S
        # What is overdue then is the lease of a job that is being broken off: its end wakes us.
        return _AGAIN_S if pause_s == 0 and not self._has_room() else pause_s

    async def _sweep(self) -> None:
        """Do what is due by time, also where no slot is free, and publish what any sweep has ended."""
        swept = await self._desk.do(lambda store, now: store.sweep(now))
        if swept != self._swept:
            self._swept = swept
            await self._publish_ends()

    def _has_room(self) -> bool:
        """Say whether one more may start; beside a suspect none does, not even while that ends."""
        alone = any(attending.job.suspect for attending in self._running.values())
        return len(self._running) < self._desk.slots and not alone

    def _start(self, group: TaskGroup, job: Job) -> None:
        attending = JobSupervisor(
            job=job,
            crew=self._crew,
            desk=self._desk,
            settings=self._settings,
            on_progress=lambda told: self._notices.tell(told.job_id),
        )
        self._running[job.job_id] = attending
        group.start_soon(self._attend, attending)

    async def _attend(self, attending: JobSupervisor) -> None:
        job_id = attending.job.job_id
        self._notices.tell(job_id)
        try:
            await attending.run(self._slots_each)
        except Exception as error:  # noqa: BLE001 - a defect costs this job its lease, not the others their daemon
            self._last_fault = f"Job {job_id}: {type(error).__name__}: {error}"
        finally:
            if self._running.get(job_id) is attending:  # it failed, and is claimed again already, as another
                del self._running[job_id]
            self.wake()
            if self._draining and not self._running:
                self._hurry.set()
        await self.tell_ended(job_id)

    # --- ends ------------------------------------------------------------------------------------------

    async def tell_ended(self, job_id: JobId) -> None:
        """Publish how a job stands, if it has ended: the file first, then those who wait."""
        try:
            job = await self._desk.do(partial(_job, job_id))
            await self._write_file(job)
            if job.fault and job.state is not JobState.DONE:
                self._last_fault = f"{job.fault} (job {job_id})"
        except (OSError, EnvironmentFault) as error:
            self._last_fault = str(error)
        self._notices.tell(job_id)

    async def _write_file(self, job: Job) -> None:
        """Write the file of a job that has ended; where that fails, its result is still in the queue."""
        try:
            await anyio.to_thread.run_sync(self._files.write, job)
        except OSError as error:
            self._last_fault = str(error)

    async def _publish_ends(self) -> None:
        """Publish what has ended inside the store: who expired, was dropped, or lost his last lease."""
        try:
            ended = await self._desk.do(lambda store, _now: store.jobs(states=_BY_THEMSELVES, limit=_ENDS))
            for job in [job for job in ended if self._files.is_out_of_date(job)]:
                await self.tell_ended(job.job_id)
        except EnvironmentFault as fault:
            self._last_fault = str(fault)
        self._notices.tell_all()

    async def _catch_up(self) -> None:
        """Go on where a daemon that was killed has left off: what it ran goes back, what it owes is written.

        We are the only daemon of this folder, so whoever ran these jobs is dead or about to end, and his
        claims end here. One that drained has none; so a job may have killed this one, and its attempt counts.
        """
        running = await self._desk.do(
            lambda store, _now: store.jobs(states=frozenset({JobState.RUNNING}), limit=0)
        )
        for job in running:
            await self._desk.do(partial(_abandon, job))
        if running:
            names = ", ".join(job.job_id for job in running)
            self._last_fault = f"The daemon before this one died while these jobs ran: {names}."
        latest = await self._desk.do(lambda store, _now: store.jobs(limit=LATEST))
        for job in [job for job in latest if self._files.is_out_of_date(job)]:
            await self._write_file(job)

    # --- the end of the daemon -------------------------------------------------------------------------

    def end(self) -> None:
        """Start no more jobs, and end when those that run have ended or their time is up; again: at once."""
        if self._draining or not self._running:
            self._hurry.set()
        self._draining = True
        self.wake()

    async def _wind_up(self) -> None:
        """Wait for what runs, then send it back to the queue; its processes are dead when this returns."""
        with anyio.move_on_after(self._drain_s):
            await self._hurry.wait()
        async with anyio.create_task_group() as group:
            for attending in tuple(self._running.values()):
                group.start_soon(attending.break_off, AbortReason.DRAINED)

    # --- Manager ---------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look at the queue: something may start."""
        self._awake.set()

    async def submitted(self) -> None:
        """Look at the queue: there is one more job, and perhaps another one less."""
        self.wake()
        if self._settings.overflow is Overflow.DROP_OLDEST:
            await self._publish_ends()

    async def end_job(self, job_id: JobId) -> None:
        """Kill a job that has been cancelled, if it runs."""
        attending = self._running.get(job_id)
        if attending is not None:
            await attending.break_off(AbortReason.CANCELLED)

    async def look(self) -> None:
        """Look at what somebody else has done to the store: publish ends, and kill what was cancelled."""
        for job_id in tuple(self._running):
            try:
                job = await self._desk.do(partial(_job, job_id))
            except UnknownJob:
                continue
            if job.state is JobState.CANCELLED:
                await self.end_job(job_id)
        await self._publish_ends()
        self.wake()

    def progress_of(self, job_id: JobId) -> str:
        """Return what the worker of a job said last."""
        attending = self._running.get(job_id)
        return attending.worker.progress if attending and attending.worker else ""

    def info(self) -> DaemonInfo:
        """Say what runs."""
        now = time.monotonic()
        leases = {job_id: now - attending.lease_at for job_id, attending in self._running.items()}
        workers = tuple(
            WorkerInfo(
                pid=worker.pid,
                job_id=worker.job_id,
                warm_for=worker.repository,
                progress=worker.progress,
                lease_age_s=leases.get(JobId(worker.job_id), 0.0),
            )
            for worker in self._crew.workers
        )
        return DaemonInfo(
            pid=os.getpid(),
            version=__version__,
            slots=self._desk.slots,
            slots_busy=len(self._running),
            workers=workers,
            draining=self._draining,
            up_s=now - self._begun,
            last_fault=self._crew.trouble or self._last_fault,
        )


def _job(job_id: JobId, store: Store, _now: Instant) -> Job:
    return store.job(job_id)


def _claim(worker: str, ending: int, store: Store, now: Instant) -> Job | None:
    return store.claim(worker, now, kinds=frozenset(JobKind), ending=ending)


def _abandon(job: Job, store: Store, now: Instant) -> None:
    with suppress(LeaseLost):  # cancelled meanwhile, by somebody who works on the files
        store.abandon(job.job_id, job.fence, now)
