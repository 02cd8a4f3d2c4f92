"""Virtual times, cost estimates and budgets of shares and submitters."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection

from codeflash_parallel.queue.jobs import (
    Budget,
    JobKind,
    JobState,
    Priority,
    QueuePlace,
    Strategy,
    WaitReason,
)
from codeflash_parallel.queue.policy import (
    FIRST_GUESS_US,
    ConcurrencyLimits,
    CostAccount,
    Lane,
    PolicyInputs,
    held_back,
    position,
    reason,
    ticks,
    wait_s,
)
from codeflash_parallel.queue.queue_errors import BudgetSpent
from codeflash_parallel.queue.queue_settings import QueueSettings
from codeflash_parallel.queue.store.database import Database

#: Means that forget what is much older than twenty measurements.
_LEARN_SUBMITTER = """
UPDATE accounts SET
    measured = MIN(measured + 1, 20), cost_us = cost_us + (? - cost_us) / MIN(measured + 1, 20)
WHERE share = ? AND submitter = ?
"""
_LEARN = """
UPDATE queue SET
    measured = MIN(measured + 1, 20), cost_us = cost_us + (? - cost_us) / MIN(measured + 1, 20),
    wall_us = wall_us + (? - wall_us) / MIN(measured + 1, 20)
"""

#: Least virtual time of the other shares, or of the other submitters of a share, that have jobs; where none
#: has any, the greatest one of all.
_SHARE_FLOOR = """
SELECT COALESCE(
    (SELECT MIN(vtime) FROM accounts
        WHERE submitter = '' AND share <> :share AND share IN (SELECT share FROM busy)),
    (SELECT MAX(vtime) FROM accounts WHERE submitter = '')
)
"""
_SUBMITTER_FLOOR = """
SELECT COALESCE(
    (SELECT MIN(vtime) FROM accounts WHERE share = :share AND submitter NOT IN ('', :submitter)
        AND submitter IN (SELECT submitter FROM busy WHERE share = :share)),
    (SELECT MAX(vtime) FROM accounts WHERE share = :share AND submitter <> '')
)
"""
_SHARE_WAITS = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND ready = 1 AND share = :share)"
_SUBMITTER_WAITS = """
SELECT EXISTS (
    SELECT 1 FROM jobs WHERE state = 'queued' AND ready = 1 AND share = :share AND submitter = :submitter
)
"""
_CATCH_UP = """
UPDATE accounts SET vtime = (SELECT vtime FROM accounts WHERE share = ? AND submitter = ?)
WHERE share = ? AND submitter = ?
"""


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


def share_of(run: str, submitter: str) -> str:
    """Return the name of the share of a run, or of a submitter without a run."""
    return f"run {run}" if run else f"alone {submitter}"


class Accounts:
    """Charges shares and submitters, and reads what the policy decides by.

    Each call is part of the caller's transaction.

    Args:
        slots: jobs that may run at once.
    """

    def __init__(self, database: Database, settings: QueueSettings, slots: int) -> None:
        self._database = database
        self._weights = settings.weights
        self._strategy, self._rate = settings.strategy, settings.start_rate
        self._limits = ConcurrencyLimits(
            slots=slots,
            submitter=settings.per_submitter_running,
            kinds=settings.kind_limits,
            starts=self._rate.starts if self._rate else 0,
        )

    def _ticks(self, cost_us: int, share: str, submitter: str) -> tuple[int, int]:
        """Return the virtual time that a cost takes of a share and of a submitter."""
        run = share.partition(" ")[2]
        return ticks(cost_us, self._weights.get(run, 1.0)), ticks(cost_us, self._weights.get(submitter, 1.0))

    def open(self, share: str, submitter: str, now_ms: int) -> None:
        """Create the accounts of a share and a submitter if they are new."""
        for name in ("", submitter):
            self._database.execute(
                "INSERT OR IGNORE INTO accounts (share, submitter) VALUES (?, ?)", (share, name)
            )
        self._database.execute(
            "INSERT OR IGNORE INTO budgets (share, first_ms) VALUES (?, ?)", (share, now_ms)
        )

    def enter(self, share: str, submitter: str, turn: int) -> None:
        """Note that a job begins to wait; accounts without waiting jobs start at the others' least time."""
        for name, waits, floor in (
            ("", _SHARE_WAITS, _SHARE_FLOOR),
            (submitter, _SUBMITTER_WAITS, _SUBMITTER_FLOOR),
        ):
            values = {"share": share, "submitter": name}
            if not self._database.number(waits, values):
                self._database.execute(
                    "UPDATE accounts SET vtime = MAX(vtime, ?), since = ? WHERE share = ? AND submitter = ?",
                    (self._database.number(floor, values), turn, share, name),
                )

    def catch_up(self, shares: tuple[str, ...], submitters: tuple[str, ...], chosen: tuple[str, str]) -> None:
        """Raise the accounts that their own limits held back to that of the chosen job."""
        share, submitter = chosen
        for passed in shares:
            self._database.execute(_CATCH_UP, (share, "", passed, ""))
        for passed in submitters:
            self._database.execute(_CATCH_UP, (share, submitter, share, passed))

    def charge(self, share: str, submitter: str, account: CostAccount) -> None:
        """Charge a claim with its expected cost."""
        self._move(share, submitter, account.share_step, account.step)

    def settle(self, job: sqlite3.Row, now_ms: int, cost_us: int) -> None:
        """Count the time of an attempt that ends, and replace its expected cost by the measured one.

        Args:
            cost_us: 0 refunds the expected cost.
        """
        until_ms = min(now_ms, max(job["lease_ms"], job["beat_ms"]))  # it may have ended unnoticed
        self._database.execute("UPDATE queue SET busy_ms = busy_ms + ?", (until_ms - job["claimed_ms"],))
        share, submitter = job["share"], job["submitter"]
        outer, inner = self._ticks(cost_us, share, submitter) if cost_us else (0, 0)
        self._move(share, submitter, outer - job["share_ticks"], inner - job["submitter_ticks"])

    def _move(self, share: str, submitter: str, outer: int, inner: int) -> None:
        for name, step in (("", outer), (submitter, inner)):
            self._database.execute(
                "UPDATE accounts SET vtime = vtime + ? WHERE share = ? AND submitter = ?", (step, share, name)
            )

    def learn(self, job: sqlite3.Row, cost_us: int, wall_us: int) -> None:
        """Update the estimates with the cost of a job."""
        self._database.execute(_LEARN_SUBMITTER, (cost_us, job["share"], job["submitter"]))
        self._database.execute(_LEARN, (cost_us, wall_us))

    def of(self, names: Collection[str]) -> tuple[dict[str, CostAccount], dict[tuple[str, str], CostAccount]]:
        """Return the accounts of some shares and of their submitters."""
        mean_us = self._database.number("SELECT cost_us FROM queue")
        shares, submitters = {}, {}
        sql = "SELECT * FROM accounts WHERE share IN (SELECT value FROM json_each(?))"
        rows = self._database.rows(sql, (json.dumps(sorted(names)),))
        for share, submitter, vtime, since, measured, cost_us in rows:
            if not submitter:
                shares[share] = CostAccount(vtime, since)
                continue
            guess_us = cost_us if measured else mean_us or FIRST_GUESS_US
            outer, inner = self._ticks(guess_us, share, submitter)
            submitters[share, submitter] = CostAccount(vtime, since, inner, outer)
        return shares, submitters

    # --- budgets -----------------------------------------------------------------------------------------

    def spend(self, share: str, cpu_s: float) -> None:
        """Count CPU seconds against the budget of a share."""
        self._database.execute(
            "UPDATE budgets SET spent_us = spent_us + ? WHERE share = ?", (round(cpu_s * 1e6), share)
        )

    def count_submission(self, share: str) -> None:
        """Count a job against the budget of a share."""
        self._database.execute("UPDATE budgets SET submitted = submitted + 1 WHERE share = ?", (share,))

    def state_budget(self, share: str, stated: Budget) -> None:
        """Note the budget of a run; the first one that it states holds."""
        self._database.execute(
            "UPDATE budgets SET cpu_s = ?, jobs = ?, wall_s = ? "
            "WHERE share = ? AND cpu_s = 0 AND jobs = 0 AND wall_s = 0",
            (stated.cpu_s, stated.jobs, stated.wall_s, share),
        )

    def refuse_if_spent(self, share: str, now_ms: int, *, is_retry: bool = False) -> None:
        """Refuse a job whose run may spend no more.

        Args:
            is_retry: the job is already counted.

        Raises:
            BudgetSpent: with the figure.
        """
        row = self._database.row("SELECT * FROM budgets WHERE share = ?", (share,))
        assert row is not None
        for figure, spent, limit in (
            ("cpu_s", row["spent_us"] / 1e6, row["cpu_s"]),
            ("jobs", float(row["submitted"]), 0.0 if is_retry else float(row["jobs"])),
            ("wall_s", (now_ms - row["first_ms"]) / 1000, row["wall_s"]),
        ):
            if limit and spent >= limit:
                raise BudgetSpent(run=share.partition(" ")[2], figure=figure, spent=spent, limit=limit)

    # --- decisions ---------------------------------------------------------------------------------------

    def read(self, now_ms: int, share: str = "") -> PolicyInputs:
        """Return everything that a decision depends on.

        Args:
            share: whose accounts are read even if it has no job that may start.
        """
        lanes = tuple([_lane(row) for row in self._database.rows(_LANES)])
        running = self._database.rows(_RUNNING)
        shares, submitters = self.of({share, *(lane.share for lane in lanes)} - {""})
        starts = self._database.rows(_STARTS, (now_ms - self._rate.window_ms,)) if self._rate else []
        return PolicyInputs(
            lanes=lanes,
            shares=shares,
            submitters=submitters,
            running={(submitter, kind): count for submitter, kind, count, _ in running},
            limits=self._limits,
            strategy=self._strategy,
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
