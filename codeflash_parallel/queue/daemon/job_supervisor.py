"""One job from its claim to its end: its worker, lease, time and cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar, assert_never

import anyio

from codeflash_parallel.queue.daemon.worker_pool import Ending, Worker, WorkerDeath, WorkerPool
from codeflash_parallel.queue.jobs import Instant, Job, error_document, now
from codeflash_parallel.queue.queue_errors import LeaseLost
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.store import Store
from codeflash_parallel.queue.worker import Assignment, error_result
from codeflash_parallel.result.errors import EnvironmentFault, UsageError

#: Seconds between attempts to write an end to a store that cannot be written, as on a full disk.
_RETRY_S = 1.0
#: For how long. Then the lease runs out, and the job is done once more.
_REPORT_S = 120.0
#: A worker that was told to break off has so long to put its slots in order before it is killed.
_STOP_S = 15.0
#: A client waits for the end of a cancelled job. It takes 0.1 s unless the worker is stuck; killing costs a
#: new worker, which removes what the old one leaves.
_CANCEL_S = 0.5
#: Threads that wait for the store, which serves one at a time.
_THREADS = 4

_T = TypeVar("_T")


class ThreadedStore:
    """The daemon's access to the store, on threads: a slow disk does not stop the event loop."""

    def __init__(self, store: Store) -> None:
        self.slots = store.slots
        self._store = store
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def do(self, act: Callable[[Store, Instant], _T]) -> _T:
        """Return what a call of the store returns, and raise what it raises; it is not cancelled half-way."""
        return await anyio.to_thread.run_sync(lambda: act(self._store, now()), limiter=self._threads)


class AbortReason(StrEnum):
    """Why a job is broken off."""

    #: By its submitter or an operator.
    CANCELLED = "cancelled"
    #: The daemon is to end.
    DRAINED = "drained"
    #: Its `job_timeout` is over.
    TIMEOUT = "timeout"
    #: Its worker does not answer.
    STALLED = "stalled"
    #: Its lease has been lost.
    LOST = "lost"


#: Reasons for which the worker is asked first, and how long it has.
_GENTLE = {AbortReason.CANCELLED: _CANCEL_S, AbortReason.DRAINED: _STOP_S, AbortReason.TIMEOUT: _STOP_S}


@dataclass(slots=True)
class JobSupervisor:
    """A running job. Invariant: the store is told its end at most once, with its fence.

    Attributes:
        worker: performs it; `None` before it starts, or if none could be started.
        lease_at: when its lease was renewed, by the monotonic clock.
    """

    job: Job
    workers: WorkerPool
    store: ThreadedStore
    settings: QueueSettings
    worker: Worker | None = None
    lease_at: float = field(default_factory=time.monotonic)
    _over: anyio.Event = field(default_factory=anyio.Event)
    _breaking: anyio.Event = field(default_factory=anyio.Event)
    _why: AbortReason | None = None
    _begun: float = field(default_factory=time.monotonic)
    _cpu_s: float = 0.0
    _cpu_before_s: float = 0.0

    async def run(self, slots: int) -> None:
        """Have the job performed, and tell the store its end. Cancellation kills it and tells nothing."""
        try:
            ending = await self._perform(slots)
            with anyio.CancelScope(shield=True):
                await self._settle(ending)
        finally:
            self._over.set()

    async def break_off(self, why: AbortReason) -> None:
        """End the job; none of its processes runs, and the store knows, when this returns."""
        self._break(why)
        await self._over.wait()

    # --- performing ------------------------------------------------------------------------------------

    async def _perform(self, slots: int) -> Ending | EnvironmentFault:
        warm_for = _warm_key(self.job)
        try:
            self.worker = worker = self.workers.hire(warm_for)
        except EnvironmentFault as fault:
            return fault
        worker.job_id = self.job.job_id
        self._cpu_before_s = worker.cpu_s
        assignment = Assignment(
            job_id=self.job.job_id,
            fence=self.job.fence,
            kind=self.job.kind,
            payload=self.job.payload,
            slots=slots,
            sharers=self.store.slots,
        )
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_lease, worker)
                group.start_soon(self._keep_time)
                group.start_soon(self._stop_when_broken, worker, assignment)
                ending = await worker.perform(assignment)
                group.cancel_scope.cancel()
        except BaseException:
            await self.workers.kill(worker)
            raise
        else:
            return ending
        finally:
            self._measure(worker.cpu_s)
            worker.release(warm_for)
            if not worker.is_alive:
                await self.workers.kill(worker)

    def _measure(self, cpu_s: float) -> None:
        self._cpu_s = max(self._cpu_s, cpu_s - self._cpu_before_s)

    async def _keep_lease(self, worker: Worker) -> None:
        """Renew the lease while the worker answers; break the job off otherwise."""
        while True:
            answers = worker.answers
            await worker.ask()
            await anyio.sleep(self.settings.heartbeat)
            self._measure(worker.cpu_s)
            if worker.answers != answers:
                await self._renew(worker.progress)
            elif time.monotonic() - self.lease_at >= self.settings.lease - self.settings.heartbeat / 2:
                self._break(AbortReason.STALLED)  # before another daemon may claim it

    async def _renew(self, progress: str) -> None:
        job = self.job
        try:
            await self.store.do(lambda store, now: store.heartbeat(job.job_id, job.fence, progress, now))
            self.lease_at = time.monotonic()
        except LeaseLost:
            self._break(AbortReason.LOST)
        except EnvironmentFault:  # the disk is full, or the store is held: the lease still has some time
            return

    async def _keep_time(self) -> None:
        if self.settings.job_timeout:
            await anyio.sleep(self.settings.job_timeout)
            self._break(AbortReason.TIMEOUT)

    def _break(self, why: AbortReason) -> None:
        self._why = self._why or why
        self._breaking.set()

    async def _stop_when_broken(self, worker: Worker, assignment: Assignment) -> None:
        """Have the worker break off when it is time; kill one that does not, or cannot."""
        await self._breaking.wait()
        if self._why in _GENTLE:
            await worker.stop(assignment)
            await anyio.sleep(_GENTLE[self._why])
        await self.workers.kill(worker)

    # --- the end ---------------------------------------------------------------------------------------

    async def _settle(self, ending: Ending | EnvironmentFault) -> None:
        """Tell the store how the job has ended."""
        match ending:
            case {"t": "done", "result": result}:  # although it may have been broken off
                await self._complete(result)
            case _ if self._why is not None:
                await self._settle_broken(self._why, ending)
            case {"t": "faulted", "result": result} if self._is_last:
                await self._complete(
                    result
                )  # one candidate that always fails does not cost the others theirs
            case {"t": "faulted", "fault": fault, "message": message}:
                await self._fail(fault, message, machinery=True)
            case WorkerDeath(begun=begun, how=how, last_output=output):
                await self._fail("WORKER_DIED", f"The worker {how}.\n{output}", machinery=not begun)
            case EnvironmentFault(code=code):
                await self._fail(code, str(ending), machinery=True)
            case _:
                await self._release()

    async def _settle_broken(self, why: AbortReason, ending: Ending | EnvironmentFault) -> None:
        match why:
            case AbortReason.CANCELLED | AbortReason.LOST:
                return  # the store knows
            case AbortReason.DRAINED:
                await self._release()
            case AbortReason.TIMEOUT:
                hint = "Give the queue a larger job_timeout, or the job less to do."
                message = f"The job has run for {self.settings.job_timeout:g} s, as long as one may."
                await self._complete(error_result(error_document(UsageError("JOB_TIMEOUT", message, hint))))
            case AbortReason.STALLED:
                output = ending.last_output if isinstance(ending, WorkerDeath) else ""
                said = f"The worker gave no sign of life for {self.settings.lease:g} s.\n{output}"
                await self._fail("STALLED", said, machinery=False)
            case _:
                assert_never(why)

    async def _complete(self, result: Mapping[str, Any]) -> None:
        job, cost = self.job, {"cpu_s": self._cpu_s, "wall_s": self._wall_s}
        text, is_error = json.dumps({**result, "cpu_s": self._cpu_s}), bool(result.get("error"))
        await self._report(
            lambda store, now: store.complete(job.job_id, job.fence, text, now, **cost, is_error=is_error)
        )

    async def _fail(self, fault: str, last_output: str, *, machinery: bool) -> None:
        said = {"fault": fault, "machinery": machinery, "last_output": last_output}
        job, cpu_s, wall_s = self.job, self._cpu_s, self._wall_s
        await self._report(
            lambda store, now: store.fail(job.job_id, job.fence, now, **said, cpu_s=cpu_s, wall_s=wall_s)  # type: ignore[arg-type]
        )

    async def _release(self) -> None:
        job = self.job
        await self._report(lambda store, now: store.release(job.job_id, job.fence, now))

    @property
    def _is_last(self) -> bool:
        """Whether one more fault of the machine makes the job a dead one."""
        return self.job.machinery_faults + 1 >= self.settings.max_attempts

    @property
    def _wall_s(self) -> float:
        return time.monotonic() - self._begun

    async def _report(self, act: Callable[[Store, Instant], Any]) -> None:
        """Write to the store, and try again where that does not work: a result must not be lost."""
        with anyio.move_on_after(_REPORT_S):
            while True:
                try:
                    await self.store.do(act)
                except LeaseLost:  # cancelled meanwhile, or claimed by another worker
                    return
                except EnvironmentFault:
                    await anyio.sleep(_RETRY_S)
                else:
                    return


def _warm_key(job: Job) -> str:
    """Return what a worker's open evaluator has to be for: repository and settings of the job."""
    try:
        payload = json.loads(job.payload)
        return json.dumps([payload["repository"], payload["settings"]], sort_keys=True)
    except (ValueError, TypeError, KeyError):
        return ""
