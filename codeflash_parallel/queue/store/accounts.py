"""Virtual times, cost estimates and budgets of shares and submitters."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping

from codeflash_parallel.queue.errors import BudgetSpent
from codeflash_parallel.queue.jobs import Budget
from codeflash_parallel.queue.policy import FIRST_GUESS_US, CostAccount, ticks
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
        WHERE submitter = '' AND share <> ?1 AND share IN (SELECT share FROM busy)),
    (SELECT MAX(vtime) FROM accounts WHERE submitter = '')
)
"""
_SUBMITTER_FLOOR = """
SELECT COALESCE(
    (SELECT MIN(vtime) FROM accounts WHERE share = ?1 AND submitter NOT IN ('', ?2)
        AND submitter IN (SELECT submitter FROM busy WHERE share = ?1)),
    (SELECT MAX(vtime) FROM accounts WHERE share = ?1 AND submitter <> '')
)
"""
_SHARE_WAITS = "SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND ready = 1 AND share = ?1)"
_SUBMITTER_WAITS = """
SELECT EXISTS (SELECT 1 FROM jobs WHERE state = 'queued' AND ready = 1 AND share = ?1 AND submitter = ?2)
"""
_CATCH_UP = """
UPDATE accounts SET vtime = (SELECT vtime FROM accounts WHERE share = ? AND submitter = ?)
WHERE share = ? AND submitter = ?
"""


def share_of(run: str, submitter: str) -> str:
    """Return the name of the share of a run, or of a submitter without a run."""
    return f"run {run}" if run else f"alone {submitter}"


class Accounts:
    """Charges shares and submitters; each call is part of the caller's transaction.

    Args:
        weights: of runs and submitters, by name; the default is 1.
    """

    def __init__(self, database: Database, weights: Mapping[str, float]) -> None:
        self._database = database
        self._weights = weights

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
            values = (share, name) if name else (share,)
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
