"""How a job's state changes, and what follows for its accounts."""

from __future__ import annotations

import sqlite3
from typing import Any

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.jobs import JobState, Priority
from codeflash_parallel.queue.policy.scheduling_policy import CostAccount, urgency_of
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.accounts import Accounts

#: The pause after a fault of the machine doubles with each, up to this.
_LONGEST_PAUSE_MS = 60_000
_FIRST_PAUSE_MS = 1_000

#: Starts are limited by the minute.
MINUTE_MS = 60_000


class Transitions:
    """Moves jobs from state to state; each call belongs to a change of the caller's."""

    def __init__(self, database: Database, accounts: Accounts, settings: QueueSettings) -> None:
        self._database = database
        self._accounts = accounts
        self._settings = settings

    def lease_end(self, now_ms: int) -> int:
        """Return until when a worker that has just given a sign of life holds its job."""
        return now_ms + round(self._settings.lease * 1000)

    def start(self, row: sqlite3.Row, worker: str, now_ms: int, account: CostAccount) -> None:
        """Give a job that waits to a worker, and charge its submitter."""
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
            lease_ms=self.lease_end(now_ms),
            waited_ms=waited_ms,
            share_ticks=account.share_step,
            submitter_ticks=account.step,
        )
        self._count_start(row["submitter"], now_ms)

    def _count_start(self, submitter: str, now_ms: int) -> None:
        if self._settings.rate_limit:
            self._database.execute("DELETE FROM starts WHERE started_ms <= ?", (now_ms - MINUTE_MS,))
            self._database.execute("INSERT INTO starts VALUES (?, ?)", (submitter, now_ms))

    def end(self, row: sqlite3.Row, state: JobState, now_ms: int, **columns: Any) -> None:
        """Give a job a final state."""
        self._set(row, state=state.value, ready=0, ended_ms=now_ms, **columns)

    def finish(self, row: sqlite3.Row, result: str, now_ms: int, cpu_s: float, wall_s: float) -> None:
        """Give a job its result."""
        spent = self.spent(row, cpu_s, wall_s)
        self.end(row, JobState.DONE, now_ms, result=result, fault="", suspect=0, **spent)

    def spent(self, row: sqlite3.Row, cpu_s: float, wall_s: float) -> dict[str, float]:
        """Count what an attempt took against its run's budget, and return the job's sums."""
        self._accounts.spend(row["share"], cpu_s)
        return {"cpu_s": row["cpu_s"] + cpu_s, "wall_s": row["wall_s"] + wall_s}

    def stop(self, row: sqlite3.Row, now_ms: int) -> dict[str, float]:
        """Charge an attempt that is cut off, and return the job's sums."""
        self._accounts.settle(row, max(1, (now_ms - row["claimed_ms"]) * 1000))
        return self.spent_by_the_clock(row, now_ms)

    def spent_by_the_clock(self, row: sqlite3.Row, until_ms: int) -> dict[str, float]:
        """Count an attempt that nobody has measured, and return the job's sums."""
        wall_s = max(0, until_ms - row["claimed_ms"]) / 1000
        return self.spent(row, wall_s, wall_s)

    def crash(self, row: sqlite3.Row, now_ms: int, cost_us: int, **columns: Any) -> JobState:
        """End an attempt that has crashed: its submitter pays; the next one may start at once."""
        self._accounts.settle(row, cost_us)
        crashes = row["crashes"] + 1
        if crashes >= self._settings.max_attempts:
            self.end(row, JobState.DEAD, now_ms, crashes=crashes, **columns)
            return JobState.DEAD
        self.requeue(row, crashes=crashes, **columns)
        return JobState.QUEUED

    def break_off(self, row: sqlite3.Row, now_ms: int, **columns: Any) -> JobState:
        """End an attempt that the machine has broken; nobody is charged, and the next one waits a little."""
        self._accounts.settle(row, 0)
        faults = row["machinery_faults"] + 1
        if faults >= self._settings.max_attempts:
            self.end(row, JobState.DEAD, now_ms, machinery_faults=faults, **columns)
            return JobState.DEAD
        pause_ms = min(_LONGEST_PAUSE_MS, _FIRST_PAUSE_MS << faults)
        later = {"ready": 0, "due_ms": now_ms + pause_ms, "machinery_faults": faults, "worker": ""}
        self._set(row, state=JobState.QUEUED.value, **later, **columns)
        return JobState.QUEUED

    def requeue(self, row: sqlite3.Row, **columns: Any) -> None:
        """Send a job back to the place that it had."""
        self.make_ready(row, row["turn"], worker="", **columns)

    def line_up(self, row: sqlite3.Row, now_ms: int, **columns: Any) -> None:
        """Send a job to the end of the line."""
        turn, queued_ms = self.next_turn(now_ms)
        urgency_ms = urgency_of(queued_ms, Priority(row["priority"]))
        self.make_ready(row, turn, queued_ms=queued_ms, urgency_ms=urgency_ms, **columns)

    def make_ready(self, row: sqlite3.Row, turn: int, **columns: Any) -> None:
        """Let a job that may start wait for its turn."""
        self._accounts.enter(row["share"], row["submitter"], turn)
        self._set(row, state=JobState.QUEUED.value, ready=1, turn=turn, **columns)

    def next_turn(self, now_ms: int) -> tuple[int, int]:
        """Return the next number of the order of insertion, and its time: later ones have no lesser time."""
        self._database.execute(
            "UPDATE queue SET sequence = sequence + 1, queued_ms = MAX(queued_ms, ?)", (now_ms,)
        )
        row = self._database.row("SELECT sequence, queued_ms FROM queue")
        assert row is not None
        return row["sequence"], row["queued_ms"]

    def _set(self, row: sqlite3.Row, **columns: Any) -> None:
        self._database.update("jobs", {"number": row["number"]}, columns)
