"""The queue's file made anew from its journal.

What comes back: every job with its state, result, attempts and place, pauses and budgets. What does not:
the virtual times (all shares start even again), and the leases (nobody has the file open, so no worker
holds one). What ran may have damaged the file, and is suspect.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeflash_parallel.evalqueue import journal, schema
from codeflash_parallel.evalqueue.database import NAME, connect
from codeflash_parallel.evalqueue.rebuilt import Rebuilt, leave_note

_OF_QUEUE = frozenset({"sequence", "paused", "boot_id", "offset_ms", "seen_ms", "seen_wall_ms", "queued_ms"})

_ACCOUNTS = """
INSERT OR IGNORE INTO shares (share, vtime, since, first_ms)
    SELECT share, 0, 0, MIN(queued_ms) FROM jobs GROUP BY share;
INSERT INTO submitters (share, submitter, vtime, since)
    SELECT share, submitter, 0, MIN(turn) FROM jobs GROUP BY share, submitter;
UPDATE shares SET vtime = 0,
    since = COALESCE((SELECT MIN(turn) FROM jobs WHERE jobs.share = shares.share), 0),
    submitted = (SELECT COUNT(*) FROM jobs WHERE jobs.share = shares.share),
    spent_us = (SELECT CAST(COALESCE(SUM(cpu_s), 0) * 1000000 AS INTEGER) FROM jobs
        WHERE jobs.share = shares.share);
UPDATE jobs SET lease_ms = 0, share_ticks = 0, submitter_ticks = 0, suspect = 1 WHERE state = 'running';
UPDATE queue SET
    sequence = MAX(sequence, (SELECT COALESCE(MAX(MAX(number, turn)), 0) FROM jobs)),
    queued_ms = MAX(queued_ms, (SELECT COALESCE(MAX(queued_ms), 0) FROM jobs)),
    seen_ms = MAX(seen_ms, (SELECT COALESCE(MAX(MAX(queued_ms, ended_ms, claimed_ms)), 0) FROM jobs));
"""


def rebuild(folder: Path, why: str, aside: str) -> None:
    """Make the queue's file from its journal, which stays as it was: the next change begins another one.

    A note says so before it is done (`rebuilt`).

    Args:
        why: what was wrong with the old one.
        aside: where that lies now.
    """
    path = folder / journal.NAME
    connection = connect(folder / NAME)
    try:
        connection.execute("BEGIN IMMEDIATE")
        schema.create(connection)
        has_journal, damaged_lines = path.exists(), 0
        if has_journal:
            damaged_lines = _apply_all(connection, path)
            _keep(path)
        connection.execute(schema.SUSPECT_BY_FAULT)
        for statement in _ACCOUNTS.split(";\n"):
            connection.execute(statement)
        jobs = connection.execute("SELECT COUNT(*) FROM jobs").fetchone()[0]
        note = Rebuilt(
            at_s=time.time(),
            why=why,
            aside=aside,
            jobs=jobs,
            has_journal=has_journal,
            damaged_lines=damaged_lines,
        )
        leave_note(folder, note)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _apply_all(connection: sqlite3.Connection, path: Path) -> int:
    """Do what a journal says, and return how many of its lines could not be read."""
    damaged = 0
    with path.open("rb") as file:
        for line in file:
            change = journal.body(line)
            if change is None:
                damaged += 1
            elif "journal" not in change:
                _apply(connection, change)
    return damaged


def _apply(connection: sqlite3.Connection, change: Mapping[str, Any]) -> None:
    """Do to the rows what a change did; one that follows from a lost line finds no row, and does nothing."""
    table = change.get("table")
    columns = {name: value for name, value in change.items() if name not in {"event", "table"}}
    if table == "queue":
        _set(connection, "queue", {"one": 1}, {n: v for n, v in columns.items() if n in _OF_QUEUE})
    elif table == "shares":
        connection.execute(
            "INSERT OR IGNORE INTO shares (share, vtime, since, first_ms) VALUES (?, 0, 0, 0)",
            (columns["share"],),
        )
        _set(connection, "shares", {"share": columns.pop("share")}, columns)
    elif change.get("event") == "submitted":
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        connection.execute(f"INSERT OR IGNORE INTO jobs ({names}) VALUES ({marks})", tuple(columns.values()))  # noqa: S608
    elif table == "jobs":
        _set(connection, "jobs", {"number": columns.pop("number")}, columns)


def _set(
    connection: sqlite3.Connection, table: str, where: Mapping[str, Any], columns: Mapping[str, Any]
) -> None:
    if columns:
        sets = ", ".join(f"{name} = ?" for name in columns)
        wanted = " AND ".join(f"{name} = ?" for name in where)
        sql = f"UPDATE OR IGNORE {table} SET {sets} WHERE {wanted}"  # noqa: S608 - our own names
        connection.execute(sql, (*columns.values(), *where.values()))


def _keep(path: Path) -> None:
    """Keep a journal under a name of its own: the one in use is written anew."""
    number = 1
    while (kept := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    kept.hardlink_to(path)
