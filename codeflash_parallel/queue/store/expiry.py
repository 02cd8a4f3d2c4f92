"""What time alone does to jobs: they expire, their leases end, their pauses are over."""

from __future__ import annotations

import sqlite3

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.jobs import JobState
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.state_transitions import MINUTE_MS, Transitions

#: Codes of the faults of those who ended without a word.
LEASE_EXPIRED = "LEASE_EXPIRED"
DAEMON_DIED = "DAEMON_DIED: the daemon died while it ran"
_RESTARTED = "MACHINE_RESTARTED: the machine was started anew while it ran"

#: A job that has not begun to wait for its turn does not expire.
_EXPIRED = """
SELECT * FROM jobs WHERE state = 'queued' AND queued_ms <= ? AND (ready = 1 OR fence > 0)
ORDER BY queued_ms, turn
"""
_LOST = "SELECT * FROM jobs WHERE state = 'running' AND lease_ms <= ? ORDER BY lease_ms, number"
_DUE = "SELECT * FROM jobs WHERE state = 'queued' AND ready = 0 AND due_ms <= ? ORDER BY due_ms, turn"

#: The same three conditions; asked in every change, and nearly always in vain.
_IS_DUE = """
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND queued_ms <= ?1 AND (ready = 1 OR fence > 0))
    OR EXISTS (SELECT 1 FROM jobs WHERE state = 'running' AND lease_ms <= ?2)
    OR EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND ready = 0 AND due_ms <= ?2)
"""

#: The moments at which the next job of each sort changes; what there is none of is null.
_NEXT = """
SELECT MIN(due_ms) FROM jobs WHERE state = 'queued' AND ready = 0
UNION ALL SELECT MIN(lease_ms) FROM jobs WHERE state = 'running'
"""
_NEXT_EXPIRY = "SELECT MIN(queued_ms) FROM jobs WHERE state = 'queued' AND (ready = 1 OR fence > 0)"
_NEXT_START = """
SELECT MIN(oldest_ms) FROM (
    SELECT MIN(started_ms) AS oldest_ms FROM starts
    WHERE started_ms > ? AND submitter IN (SELECT submitter FROM lanes WHERE ready > 0)
    GROUP BY submitter HAVING COUNT(*) >= ?
)
"""


class ExpirySweep:
    """Does to jobs what is due by time; each call belongs to a change or a look of the caller's.

    Attributes:
        times: how often there was something to do: who tells others of it looks whether that has grown.
    """

    def __init__(self, database: Database, transitions: Transitions, settings: QueueSettings) -> None:
        self._database = database
        self._transitions = transitions
        self._settings = settings
        self._timeout_ms = round(settings.queue_timeout * 1000)
        self.times = 0

    def all(self, now_ms: int) -> None:
        """Let jobs expire, take those of dead workers back, and let those whose pause is over wait."""
        if not self.is_due(now_ms):
            return
        self._expire(now_ms)
        for row in self._database.rows(_LOST, (now_ms,)):
            self.take_back(row, now_ms, f"{LEASE_EXPIRED}: no sign of life for {self._settings.lease:g} s")
        self._let_wait(now_ms)

    def waiting(self, now_ms: int) -> None:
        """Do the same to jobs that wait alone: whoever has the others may be about to say how they ended."""
        if self.is_due(now_ms):
            self._expire(now_ms)
            self._let_wait(now_ms)

    def _expire(self, now_ms: int) -> None:
        self.times += 1
        for row in self._expired(now_ms):
            fault = f"QUEUE_TIMEOUT: it has waited for {self._settings.queue_timeout:g} s"
            self._transitions.end(row, JobState.EXPIRED, now_ms, fault=fault)

    def _let_wait(self, now_ms: int) -> None:
        for row in self._database.rows(_DUE, (now_ms,)):
            self._admit(row, now_ms)

    def is_due(self, now_ms: int) -> bool:
        """Say whether time has anything to do."""
        oldest_ms = now_ms - self._timeout_ms if self._timeout_ms else -1
        return bool(self._database.number(_IS_DUE, (oldest_ms, now_ms)))

    def _expired(self, now_ms: int) -> list[sqlite3.Row]:
        return self._database.rows(_EXPIRED, (now_ms - self._timeout_ms,)) if self._timeout_ms else []

    def take_back(self, row: sqlite3.Row, now_ms: int, fault: str) -> JobState:
        """End the attempt of a worker that is dead, or stopped; what it cost is what the clock says."""
        if row["lease_ms"] == 0:
            return self._transitions.break_off(row, now_ms, fault=_RESTARTED)
        alive_us = (row["beat_ms"] - row["claimed_ms"]) * 1000
        spent = self._transitions.spent_by_the_clock(row, row["beat_ms"])
        return self._transitions.crash(row, now_ms, max(1, alive_us), fault=fault, suspect=1, **spent)

    def _admit(self, row: sqlite3.Row, now_ms: int) -> None:
        """Let a job wait for its turn: one that comes back has kept its place."""
        if row["fence"]:
            self._transitions.requeue(row)
        else:
            self._transitions.line_up(row, now_ms)

    def next_change_ms(self, now_ms: int) -> int | None:
        """Return when time does something next, `None` if never."""
        moments = [row[0] for row in self._database.rows(_NEXT)]
        if self._timeout_ms:
            oldest = self._database.rows(_NEXT_EXPIRY)[0][0]
            moments.append(None if oldest is None else oldest + self._timeout_ms)
        if self._settings.rate_limit:
            values = (now_ms - MINUTE_MS, self._settings.rate_limit)
            first = self._database.rows(_NEXT_START, values)[0][0]
            moments.append(None if first is None else first + MINUTE_MS)
        return min((moment for moment in moments if moment is not None), default=None)
