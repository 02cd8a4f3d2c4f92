"""State changes of jobs, from admission to the end, and what each does to the accounts."""

from __future__ import annotations

import sqlite3
from typing import Any

from codeflash_parallel.queue.errors import QueueFull, RateLimited, SubmitterLimit, UnknownKind
from codeflash_parallel.queue.jobs import Instant, JobKind, JobRequest, JobState, Overflow, Priority
from codeflash_parallel.queue.policy import CostAccount, urgency_of
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts, share_of
from codeflash_parallel.queue.store.database import Database
from codeflash_parallel.queue.store.job_rows import new_row
from codeflash_parallel.queue.store.policy_inputs import MINUTE_MS

#: The pause after a fault of the machine doubles with each, up to this.
_LONGEST_PAUSE_MS = 60_000
_FIRST_PAUSE_MS = 1_000

_OLDEST = "SELECT * FROM jobs WHERE state = 'queued' ORDER BY queued_ms, turn LIMIT 1"
_QUEUED = "SELECT COUNT(*) FROM jobs WHERE state = 'queued'"


class JobLifecycle:
    """Moves jobs from state to state; each call is part of the caller's transaction."""

    def __init__(self, database: Database, accounts: Accounts, settings: QueueSettings) -> None:
        self._database = database
        self._accounts = accounts
        self._settings = settings

    # --- admission ---------------------------------------------------------------------------------------

    def admit(self, request: JobRequest, now_ms: int, now: Instant) -> str:
        """Insert a new job and return its id.

        Raises:
            Refused: with the limit that it meets.
        """
        if request.kind not in list(JobKind):
            raise UnknownKind(str(request.kind))
        share = share_of(request.run, request.submitter)
        self._accounts.open(share, request.submitter, now_ms)
        self._accounts.refuse_if_spent(request, share, now_ms)
        self._refuse_submitter(request.submitter)
        self._make_room(now_ms)
        return self.insert(request, share, now_ms, now)

    def insert(self, request: JobRequest, share: str, now_ms: int, now: Instant) -> str:
        """Insert a new job without looking at limits, and return its id."""
        number, queued_ms = self._next_turn(now_ms)
        due_ms = now_ms + round(request.start_after_s * 1000) if request.start_after_s > 0 else 0
        columns = new_row(request, share, number, queued_ms, due_ms, now)
        if columns["ready"]:
            self._accounts.enter(share, request.submitter, number)
        self._database.insert_job(columns)
        self._accounts.count_submission(share)
        return str(columns["job_id"])

    def readmit(self, row: sqlite3.Row, now_ms: int) -> None:
        """Send a dead job to the end of the queue with new attempts.

        Raises:
            Refused: with the limit that it meets.
        """
        self._accounts.refuse_retry_if_spent(row, now_ms)
        self._refuse_submitter(row["submitter"])
        self._make_room(now_ms)
        self.append(row, now_ms, crashes=0, machinery_faults=0, ended_ms=0, worker="")

    def _refuse_submitter(self, submitter: str) -> None:
        settings = self._settings
        if not settings.per_submitter_queued and not settings.rate_limit:
            return
        queued = self._database.number(f"{_QUEUED} AND submitter = ?", (submitter,))
        if settings.per_submitter_queued and queued >= settings.per_submitter_queued:
            raise SubmitterLimit(submitter, settings.per_submitter_queued)
        if settings.rate_limit and settings.queue_timeout:
            # As many as its rate lets start before they expire; the others would wait in vain.
            startable = int(settings.rate_limit * settings.queue_timeout / 60)
            if queued >= max(1, startable):
                raise RateLimited(submitter, 60 / settings.rate_limit * (queued - startable + 1))

    def _make_room(self, now_ms: int) -> None:
        limit = self._settings.max_queue_size
        if not limit or self._database.number(_QUEUED) < limit:
            return
        oldest = self._database.row(_OLDEST)
        if self._settings.overflow is Overflow.REJECT or oldest is None:
            raise QueueFull(limit)
        fault = f"QUEUE_FULL: a newer job took its place in a queue of {limit}"
        self.end(oldest, JobState.DROPPED, now_ms, fault=fault)

    # --- attempts ----------------------------------------------------------------------------------------

    def lease_end_ms(self, now_ms: int) -> int:
        """Return the end of a lease that is renewed now."""
        return now_ms + round(self._settings.lease * 1000)

    def start(self, row: sqlite3.Row, worker: str, now_ms: int, account: CostAccount) -> None:
        """Give a waiting job to a worker, and charge its submitter."""
        self._accounts.charge(row["share"], row["submitter"], account)
        waited_ms = row["waited_ms"] if row["waited_ms"] >= 0 else max(0, now_ms - row["queued_ms"])
        self._set(
            row,
            state=JobState.RUNNING.value,
            ready=0,
            fence=row["fence"] + 1,
            worker=worker,
            progress="",
            claimed_ms=now_ms,
            beat_ms=now_ms,
            lease_ms=self.lease_end_ms(now_ms),
            waited_ms=waited_ms,
            share_ticks=account.share_step,
            submitter_ticks=account.step,
        )
        if self._settings.rate_limit:
            self._database.execute("DELETE FROM starts WHERE started_ms <= ?", (now_ms - MINUTE_MS,))
            self._database.execute("INSERT INTO starts VALUES (?, ?)", (row["submitter"], now_ms))

    def end(self, row: sqlite3.Row, state: JobState, now_ms: int, **columns: Any) -> None:
        """Give a job a final state."""
        self._set(row, state=state.value, ready=0, ended_ms=now_ms, **columns)

    def spend(self, row: sqlite3.Row, cpu_s: float, wall_s: float) -> dict[str, float]:
        """Count an attempt against its run's budget, and return the job's sums."""
        self._accounts.spend(row["share"], cpu_s)
        return {"cpu_s": row["cpu_s"] + cpu_s, "wall_s": row["wall_s"] + wall_s}

    def spend_unmeasured(self, row: sqlite3.Row, until_ms: int) -> dict[str, float]:
        """Count an attempt whose cost nothing has measured: its wall time."""
        wall_s = max(0, until_ms - row["claimed_ms"]) / 1000
        return self.spend(row, wall_s, wall_s)

    def crash(self, row: sqlite3.Row, now_ms: int, cost_us: int, **columns: Any) -> JobState:
        """End an attempt that crashed: its submitter pays, and the next one may start at once."""
        self._accounts.settle(row, cost_us)
        crashes = row["crashes"] + 1
        if crashes >= self._settings.max_attempts:
            self.end(row, JobState.DEAD, now_ms, crashes=crashes, **columns)
            return JobState.DEAD
        self.requeue(row, crashes=crashes, **columns)
        return JobState.QUEUED

    def break_off(self, row: sqlite3.Row, now_ms: int, **columns: Any) -> JobState:
        """End an attempt that the machine broke: it costs nothing, and the next one starts after a pause."""
        self._accounts.settle(row, 0)
        faults = row["machinery_faults"] + 1
        if faults >= self._settings.max_attempts:
            self.end(row, JobState.DEAD, now_ms, machinery_faults=faults, **columns)
            return JobState.DEAD
        pause_ms = min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS << faults)
        later = {"ready": 0, "due_ms": now_ms + pause_ms, "machinery_faults": faults, "worker": ""}
        self._set(row, state=JobState.QUEUED.value, **later, **columns)
        return JobState.QUEUED

    # --- waiting -----------------------------------------------------------------------------------------

    def requeue(self, row: sqlite3.Row, **columns: Any) -> None:
        """Send a job back to its place in the queue."""
        self._wait(row, row["turn"], worker="", **columns)

    def append(self, row: sqlite3.Row, now_ms: int, **columns: Any) -> None:
        """Send a job to the end of the queue."""
        turn, queued_ms = self._next_turn(now_ms)
        urgency_ms = urgency_of(queued_ms, Priority(row["priority"]))
        self._wait(row, turn, queued_ms=queued_ms, urgency_ms=urgency_ms, **columns)

    def _wait(self, row: sqlite3.Row, turn: int, **columns: Any) -> None:
        self._accounts.enter(row["share"], row["submitter"], turn)
        self._set(row, state=JobState.QUEUED.value, ready=1, turn=turn, **columns)

    def _next_turn(self, now_ms: int) -> tuple[int, int]:
        """Return the next number of the order of insertion and its time; both only grow."""
        self._database.execute(
            "UPDATE queue SET sequence = sequence + 1, queued_ms = MAX(queued_ms, ?)", (now_ms,)
        )
        sequence, queued_ms = self._database.rows("SELECT sequence, queued_ms FROM queue")[0]
        return sequence, queued_ms

    def _set(self, row: sqlite3.Row, **columns: Any) -> None:
        self._database.update_job(row["number"], columns)
