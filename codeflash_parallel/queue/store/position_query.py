"""Where a job stands, and why it waits."""

from __future__ import annotations

import sqlite3

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.jobs import JobState, QueuePlace, WaitReason
from codeflash_parallel.queue.policy.position import reason, wait_s
from codeflash_parallel.queue.policy.scheduling_policy import PolicyInputs
from codeflash_parallel.queue.store.policy_inputs import PolicyInputReader, standing

_NOWHERE = QueuePlace(position=0, reason=WaitReason.NEXT, wait_s=0.0)


class PositionQuery:
    """Tells places; each call belongs to a change or a look of the caller's."""

    def __init__(self, database: Database, painter: PolicyInputReader) -> None:
        self._database = database
        self._painter = painter

    def place(self, row: sqlite3.Row, now_ms: int, *, token_busy: bool = False) -> QueuePlace:
        """Return where the job of a row stands; 0 for one that is not queued."""
        if row["state"] != JobState.QUEUED:
            return _NOWHERE
        picture = self._painter.picture(now_ms)
        mean_us = self._database.number("SELECT wall_us FROM queue WHERE measured > 0 UNION ALL SELECT 0")
        return self._place(row, now_ms, picture, mean_us / 1e6, token_busy=token_busy)

    def _place(
        self, row: sqlite3.Row, now_ms: int, picture: PolicyInputs, mean_s: float, *, token_busy: bool
    ) -> QueuePlace:
        job = standing(row)
        position = 1 + self._painter.before(picture, job)
        estimate_s = wait_s(position, picture, mean_s)
        if row["ready"]:
            why = reason(picture, job, position, token_busy=token_busy)
        else:
            why = WaitReason.BACKOFF if row["fence"] else WaitReason.LATER
            estimate_s = max(estimate_s, (row["due_ms"] - now_ms) / 1000) if estimate_s >= 0 else estimate_s
        return QueuePlace(position=position, reason=why, wait_s=estimate_s)
