"""State changes of jobs, by calls and by time, and what each does to the accounts."""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any

from codeflash_parallel.queue.jobs import Instant, JobKind, JobRequest, JobState, Overflow, Priority
from codeflash_parallel.queue.policy import CostAccount, urgency_of
from codeflash_parallel.queue.queue_errors import QueueFull, RateLimited, SubmitterLimit, UnknownKind
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts, share_of
from codeflash_parallel.queue.store.database import Database

#: The pause after a fault of the machine doubles with each, up to this.
_LONGEST_PAUSE_MS = 60_000
_FIRST_PAUSE_MS = 1_000

_OLDEST = "SELECT * FROM jobs WHERE state = 'queued' ORDER BY queued_ms, turn LIMIT 1"
_QUEUED = "SELECT COUNT(*) FROM jobs WHERE state = 'queued'"

#: Codes of faults that no worker reported.
LEASE_EXPIRED = "LEASE_EXPIRED"
DAEMON_DIED = "DAEMON_DIED: the daemon died while it ran"
_RESTARTED = "MACHINE_RESTARTED: the machine was started anew while it ran"

#: A job that has not begun to wait for its turn does not expire.
_WAITING = "FROM jobs WHERE state = 'queued' AND (ready = 1 OR fence > 0)"
_RUNNING = "FROM jobs WHERE state = 'running'"
_DELAYED = "FROM jobs WHERE state = 'queued' AND ready = 0"

_IS_DUE = f"""
SELECT EXISTS (SELECT 1 {_WAITING} AND queued_ms <= :oldest)
    OR EXISTS (SELECT 1 {_RUNNING} AND lease_ms <= :now) OR EXISTS (SELECT 1 {_DELAYED} AND due_ms <= :now)
"""
_NEXT_START = """
SELECT MIN(oldest_ms) FROM (
    SELECT MIN(started_ms) AS oldest_ms FROM starts
    WHERE started_ms > ? AND submitter IN (SELECT submitter FROM jobs WHERE state = 'queued' AND ready = 1)
    GROUP BY submitter HAVING COUNT(*) >= ?
)
"""


class JobLifecycle:
    """Moves jobs from state to state; each call is part of the caller's transaction.

    Attributes:
        sweeps: number of sweeps that found something due by time.
    """

    def __init__(self, database: Database, accounts: Accounts, settings: QueueSettings) -> None:
        self._database = database
        self._accounts = accounts
        self._settings, self._rate = settings, settings.start_rate
        self._timeout_ms = round(settings.queue_timeout * 1000)
        self.sweeps = 0

    # --- admission ---------------------------------------------------------------------------------------

    def admit(self, request: JobRequest, now_ms: int, now: Instant) -> str:
        """Insert a new job and return its id.

        Raises:
            Refused: with the limit that it meets.
        """
        if request.kind not in list(JobKind):
            raise UnknownKind(kind=str(request.kind))
        share = share_of(request.run, request.submitter)
        self._accounts.open(share, request.submitter, now_ms)
        self._accounts.state_budget(share, request.budget)
        self._accounts.refuse_if_spent(share, now_ms)
        self._refuse_submitter(request.submitter)
        self._make_room(now_ms)
        return self._insert(request, share, now_ms, now)

    def _insert(self, request: JobRequest, share: str, now_ms: int, now: Instant) -> str:
        number, queued_ms = self._next_turn(now_ms)
        job_id = f"{number}-{hashlib.sha256(request.key.encode()).hexdigest()[:8]}"
        due_ms = now_ms + round(request.start_after_s * 1000) if request.start_after_s > 0 else 0
        ready = due_ms <= queued_ms  # else its start time is to come
        if ready:
            self._accounts.enter(share, request.submitter, number)
        self._database.insert_job(
            {
                "number": number,
                "job_id": job_id,
                "kind": JobKind(request.kind).value,
                "key": request.key,
                "payload": request.payload,
                "snapshot": request.snapshot,
                "submitter": request.submitter,
                "run": request.run,
                "share": share,
                "priority": Priority(request.priority).value,
                "submitted_wall_s": now.wall_s,
                "submitted_boot_s": now.boot_s,
                "submitted_boot_id": now.boot_id,
                "state": JobState.QUEUED.value,
                "turn": number,
                "urgency_ms": urgency_of(queued_ms, request.priority),
                "queued_ms": queued_ms,
                "due_ms": due_ms,
                "ready": int(ready),
            }
        )
        self._accounts.count_submission(share)
        return job_id

    def readmit(self, row: sqlite3.Row, now_ms: int) -> None:
        """Send a dead job to the end of the queue with new attempts.

        Raises:
            Refused: with the limit that it meets.
        """
        self._accounts.refuse_if_spent(row["share"], now_ms, is_retry=True)
        self._refuse_submitter(row["submitter"])
        self._make_room(now_ms)
        self.append(row, now_ms, crashes=0, machinery_faults=0, ended_ms=0, worker="")

    def _refuse_submitter(self, submitter: str) -> None:
        limit, rate = self._settings.per_submitter_queued, self._rate
        if not limit and not rate:
            return
        queued = self._database.number(f"{_QUEUED} AND submitter = ?", (submitter,))
        if limit and queued >= limit:
            raise SubmitterLimit(submitter=submitter, limit=limit)
        if rate and self._timeout_ms:
            # As many as its rate lets start before they expire; the others would wait in vain.
            startable = rate.starts * self._timeout_ms // rate.window_ms
            if queued >= max(1, startable):
                wait_ms = rate.window_ms / rate.starts * (queued - startable + 1)
                raise RateLimited(submitter=submitter, retry_after_s=wait_ms / 1000)

    def _make_room(self, now_ms: int) -> None:
        limit = self._settings.max_queue_size
        if not limit or self._database.number(_QUEUED) < limit:
            return
        oldest = self._database.row(_OLDEST)
        if self._settings.overflow is Overflow.REJECT or oldest is None:
            raise QueueFull(limit=limit)
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
        if self._rate:
            begin_ms = now_ms - self._rate.window_ms
            self._database.execute("DELETE FROM starts WHERE started_ms <= ?", (begin_ms,))
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
        self._accounts.settle(row, now_ms, cost_us)
        crashes = row["crashes"] + 1
        if crashes >= self._settings.max_attempts:
            self.end(row, JobState.DEAD, now_ms, crashes=crashes, **columns)
            return JobState.DEAD
        self.requeue(row, crashes=crashes, **columns)
        return JobState.QUEUED

    def break_off(self, row: sqlite3.Row, now_ms: int, **columns: Any) -> JobState:
        """End an attempt that the machine broke: it costs nothing, and the next one starts after a pause."""
        self._accounts.settle(row, now_ms, 0)
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

    # --- due by time -------------------------------------------------------------------------------------

    def is_due(self, now_ms: int) -> bool:
        """Return whether anything is due."""
        oldest_ms = now_ms - self._timeout_ms if self._timeout_ms else -1
        return bool(self._database.number(_IS_DUE, {"oldest": oldest_ms, "now": now_ms}))

    def sweep(self, now_ms: int) -> None:
        """Expire jobs, requeue those of dead workers, and end pauses."""
        if not self.is_due(now_ms):
            return
        self._expire(now_ms)
        for row in self._database.rows(f"SELECT * {_RUNNING} AND lease_ms <= ?", (now_ms,)):
            fault = f"{LEASE_EXPIRED}: no sign of life for {self._settings.lease:g} s"
            self.take_back(row, now_ms, fault)
        self._end_pauses(now_ms)

    def sweep_waiting(self, now_ms: int) -> None:
        """Do so to waiting jobs only: the daemon may be about to report the end of a running one."""
        if self.is_due(now_ms):
            self._expire(now_ms)
            self._end_pauses(now_ms)

    def _expire(self, now_ms: int) -> None:
        self.sweeps += 1
        if not self._timeout_ms:
            return
        fault = f"QUEUE_TIMEOUT: it has waited for {self._settings.queue_timeout:g} s"
        for row in self._database.rows(
            f"SELECT * {_WAITING} AND queued_ms <= ?", (now_ms - self._timeout_ms,)
        ):
            self.end(row, JobState.EXPIRED, now_ms, fault=fault)

    def _end_pauses(self, now_ms: int) -> None:
        for row in self._database.rows(
            f"SELECT * {_DELAYED} AND due_ms <= ? ORDER BY due_ms, turn", (now_ms,)
        ):
            if row["fence"]:  # a job that comes back keeps its place
                self.requeue(row)
            else:
                self.append(row, now_ms)

    def take_back(self, row: sqlite3.Row, now_ms: int, fault: str) -> JobState:
        """End the attempt of a worker that is dead or stopped; it costs the time until its last heartbeat."""
        if row["lease_ms"] == 0:
            return self.break_off(row, now_ms, fault=_RESTARTED)
        alive_us = (row["beat_ms"] - row["claimed_ms"]) * 1000
        spent = self.spend_unmeasured(row, row["beat_ms"])
        return self.crash(row, now_ms, max(1, alive_us), fault=fault, suspect=1, **spent)

    def next_change_ms(self, now_ms: int) -> int | None:
        """Return when something becomes due next; `None` if never."""
        queries: list[tuple[str, tuple[int, ...], int]] = [
            (f"SELECT MIN(due_ms) {_DELAYED}", (), 0),
            (f"SELECT MIN(lease_ms) {_RUNNING}", (), 0),
        ]
        if self._timeout_ms:
            queries.append((f"SELECT MIN(queued_ms) {_WAITING}", (), self._timeout_ms))
        if self._rate:
            starts, window_ms = self._rate
            queries.append((_NEXT_START, (now_ms - window_ms, starts), window_ms))
        found = [(self._database.rows(sql, values)[0][0], later_ms) for sql, values, later_ms in queries]
        return min((moment + later_ms for moment, later_ms in found if moment is not None), default=None)
