"""What becomes due by time: jobs expire, leases end, pauses end."""

from __future__ import annotations

import sqlite3

from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.database import Database
from codeflash_parallel.queue.store.job_lifecycle import JobLifecycle
from codeflash_parallel.queue.store.policy_inputs import MINUTE_MS

#: Codes of faults that no worker reported.
LEASE_EXPIRED = "LEASE_EXPIRED"
DAEMON_DIED = "DAEMON_DIED: the daemon died while it ran"
_RESTARTED = "MACHINE_RESTARTED: the machine was started anew while it ran"

#: A job that has not begun to wait for its turn does not expire.
_WAITING = "FROM jobs WHERE state = 'queued' AND (ready = 1 OR fence > 0)"
_RUNNING = "FROM jobs WHERE state = 'running'"
_DELAYED = "FROM jobs WHERE state = 'queued' AND ready = 0"

_IS_DUE = f"""
SELECT EXISTS (SELECT 1 {_WAITING} AND queued_ms <= ?1)
    OR EXISTS (SELECT 1 {_RUNNING} AND lease_ms <= ?2) OR EXISTS (SELECT 1 {_DELAYED} AND due_ms <= ?2)
"""
_NEXT_START = """
SELECT MIN(oldest_ms) FROM (
    SELECT MIN(started_ms) AS oldest_ms FROM starts
    WHERE started_ms > ? AND submitter IN (SELECT submitter FROM jobs WHERE state = 'queued' AND ready = 1)
    GROUP BY submitter HAVING COUNT(*) >= ?
)
"""


class ExpirySweep:
    """Applies what is due by time; each call is part of the caller's transaction.

    Attributes:
        times: number of sweeps that found something due.
    """

    def __init__(self, database: Database, lifecycle: JobLifecycle, settings: QueueSettings) -> None:
        self._database = database
        self._lifecycle = lifecycle
        self._settings = settings
        self._timeout_ms = round(settings.queue_timeout * 1000)
        self.times = 0

    def is_due(self, now_ms: int) -> bool:
        """Return whether anything is due."""
        oldest_ms = now_ms - self._timeout_ms if self._timeout_ms else -1
        return bool(self._database.number(_IS_DUE, (oldest_ms, now_ms)))

    def all(self, now_ms: int) -> None:
        """Expire jobs, requeue those of dead workers, and end pauses."""
        if not self.is_due(now_ms):
            return
        self._expire(now_ms)
        for row in self._database.rows(f"SELECT * {_RUNNING} AND lease_ms <= ?", (now_ms,)):
            fault = f"{LEASE_EXPIRED}: no sign of life for {self._settings.lease:g} s"
            self.take_back(row, now_ms, fault)
        self._end_pauses(now_ms)

    def waiting(self, now_ms: int) -> None:
        """Do so to waiting jobs only: the daemon may be about to report the end of a running one."""
        if self.is_due(now_ms):
            self._expire(now_ms)
            self._end_pauses(now_ms)

    def _expire(self, now_ms: int) -> None:
        self.times += 1
        if not self._timeout_ms:
            return
        fault = f"QUEUE_TIMEOUT: it has waited for {self._settings.queue_timeout:g} s"
        for row in self._database.rows(
            f"SELECT * {_WAITING} AND queued_ms <= ?", (now_ms - self._timeout_ms,)
        ):
            self._lifecycle.end(row, JobState.EXPIRED, now_ms, fault=fault)

    def _end_pauses(self, now_ms: int) -> None:
        for row in self._database.rows(
            f"SELECT * {_DELAYED} AND due_ms <= ? ORDER BY due_ms, turn", (now_ms,)
        ):
            if row["fence"]:  # a job that comes back keeps its place
                self._lifecycle.requeue(row)
            else:
                self._lifecycle.append(row, now_ms)

    def take_back(self, row: sqlite3.Row, now_ms: int, fault: str) -> JobState:
        """End the attempt of a worker that is dead or stopped; it costs the time until its last heartbeat."""
        if row["lease_ms"] == 0:
            return self._lifecycle.break_off(row, now_ms, fault=_RESTARTED)
        alive_us = (row["beat_ms"] - row["claimed_ms"]) * 1000
        spent = self._lifecycle.spend_unmeasured(row, row["beat_ms"])
        return self._lifecycle.crash(row, now_ms, max(1, alive_us), fault=fault, suspect=1, **spent)

    def next_change_ms(self, now_ms: int) -> int | None:
        """Return when something becomes due next; `None` if never."""
        queries: list[tuple[str, tuple[int, ...], int]] = [
            (f"SELECT MIN(due_ms) {_DELAYED}", (), 0),
            (f"SELECT MIN(lease_ms) {_RUNNING}", (), 0),
        ]
        if self._timeout_ms:
            queries.append((f"SELECT MIN(queued_ms) {_WAITING}", (), self._timeout_ms))
        if self._settings.rate_limit:
            queries.append((_NEXT_START, (now_ms - MINUTE_MS, self._settings.rate_limit), MINUTE_MS))
        found = [(self._database.rows(sql, values)[0][0], later_ms) for sql, values, later_ms in queries]
        return min((moment + later_ms for moment, later_ms in found if moment is not None), default=None)
