"""The durable job store: jobs are submitted, claimed, and get one result each; every call is one transaction.

A call that has returned is on the disk. Processes and threads may use one queue at once; each process opens
it for itself. `docs/explanation/queue.md` describes the calls.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeflash_parallel.queue.jobs import (
    Fence,
    Instant,
    Job,
    JobId,
    JobKind,
    JobRequest,
    JobState,
    Priority,
    QueuePlace,
    Receipt,
)
from codeflash_parallel.queue.policy import cost_us, pick
from codeflash_parallel.queue.queue_errors import LeaseLost, UnknownJob
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts
from codeflash_parallel.queue.store.database import Database, DatabaseFileCheck, open_database
from codeflash_parallel.queue.store.job_lifecycle import DAEMON_DIED, JobLifecycle
from codeflash_parallel.result.candidate_model import digest_of
from codeflash_parallel.result.codec import from_plain, to_plain
from codeflash_parallel.result.errors import UsageError

if TYPE_CHECKING:
    from codeflash_parallel.queue.metrics import QueueHealth

__all__ = ["DatabaseFileCheck", "Store"]

#: Fields of a job that are columns of the same name.
_SAME = frozenset(
    {
        "number", "key", "submitter", "run", "crashes", "machinery_faults", "payload", "result", "fault",
        "last_output", "progress", "cpu_s", "wall_s",
    }
)  # fmt: skip

#: Slots where the machine's figures cannot be read.
_FEW_SLOTS = 3


class Store:
    """The queue in a folder; made by `Store.open`."""

    def __init__(self, database: Database, settings: QueueSettings, pass_env: Sequence[str] = ()) -> None:
        #: Names and patterns of the variables that the daemon passes on.
        self.pass_env = pass_env
        #: Jobs that may run at once.
        self.slots = settings.max_concurrent or _auto_slots()
        self._database = database
        self._accounts = Accounts(database, settings, self.slots)
        self._lifecycle = JobLifecycle(database, self._accounts, settings)

    @classmethod
    @contextmanager
    def open(
        cls,
        folder: Path,
        settings: QueueSettings,
        check: DatabaseFileCheck = DatabaseFileCheck.HEADER,
    ) -> Iterator[Store]:
        """Open the queue in a folder; create it if there is none.

        Raises:
            EnvironmentFault: see `database.open_database`.
        """
        with open_database(folder, check) as database:
            yield cls(database, settings)

    @classmethod
    def under_rules(cls, database: Database, rules: str, settings: QueueSettings) -> Store:
        """Return the store under the rules of the daemon that served last.

        Args:
            rules: of `Database.rules`.
            settings: rules that hold if none has served yet.
        """
        if not rules:
            return cls(database, settings)
        served = json.loads(rules)
        return cls(database, from_plain(QueueSettings, served["settings"]), served["pass_env"])

    def serve(self, settings: QueueSettings, pass_env: Sequence[str], now: Instant) -> None:
        """Let clients use the rules of the daemon."""
        resolved = replace(settings, max_concurrent=self.slots)
        rules = json.dumps({"settings": to_plain(resolved), "pass_env": list(pass_env)})
        with self._database.changing(now):
            self._database.execute("UPDATE queue SET rules = ?", (rules,))

    def submit(self, request: JobRequest, now: Instant) -> Receipt:
        """Take a job, or return the one with its key that is queued, running, done or dead.

        Raises:
            Refused: nothing has been changed.
        """
        with self._database.changing(now) as now_ms:
            self._lifecycle.sweep(now_ms)
            known = self._find_key(request.key)
            job_id = known["job_id"] if known else self._lifecycle.admit(request, now_ms, now)
        # Other processes may write again while the place is computed.
        with self._database.reading():
            row = self._find(job_id)
            place = self._accounts.place(row, now_ms)
            return Receipt(job=_job_of(row), place=place, is_new=known is None)

    def claim(self, worker: str, now: Instant, *, ending: int = 0) -> Job | None:
        """Give a worker the next job; `None` if none may start.

        Args:
            ending: number of its jobs that have ended for the queue, but whose processes may still exist.
        """
        with self._database.changing(now) as now_ms:
            self._lifecycle.sweep(now_ms)
            inputs = self._accounts.read(now_ms)
            picked = pick(inputs, ending)
            if picked is None:
                return None
            chosen = (picked.lane.share, picked.lane.submitter)
            self._accounts.catch_up(picked.passed_shares, picked.passed_submitters, chosen)
            row = self._accounts.first(picked.lane)
            self._lifecycle.start(row, worker, now_ms, inputs.submitters[chosen])
            return _job_of(self._find(row["job_id"]))

    # --- reports of workers: they raise `LeaseLost`, and change nothing, if the claim has been lost ---------

    @contextmanager
    def _report(self, job_id: str, fence: int, now: Instant) -> Iterator[tuple[sqlite3.Row, int]]:
        with self._database.changing(now) as now_ms:
            yield self._find_held(job_id, fence), now_ms

    def heartbeat(self, job_id: str, fence: int, progress: str, now: Instant) -> None:
        """Renew the lease of a job."""
        with self._report(job_id, fence, now) as (row, now_ms):
            lease_ms = self._lifecycle.lease_end_ms(now_ms)
            columns = {"beat_ms": now_ms, "lease_ms": lease_ms, "progress": progress}
            self._database.update_job(row["number"], columns)

    def complete(
        self,
        job_id: str,
        fence: int,
        result: str,
        now: Instant,
        *,
        cpu_s: float,
        wall_s: float,
        is_error: bool = False,
    ) -> None:
        """Give a job its one result.

        Args:
            is_error: the result holds for this job only, and not for its key: a missing package may be
                installed before the next submission.
        """
        with self._report(job_id, fence, now) as (row, now_ms):
            cost = max(1, cost_us(cpu_s, wall_s))
            self._accounts.settle(row, now_ms, cost)
            self._accounts.learn(row, cost, round(wall_s * 1e6))
            spent = self._lifecycle.spend(row, cpu_s, wall_s)
            key = digest_of(f"{row['key']} {job_id}".encode()) if is_error else row["key"]
            ended = {"result": result, "fault": "", "suspect": 0, "key": key}
            self._lifecycle.end(row, JobState.DONE, now_ms, **ended, **spent)

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
        """End an attempt that crashed, or that the machine broke.

        Args:
            fault: why, a code first.
            machinery: the machine's fault: nothing is charged, and the next attempt starts after a pause.

        Returns:
            `QUEUED`, or `DEAD` when the attempts are used up.
        """
        said = {"fault": fault, "last_output": last_output}
        with self._report(job_id, fence, now) as (row, now_ms):
            if machinery:
                return self._lifecycle.break_off(row, now_ms, **said)
            spent = self._lifecycle.spend(row, cpu_s, wall_s)
            return self._lifecycle.crash(row, now_ms, max(1, cost_us(cpu_s, wall_s)), **said, **spent)

    def abandon(self, job_id: str, fence: int, now: Instant) -> JobState:
        """End an attempt whose daemon died: it crashed, unless the machine went down.

        Returns:
            `QUEUED`, or `DEAD` when the attempts are used up.
        """
        with self._report(job_id, fence, now) as (row, now_ms):
            return self._lifecycle.take_back(row, now_ms, DAEMON_DIED)

    def release(self, job_id: str, fence: int, now: Instant) -> None:
        """Send a job back to its place in the queue; the attempt is neither counted nor charged."""
        with self._report(job_id, fence, now) as (row, now_ms):
            self._accounts.settle(row, now_ms, 0)
            self._lifecycle.requeue(row)

    # --- operators -----------------------------------------------------------------------------------------

    def cancel(self, job_id: str, now: Instant) -> JobState:
        """Cancel a job unless it has ended; return its state."""
        with self._database.changing(now) as now_ms:
            row = self._find(job_id)
            state = JobState(row["state"])
            if state not in {JobState.QUEUED, JobState.RUNNING}:
                return state
            spent = {}
            if state is JobState.RUNNING:
                self._accounts.settle(row, now_ms, max(1, (now_ms - row["claimed_ms"]) * 1000))
                spent = self._lifecycle.spend_unmeasured(row, now_ms)
            self._lifecycle.end(row, JobState.CANCELLED, now_ms, **spent)
            return JobState.CANCELLED

    def retry(self, job_id: str, now: Instant) -> QueuePlace:
        """Send a dead job to the end of the queue with new attempts.

        Raises:
            UsageError: `NOT_DEAD`.
        """
        with self._database.changing(now) as now_ms:
            row = self._find(job_id)
            if row["state"] != JobState.DEAD:
                raise UsageError(
                    "NOT_DEAD", f"Job {job_id} is {row['state']}, not dead.", "Only dead jobs are retried."
                )
            self._lifecycle.readmit(row, now_ms)
            return self._accounts.place(self._find(job_id), now_ms)

    def pause(self, now: Instant) -> None:
        """Start no jobs until `unpause`; running ones continue."""
        with self._database.changing(now):
            self._database.execute("UPDATE queue SET paused = 1")

    def unpause(self, now: Instant) -> None:
        """Start jobs again."""
        with self._database.changing(now):
            self._database.execute("UPDATE queue SET paused = 0")

    # --- queries -------------------------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        """Return a job.

        Raises:
            UnknownJob: there is none.
        """
        with self._database.reading():
            return _job_of(self._find(job_id))

    def jobs(
        self, *, states: Collection[JobState] = (), submitter: str = "", run: str = "", limit: int = 0
    ) -> tuple[Job, ...]:
        """Return jobs, newest first; empty arguments and 0 do not restrict."""
        marks = ", ".join("?" * len(states))
        conditions = {
            f"state IN ({marks})": [state.value for state in states],
            "submitter = ?": [submitter] if submitter else [],
            "run = ?": [run] if run else [],
        }
        chosen = {text: values for text, values in conditions.items() if values}
        where = f"WHERE {' AND '.join(chosen)}" if chosen else ""
        values = [value for values in chosen.values() for value in values]
        sql = f"SELECT * FROM jobs {where} ORDER BY number DESC LIMIT ?"  # noqa: S608 - our own text
        with self._database.reading():
            return tuple(map(_job_of, self._database.rows(sql, (*values, limit or -1))))

    def snapshots(self) -> frozenset[str]:
        """Return the places of the snapshots of jobs that may still run."""
        states = "('queued', 'running', 'dead')"  # a dead job may be retried
        with self._database.reading():
            rows = self._database.rows(f"SELECT DISTINCT snapshot FROM jobs WHERE state IN {states}")  # noqa: S608
            return frozenset(place for (place,) in rows)

    def place(self, job_id: str, now: Instant, *, token_busy: bool = False) -> QueuePlace:
        """Return the place of a job; position 0 if it is not queued."""
        with self._database.reading_unless(self._lifecycle.is_due, now) as now_ms:
            self._lifecycle.sweep(now_ms)
            return self._accounts.place(self._find(job_id), now_ms, token_busy=token_busy)

    def sweep(self, now: Instant) -> int:
        """Apply to waiting jobs what is due by time; return the number of sweeps that found something due."""
        with self._database.reading_unless(self._lifecycle.is_due, now) as now_ms:
            self._lifecycle.sweep_waiting(now_ms)
        return self._lifecycle.sweeps

    def next_change(self, now: Instant) -> float | None:
        """Return the seconds until something becomes due by time; `None` if nothing will."""
        with self._database.reading(now) as now_ms:
            then_ms = self._lifecycle.next_change_ms(now_ms)
            return None if then_ms is None else max(0.0, (then_ms - now_ms) / 1000)

    def health(self, now: Instant) -> QueueHealth:
        """Return the queue's figures."""
        with self._database.reading(now) as now_ms:
            from codeflash_parallel.queue.metrics import read_health

            return read_health(self._database, self.slots, now_ms)

    # --- rows ----------------------------------------------------------------------------------------------

    def _find(self, job_id: str) -> sqlite3.Row:
        """Return the row of a job.

        Raises:
            UnknownJob: there is none.
        """
        # All ids are ASCII, and SQLite takes no lone surrogates.
        rows = (
            self._database.rows("SELECT * FROM jobs WHERE job_id = ?", (job_id,)) if job_id.isascii() else []
        )
        if not rows:
            raise UnknownJob(job_id=job_id)
        return rows[0]

    def _find_key(self, key: str) -> sqlite3.Row | None:
        """Return the row of the job with a key that is queued, running, done or dead."""
        return self._database.row(
            "SELECT * FROM jobs WHERE key = ? AND state IN ('queued', 'running', 'done', 'dead')", (key,)
        )

    def _find_held(self, job_id: str, fence: int) -> sqlite3.Row:
        """Return the row of a job that runs with a fence.

        Raises:
            UnknownJob: there is none.
            LeaseLost: it runs with another fence, or does not run.
        """
        row = self._find(job_id)
        if row["state"] != JobState.RUNNING or row["fence"] != fence:
            raise LeaseLost(job_id=job_id, fence=fence)
        return row


def _auto_slots() -> int:
    try:
        from codeflash_parallel.process.machine import auto_slots, read_machine

        return auto_slots(read_machine())
    except OSError:
        return _FEW_SLOTS


def _job_of(row: sqlite3.Row) -> Job:
    """Return the job that a row holds."""
    return Job(
        job_id=JobId(row["job_id"]),
        kind=JobKind(row["kind"]),
        priority=Priority(row["priority"]),
        state=JobState(row["state"]),
        fence=Fence(row["fence"]),
        suspect=bool(row["suspect"]),
        submitted=Instant(
            wall_s=row["submitted_wall_s"],
            boot_s=row["submitted_boot_s"],
            boot_id=row["submitted_boot_id"],
        ),
        **{name: row[name] for name in _SAME},
    )
