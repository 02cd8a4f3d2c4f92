"""The queue itself: jobs go in, are claimed, and get one result each; every call is one transaction.

A call that has returned is on the disk. Processes and threads may use one queue at once; each process opens
it for itself. What the calls mean stands in `docs/explanation/queue.md`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.database.file_setup import DatabaseFileCheck, open_database
from codeflash_parallel.queue.database.network_filesystem import NameOf
from codeflash_parallel.queue.jobs import Instant, Job, JobKind, JobRequest, JobState, QueuePlace, Receipt
from codeflash_parallel.queue.policy.scheduling_policy import cost_us, pick
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store import job_rows
from codeflash_parallel.queue.store.accounts import Accounts
from codeflash_parallel.queue.store.admission import JobAdmission
from codeflash_parallel.queue.store.expiry import DAEMON_DIED, ExpirySweep
from codeflash_parallel.queue.store.policy_inputs import PolicyInputReader
from codeflash_parallel.queue.store.position_query import PositionQuery
from codeflash_parallel.queue.store.state_transitions import Transitions
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.queue.metrics import QueueHealth

__all__ = ["DatabaseFileCheck", "Store"]

#: Where the machine does not say what it bears.
_FEW_SLOTS = 3


class Store:
    """The queue in a folder; made by `Store.open`."""

    def __init__(self, database: Database, settings: QueueSettings) -> None:
        #: Jobs that may run at once.
        self.slots = settings.max_concurrent or _bearable()
        self._database = database
        self._accounts = Accounts(database, settings.weights)
        self._transitions = Transitions(database, self._accounts, settings)
        self._sweep = ExpirySweep(database, self._transitions, settings)
        self._admission = JobAdmission(database, self._accounts, self._transitions, settings)
        self._painter = PolicyInputReader(database, self._accounts, settings, self.slots)
        self._placing = PositionQuery(database, self._painter)

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        settings: QueueSettings,
        check: DatabaseFileCheck = DatabaseFileCheck.HEADER,
        name_of: NameOf | None = None,
    ) -> Iterator[Store]:
        """Open the queue in a folder, and make it if there is none.

        Args:
            check: how far the file is looked at.
            name_of: how the name of the folder's file system is found out.

        Raises:
            EnvironmentFault: `NETWORK_FILE_SYSTEM`, `OTHER_QUEUE_VERSION`, `QUEUE_BUSY`, `QUEUE_DISK_FULL`,
                `QUEUE_UNFIT` or `QUEUE_DAMAGED`.
        """
        with open_database(folder, check, name_of) as database:
            yield cls(database, settings)

    def submit(self, request: JobRequest, now: Instant) -> Receipt:
        """Take a job, or return the one that has its key: it waits, runs, is done, or is dead.

        Raises:
            Refused: nothing has been changed.
        """
        with self._database.changing(now) as clock:
            now_ms = clock.at(now)
            self._sweep.all(now_ms)
            known = job_rows.find_key(self._database, request.key)
            job_id = known["job_id"] if known else self._admission.admit(request, now_ms, now)
        # The place is looked up while others may write again.
        with self._database.reading():
            row = job_rows.find(self._database, job_id)
            place = self._placing.place(row, now_ms)
            return Receipt(job=job_rows.job_of(row), place=place, is_new=known is None)

    def claim(self, worker: str, now: Instant, *, kinds: Collection[JobKind], ending: int = 0) -> Job | None:
        """Give a worker the job that is next of those kinds; `None` where none may start.

        Args:
            ending: jobs of its own whose end the queue knows, but whose processes may not be gone.
        """
        with self._database.changing(now) as clock:
            now_ms = clock.at(now)
            self._sweep.all(now_ms)
            picture = self._painter.picture(now_ms)
            picked = pick(picture, kinds, ending)
            if picked is None:
                return None
            chosen = (picked.lane.share, picked.lane.submitter)
            self._accounts.lift(picked.passed_shares, picked.passed_submitters, chosen)
            row = self._painter.first(picked.lane)
            self._transitions.start(row, worker, now_ms, picture.submitters[chosen])
            return job_rows.job_of(job_rows.find(self._database, row["job_id"]))

    def heartbeat(self, job_id: str, fence: int, progress: str, now: Instant) -> None:
        """Say that a job's worker lives and gets on.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        with self._database.changing(now) as clock:
            row = job_rows.find_held(self._database, job_id, fence)
            now_ms = clock.at(now)
            self._database.execute(
                "UPDATE jobs SET beat_ms = ?, lease_ms = ?, progress = ? WHERE number = ?",
                (now_ms, self._transitions.lease_end(now_ms), progress, row["number"]),
            )

    def complete(
        self, job_id: str, fence: int, result: str, now: Instant, *, cpu_s: float, wall_s: float
    ) -> None:
        """Give a job its one result.

        Raises:
            LeaseLost: the job is not this worker's any more; the result is not taken.
        """
        with self._database.changing(now) as clock:
            row = job_rows.find_held(self._database, job_id, fence)
            cost = max(1, cost_us(cpu_s, wall_s))
            self._accounts.settle(row, cost)
            self._accounts.learn(row, cost, round(wall_s * 1e6))
            self._transitions.finish(row, result, clock.at(now), cpu_s, wall_s)

    def fail(
        self,
        job_id: str,
        fence: int,
        now: Instant,
        *,
        fault: str,
        machinery: bool,
        last_output: str,
        cpu_s: float,
        wall_s: float,
    ) -> JobState:
        """Say that an attempt has crashed, or that the machine has broken it.

        Args:
            fault: why, a code first.
            machinery: it was the machine's fault: nothing is charged, and the next attempt waits a little.

        Returns:
            `QUEUED`, or `DEAD` when the attempts are used up.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        said = {"fault": fault, "last_output": last_output}
        with self._database.changing(now) as clock:
            row = job_rows.find_held(self._database, job_id, fence)
            if machinery:
                return self._transitions.break_off(row, clock.at(now), **said)
            spent = self._transitions.spent(row, cpu_s, wall_s)
            return self._transitions.crash(
                row, clock.at(now), max(1, cost_us(cpu_s, wall_s)), **said, **spent
            )

    def abandon(self, job_id: str, fence: int, now: Instant) -> JobState:
        """End an attempt whose daemon died without a word: it crashed, unless the machine went down.

        Returns:
            `QUEUED`, or `DEAD` when the attempts are used up.

        Raises:
            LeaseLost: the job is not that daemon's any more.
        """
        with self._database.changing(now) as clock:
            row = job_rows.find_held(self._database, job_id, fence)
            return self._sweep.take_back(row, clock.at(now), DAEMON_DIED)

    def release(self, job_id: str, fence: int, now: Instant) -> None:
        """Send a job back to its place in the queue; the attempt is not counted, and not charged.

        Raises:
            LeaseLost: the job is not this worker's any more.
        """
        with self._database.changing(now):
            row = job_rows.find_held(self._database, job_id, fence)
            self._accounts.settle(row, 0)
            self._transitions.requeue(row)

    def cancel(self, job_id: str, now: Instant) -> JobState:
        """Cancel a job that waits or runs, not one that has ended; return the state that it has now."""
        with self._database.changing(now) as clock:
            row = job_rows.find(self._database, job_id)
            state = JobState(row["state"])
            now_ms = clock.at(now)
            if state not in {JobState.QUEUED, JobState.RUNNING}:
                return state
            spent = self._transitions.stop(row, now_ms) if state is JobState.RUNNING else {}
            self._transitions.end(row, JobState.CANCELLED, now_ms, **spent)
            return JobState.CANCELLED

    def retry(self, job_id: str, now: Instant) -> QueuePlace:
        """Send a dead job to the end of the queue, with all its attempts anew.

        Raises:
            UsageError: `NOT_DEAD`.
        """
        with self._database.changing(now) as clock:
            row = job_rows.find(self._database, job_id)
            if row["state"] != JobState.DEAD:
                raise UsageError(
                    "NOT_DEAD", f"Job {job_id} is {row['state']}, not dead.", "Only dead jobs are retried."
                )
            now_ms = clock.at(now)
            self._admission.readmit(row, now_ms)
            return self._placing.place(job_rows.find(self._database, job_id), now_ms)

    def pause(self, now: Instant) -> None:
        """Let no job start until `unpause`; those that run go on."""
        with self._database.changing(now):
            self._database.update("queue", {"one": 1}, {"paused": 1})

    def unpause(self, now: Instant) -> None:
        """Let jobs start again."""
        with self._database.changing(now):
            self._database.update("queue", {"one": 1}, {"paused": 0})

    def job(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            UnknownJob: there is none.
        """
        with self._database.reading():
            return job_rows.job_of(job_rows.find(self._database, job_id))

    def by_key(self, key: str) -> Job | None:
        """Return the job that answers for a key, if there is one: it waits, runs, is done, or is dead."""
        with self._database.reading():
            row = job_rows.find_key(self._database, key)
            return job_rows.job_of(row) if row is not None else None

    def jobs(
        self, *, states: Collection[JobState] = (), submitter: str = "", run: str = "", limit: int = 0
    ) -> tuple[Job, ...]:
        """Return jobs, the newest first; what is empty or 0 does not choose."""
        with self._database.reading():
            return tuple(
                map(job_rows.job_of, job_rows.find_all(self._database, states, submitter, run, limit))
            )

    def place(self, job_id: str, now: Instant, token_busy: bool = False) -> QueuePlace:  # noqa: FBT001, FBT002 - a fact
        """Return where a job stands, by the rule that schedules; 0 for one that is not queued."""
        with self._database.looking(now, self._sweep.is_due) as clock:
            now_ms = clock.at(now)
            self._sweep.all(now_ms)
            return self._placing.place(job_rows.find(self._database, job_id), now_ms, token_busy=token_busy)

    def sweep(self, now: Instant) -> int:
        """Do to jobs that wait what is due by time; return how often this store has done so."""
        with self._database.looking(now, self._sweep.is_due) as clock:
            self._sweep.waiting(clock.at(now))
        return self._sweep.times

    def next_change(self, now: Instant) -> float | None:
        """Return the seconds until time alone changes something, `None` if nothing will; 0: it has."""
        with self._database.reading():
            now_ms = self._database.clock().at(now)
            then_ms = self._sweep.next_change_ms(now_ms)
            return None if then_ms is None else max(0.0, (then_ms - now_ms) / 1000)

    def health(self, now: Instant) -> QueueHealth:
        """Return how the queue does."""
        with self._database.reading():
            from codeflash_parallel.queue.store.metrics_query import read_health

            return read_health(self._database, self.slots, self._database.clock().at(now))


def _bearable() -> int:
    try:
        from codeflash_parallel.process.machine import auto_slots, read_machine

        return auto_slots(read_machine())
    except OSError:
        return _FEW_SLOTS
