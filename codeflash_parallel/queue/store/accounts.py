"""Virtual times, estimates and budgets of shares and submitters, in the queue's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import replace

from codeflash_parallel.queue.database.connection import Database
from codeflash_parallel.queue.errors import BudgetSpent
from codeflash_parallel.queue.jobs import Budget, JobRequest
from codeflash_parallel.queue.policy.scheduling_policy import FIRST_GUESS_US, CostAccount, ticks

#: Means: each forgets what is much older than twenty measurements.
_LEARN_SUBMITTER = """
UPDATE submitters SET
    measured = MIN(measured + 1, 20), cost_us = cost_us + (? - cost_us) / MIN(measured + 1, 20)
WHERE share = ? AND submitter = ?
"""
_LEARN = """
UPDATE queue SET
    measured = MIN(measured + 1, 20), cost_us = cost_us + (? - cost_us) / MIN(measured + 1, 20),
    wall_us = wall_us + (? - wall_us) / MIN(measured + 1, 20)
"""

_OPEN_SHARE = "INSERT OR IGNORE INTO shares (share, vtime, since, first_ms) VALUES (?, 0, 0, ?)"
_LEAST_SHARE = """
SELECT MIN(vtime) FROM shares
WHERE share <> ? AND share IN (SELECT share FROM lanes WHERE ready > 0 OR running > 0)
"""
_LEAST_SUBMITTER = """
SELECT MIN(vtime) FROM submitters WHERE share = ?1 AND submitter <> ?2
    AND submitter IN (SELECT submitter FROM lanes WHERE share = ?1 AND (ready > 0 OR running > 0))
"""
_LIFT_SHARE = "UPDATE shares SET vtime = (SELECT vtime FROM shares WHERE share = ?) WHERE share = ?"
_LIFT_SUBMITTER = """
UPDATE submitters SET vtime = (SELECT vtime FROM submitters WHERE share = ?1 AND submitter = ?2)
WHERE share = ?1 AND submitter = ?3
"""

_NO_BUDGET = Budget()


def share_of(run: str, submitter: str) -> str:
    """Return the name of the share of a run, or of a submitter that is in none."""
    return f"run {run}" if run else f"alone {submitter}"


class Accounts:
    """Charges shares and submitters; each call belongs to a change of the caller's.

    Args:
        weights: of runs and submitters, by name; who is not named has 1.
    """

    def __init__(self, database: Database, weights: Mapping[str, float]) -> None:
        self._database = database
        self._weights = weights

    def weight_of(self, share: str) -> float:
        """Return the weight of a share."""
        return self._weights.get(share.partition(" ")[2], 1.0)

    def open(self, share: str, submitter: str, now_ms: int) -> None:
        """Make the accounts of a share and a submitter, if they are new."""
        who = (share, submitter)
        if self._database.row("SELECT 1 FROM submitters WHERE share = ? AND submitter = ?", who):
            return
        self._database.execute(_OPEN_SHARE, (share, now_ms))
        self._database.execute(
            "INSERT INTO submitters (share, submitter, vtime, since) VALUES (?, ?, 0, 0)", who
        )

    def enter(self, share: str, submitter: str, turn: int) -> None:
        """Let a submitter's job begin to wait; one that had none waiting starts where the others are."""
        self._enter_share(share, turn)
        self._enter_submitter(share, submitter, turn)

    def _enter_share(self, share: str, turn: int) -> None:
        number = self._database.number
        if number("SELECT COUNT(*) FROM lanes WHERE share = ? AND ready > 0", (share,)):
            return
        floor = self._database.rows(_LEAST_SHARE, (share,))[0][0]
        if floor is None:  # nobody is there: who was away starts even with who had the machine
            floor = number("SELECT MAX(vtime) FROM shares")
        self._database.execute(
            "UPDATE shares SET vtime = MAX(vtime, ?), since = ? WHERE share = ?", (floor, turn, share)
        )

    def _enter_submitter(self, share: str, submitter: str, turn: int) -> None:
        number, who = self._database.number, (share, submitter)
        if number("SELECT COUNT(*) FROM lanes WHERE share = ? AND submitter = ? AND ready > 0", who):
            return
        floor = self._database.rows(_LEAST_SUBMITTER, who)[0][0]
        if floor is None:
            floor = number("SELECT MAX(vtime) FROM submitters WHERE share = ?", (share,))
        self._database.execute(
            "UPDATE submitters SET vtime = MAX(vtime, ?), since = ? WHERE share = ? AND submitter = ?",
            (floor, turn, *who),
        )

    def lift(self, shares: tuple[str, ...], submitters: tuple[str, ...], chosen: tuple[str, str]) -> None:
        """Let those who were passed for limits of their own save nothing up."""
        for passed in shares:
            self._database.execute(_LIFT_SHARE, (chosen[0], passed))
        for passed in submitters:
            self._database.execute(_LIFT_SUBMITTER, (*chosen, passed))

    def charge(self, share: str, submitter: str, account: CostAccount) -> None:
        """Charge a claim with what it is taken to cost."""
        self._move(share, submitter, account.share_step, account.step)

    def settle(self, job: sqlite3.Row, cost_us: int) -> None:
        """Put right what a claim was charged, now that its cost is known; 0 gives all of it back."""
        share, submitter = job["share"], job["submitter"]
        outer = ticks(cost_us, self.weight_of(share)) if cost_us else 0
        inner = ticks(cost_us, self._weights.get(submitter, 1.0)) if cost_us else 0
        self._move(share, submitter, outer - job["share_ticks"], inner - job["submitter_ticks"])

    def _move(self, share: str, submitter: str, outer: int, inner: int) -> None:
        execute = self._database.execute
        execute("UPDATE shares SET vtime = vtime + ? WHERE share = ?", (outer, share))
        execute(
            "UPDATE submitters SET vtime = vtime + ? WHERE share = ? AND submitter = ?",
            (inner, share, submitter),
        )

    def learn(self, job: sqlite3.Row, cost_us: int, wall_us: int) -> None:
        """Remember what a job has cost, for estimates."""
        self._database.execute(_LEARN_SUBMITTER, (cost_us, job["share"], job["submitter"]))
        self._database.execute(_LEARN, (cost_us, wall_us))

    def spend(self, share: str, cpu_s: float) -> None:
        """Count CPU seconds against the budget of a share."""
        self._database.execute(
            "UPDATE shares SET spent_us = spent_us + ? WHERE share = ?", (round(cpu_s * 1e6), share)
        )

    def submitter_account(
        self, share: str, submitter: str, columns: tuple[int, int, int, int], mean_us: int
    ) -> CostAccount:
        """Return a submitter's account, with what its next claim is charged.

        Args:
            columns: its virtual time, since when, how many costs were measured, and their mean.
        """
        vtime, since, measured, cost_us = columns
        guess = cost_us if measured else mean_us or FIRST_GUESS_US
        if not self._weights:
            step = ticks(guess, 1.0)
            return CostAccount(vtime, since, step, step)
        return CostAccount(
            vtime,
            since,
            ticks(guess, self._weights.get(submitter, 1.0)),
            ticks(guess, self.weight_of(share)),
        )

    def count_submission(self, share: str) -> None:
        """Count a job against the budget of a share."""
        self._database.execute("UPDATE shares SET submitted = submitted + 1 WHERE share = ?", (share,))

    def refuse_if_spent(self, request: JobRequest, share: str, now_ms: int) -> None:
        """Refuse a job whose run may spend no more; the first budget that a run states is kept.

        Raises:
            BudgetSpent: with the figure.
        """
        row = self._database.row("SELECT * FROM shares WHERE share = ?", (share,))
        assert row is not None
        budget = _stated(row)
        if budget == _NO_BUDGET:
            budget = request.budget
            if budget == _NO_BUDGET:
                return
            self._keep(share, row["first_ms"], budget)
        _refuse(request.run or request.submitter, _spendings(row, budget, now_ms))

    def refuse_again_if_spent(self, job: sqlite3.Row, now_ms: int) -> None:
        """Refuse to do a job once more whose run may spend no more; the job itself is counted already.

        Raises:
            BudgetSpent: with the figure.
        """
        row = self._database.row("SELECT * FROM shares WHERE share = ?", (job["share"],))
        assert row is not None
        spendings = _spendings(row, replace(_stated(row), jobs=0), now_ms)
        _refuse(job["run"] or job["submitter"], spendings)

    def _keep(self, share: str, first_ms: int, budget: Budget) -> None:
        columns = {
            "first_ms": first_ms,
            "budget_cpu_s": budget.cpu_s,
            "budget_jobs": budget.jobs,
            "budget_wall_s": budget.wall_s,
        }
        self._database.update("shares", {"share": share}, columns)


def _spendings(row: sqlite3.Row, budget: Budget, now_ms: int) -> tuple[tuple[str, float, float], ...]:
    """Return what there is a limit to: its name, how much of it a share has had, and the limit."""
    return (
        ("cpu_s", row["spent_us"] / 1e6, budget.cpu_s),
        ("jobs", float(row["submitted"]), float(budget.jobs)),
        ("wall_s", (now_ms - row["first_ms"]) / 1000, budget.wall_s),
    )


def _refuse(who: str, spendings: tuple[tuple[str, float, float], ...]) -> None:
    for figure, had, limit in spendings:
        if limit and had >= limit:
            raise BudgetSpent(who, figure, had, limit)


def _stated(row: sqlite3.Row) -> Budget:
    return Budget(cpu_s=row["budget_cpu_s"], jobs=row["budget_jobs"], wall_s=row["budget_wall_s"])
