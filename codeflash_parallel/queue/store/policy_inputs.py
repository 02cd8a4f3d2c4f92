"""What the policy looks at, read from the queue's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.jobs import JobKind, Priority
from codeflash_parallel.queue.policy.position import WaitingJob, lanes_before, others_before
from codeflash_parallel.queue.policy.scheduling_policy import (
    ConcurrencyLimits,
    CostAccount,
    Lane,
    PolicyInputs,
)
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts
from codeflash_parallel.queue.store.state_transitions import MINUTE_MS

#: Looked up for every lane, which is quicker than to make them.
_KINDS = {kind.value: kind for kind in JobKind}
_PRIORITIES = {priority.value: priority for priority in Priority}

#: Lanes with their first job that may start, if there is one, and the accounts that they are charged to: one
#: walk, for every submission and every claim takes it.
_LANES = """
SELECT lanes.share, lanes.submitter, lanes.kind, lanes.priority, lanes.ready, lanes.running,
    jobs.turn, jobs.urgency_ms, jobs.suspect, shares.vtime, shares.since,
    submitters.vtime, submitters.since, submitters.measured, submitters.cost_us
FROM lanes
CROSS JOIN shares ON shares.share = lanes.share
CROSS JOIN submitters ON submitters.share = lanes.share AND submitters.submitter = lanes.submitter
LEFT JOIN jobs ON lanes.ready > 0 AND jobs.number = (
    SELECT number FROM jobs AS first
    WHERE first.state = 'queued' AND first.ready = 1
        AND first.share = lanes.share AND first.submitter = lanes.submitter
        AND first.kind = lanes.kind AND first.priority = lanes.priority
    ORDER BY first.urgency_ms, first.turn LIMIT 1
)
"""
_QUEUE = """
SELECT paused, cost_us, EXISTS (SELECT 1 FROM jobs WHERE state = 'running' AND suspect = 1) FROM queue
"""
#: Two ranges of an index, which SQLite counts without looking at the rows.
_IN_LANE = """
SELECT COUNT(*) FROM jobs WHERE state = 'queued' AND ready = 1
    AND share = ?1 AND submitter = ?2 AND kind = ?3 AND priority = ?4
"""
_BEFORE = f"""
SELECT ({_IN_LANE} AND urgency_ms < ?5) + ({_IN_LANE} AND urgency_ms = ?5 AND turn < ?6)
"""
_NOT_BEFORE = f"""
SELECT ({_IN_LANE} AND urgency_ms > ?5) + ({_IN_LANE} AND urgency_ms = ?5 AND turn >= ?6)
"""


class PolicyInputReader:
    """Reads pictures; each call belongs to a change or a look of the caller's.

    Args:
        slots: jobs that may run at once.
    """

    def __init__(self, database: Database, accounts: Accounts, settings: QueueSettings, slots: int) -> None:
        self._database = database
        self._accounts = accounts
        self._settings = settings
        self._slots = slots

    def picture(self, now_ms: int) -> PolicyInputs:
        """Return all that a decision depends on."""
        is_paused, mean_us, is_taken = self._database.tuples(_QUEUE)[0]
        rows = self._database.tuples(_LANES)
        settings, account_of = self._settings, self._accounts.submitter_account
        return PolicyInputs(
            lanes=tuple([_lane(row) for row in rows if row[4]]),
            shares={row[0]: CostAccount(row[9], row[10]) for row in rows},
            submitters={row[:2]: account_of(row[0], row[1], row[11:], mean_us) for row in rows},
            running=_running(rows),
            limits=ConcurrencyLimits(
                slots=self._slots,
                submitter=settings.per_submitter_running,
                kinds=settings.kind_limits,
                starts=settings.rate_limit,
            ),
            strategy=settings.strategy,
            is_paused=bool(is_paused),
            is_taken=bool(is_taken),
            starts=self._starts(now_ms),
        )

    def first(self, lane: Lane) -> sqlite3.Row:
        """Return the row of a lane's first job that may start."""
        row = self._database.row(
            "SELECT * FROM jobs WHERE state = 'queued' AND ready = 1 AND share = ? AND submitter = ? "
            "AND kind = ? AND priority = ? AND urgency_ms = ? AND turn = ?",
            (lane.share, lane.submitter, lane.kind, lane.priority, lane.urgency_ms, lane.turn),
        )
        assert row is not None
        return row

    def before(self, picture: PolicyInputs, job: WaitingJob) -> int:
        """Return how many jobs are before one that waits."""
        newest = self._database.number("SELECT sequence FROM queue")
        oldest = min((lane.turn for lane in picture.lanes), default=0)
        # The longer part of a long lane is not counted: how many are in it is known.
        is_late = 2 * job.turn > oldest + newest
        lanes = lanes_before(picture, job)
        own = sum(self._in_lane(lane, urgency_ms, job.turn, is_late) for lane, urgency_ms in lanes)
        return own + others_before(picture, job, own)

    def _in_lane(self, lane: Lane, urgency_ms: int, turn: int, is_late: bool) -> int:  # noqa: FBT001 - ours alone
        where = (lane.share, lane.submitter, lane.kind, lane.priority, urgency_ms, turn)
        if is_late:
            return lane.ready - self._database.number(_NOT_BEFORE, where)
        return self._database.number(_BEFORE, where)

    def _starts(self, now_ms: int) -> dict[str, int]:
        if not self._settings.rate_limit:
            return {}
        rows = self._database.rows(
            "SELECT submitter, COUNT(*) AS n FROM starts WHERE started_ms > ? GROUP BY submitter",
            (now_ms - MINUTE_MS,),
        )
        return {row["submitter"]: row["n"] for row in rows}


def standing(row: sqlite3.Row) -> WaitingJob:
    """Return a job's row as the order sees it."""
    return WaitingJob(
        share=row["share"],
        submitter=row["submitter"],
        kind=JobKind(row["kind"]),
        priority=Priority(row["priority"]),
        turn=row["turn"],
        urgency_ms=row["urgency_ms"],
        suspect=bool(row["suspect"]),
    )


def _lane(row: tuple[Any, ...]) -> Lane:
    share, submitter, kind, priority, ready, _, turn, urgency_ms, suspect = row[:9]
    return Lane(share, submitter, _KINDS[kind], _PRIORITIES[priority], ready, turn, urgency_ms, bool(suspect))


def _running(rows: Sequence[tuple[Any, ...]]) -> dict[tuple[str, str], int]:
    """Return how many jobs of a submitter and a kind run; several lanes can have the same."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row[5]:
            counts[row[1:3]] = counts.get(row[1:3], 0) + row[5]
    return counts
