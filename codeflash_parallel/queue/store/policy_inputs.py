"""Inputs of the policy, read from the jobs, and the position of a job."""

from __future__ import annotations

import sqlite3

from codeflash_parallel.queue.jobs import JobKind, JobState, Priority, QueuePlace, Strategy, WaitReason
from codeflash_parallel.queue.policy import (
    ConcurrencyLimits,
    Lane,
    PolicyInputs,
    held_back,
    position,
    reason,
    wait_s,
)
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts
from codeflash_parallel.queue.store.database import Database

#: Lanes with their first job: SQLite takes the bare columns from the row of the minimum.
_LANES = """
SELECT share, submitter, kind, priority, COUNT(*), MIN(turn), urgency_ms, suspect
FROM jobs WHERE state = 'queued' AND ready = 1 GROUP BY share, submitter, kind, priority
"""
_RUNNING = """
SELECT submitter, kind, COUNT(*), MAX(suspect) FROM jobs WHERE state = 'running' GROUP BY submitter, kind
"""
_STARTS = "SELECT submitter, COUNT(*) FROM starts WHERE started_ms > ? GROUP BY submitter"

#: Jobs that the strategy puts before one, by submitter and kind.
_BEFORE = """
SELECT submitter, kind, COUNT(*) FROM jobs WHERE state = 'queued' AND ready = 1 AND {}
GROUP BY submitter, kind
"""
_BEFORE_BY = {
    Strategy.FAIR: "share = :share AND submitter = :submitter AND (urgency_ms, turn) < (:urgency_ms, :turn)",
    Strategy.FIFO: "turn < :turn",
    Strategy.PRIORITY: "(urgency_ms, turn) < (:urgency_ms, :turn)",
}
_NO_PLACE = QueuePlace(position=0, reason=WaitReason.NEXT, wait_s=0.0)


class PolicyInputReader:
    """Reads the policy's inputs; each call is part of the caller's transaction.

    Args:
        slots: jobs that may run at once.
    """

    def __init__(self, database: Database, accounts: Accounts, settings: QueueSettings, slots: int) -> None:
        self._database = database
        self._accounts = accounts
        self._settings, self._rate = settings, settings.start_rate
        self._limits = ConcurrencyLimits(
            slots=slots,
            submitter=settings.per_submitter_running,
            kinds=settings.kind_limits,
            starts=self._rate.starts if self._rate else 0,
        )

    def read(self, now_ms: int, share: str = "") -> PolicyInputs:
        """Return everything that a decision depends on.

        Args:
            share: whose accounts are read even if it has no job that may start.
        """
        lanes = tuple([_lane(row) for row in self._database.rows(_LANES)])
        running = self._database.rows(_RUNNING)
        shares, submitters = self._accounts.of({share, *(lane.share for lane in lanes)} - {""})
        starts = self._database.rows(_STARTS, (now_ms - self._rate.window_ms,)) if self._rate else []
        return PolicyInputs(
            lanes=lanes,
            shares=shares,
            submitters=submitters,
            running={(submitter, kind): count for submitter, kind, count, _ in running},
            limits=self._limits,
            strategy=self._settings.strategy,
            is_paused=bool(self._database.number("SELECT paused FROM queue")),
            runs_suspect=any(suspect for *_, suspect in running),
            starts={submitter: count for submitter, count in starts},  # noqa: C416 - rows of SQLite's
        )

    def first(self, lane: Lane) -> sqlite3.Row:
        """Return the row of a lane's first job."""
        row = self._database.row(
            "SELECT * FROM jobs WHERE state = 'queued' AND ready = 1 AND share = ? AND submitter = ? "
            "AND kind = ? AND priority = ? AND turn = ?",
            (lane.share, lane.submitter, lane.kind, lane.priority, lane.turn),
        )
        assert row is not None
        return row

    def place(self, row: sqlite3.Row, now_ms: int, *, token_busy: bool = False) -> QueuePlace:
        """Return the place of a job; position 0 if it is not queued."""
        if row["state"] != JobState.QUEUED:
            return _NO_PLACE
        inputs = self.read(now_ms, row["share"])
        at = position(inputs, row["share"], row["submitter"], self._before(inputs, row))
        mean_us = self._database.number("SELECT wall_us FROM queue")
        estimate_s = wait_s(at, inputs, mean_us / 1e6)
        if row["ready"]:
            kind, is_suspect = JobKind(row["kind"]), bool(row["suspect"])
            why = reason(inputs, row["submitter"], kind, at, suspect=is_suspect, token_busy=token_busy)
        else:
            why = WaitReason.BACKOFF if row["fence"] else WaitReason.LATER
            estimate_s = max(estimate_s, (row["due_ms"] - now_ms) / 1000) if estimate_s >= 0 else estimate_s
        return QueuePlace(position=at, reason=why, wait_s=estimate_s)

    def _before(self, inputs: PolicyInputs, row: sqlite3.Row) -> int:
        """Count the jobs before one (with `fair` its submitter's) that no limit holds back."""
        names = ("share", "submitter", "urgency_ms", "turn")
        sql = _BEFORE.format(_BEFORE_BY[inputs.strategy])
        found = self._database.rows(sql, {name: row[name] for name in names})
        own = (row["submitter"], row["kind"])
        return sum(n for who, kind, n in found if (who, kind) == own or not held_back(who, kind, inputs))


def _lane(row: sqlite3.Row) -> Lane:
    share, submitter, kind, priority, ready, turn, urgency_ms, suspect = row
    return Lane(share, submitter, JobKind(kind), Priority(priority), ready, turn, urgency_ms, bool(suspect))
