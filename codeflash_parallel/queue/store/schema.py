"""Tables of the queue's SQLite file.

Times are milliseconds of the queue's clock (`Database.changing`). An account with an empty submitter is that
of the whole share.
"""

from __future__ import annotations

import sqlite3

#: Of the tables below.
VERSION = 7

_SCHEMA = """
CREATE TABLE queue (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    sequence INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    offset_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    cost_us INTEGER NOT NULL,
    wall_us INTEGER NOT NULL,
    busy_ms INTEGER NOT NULL,
    rules TEXT NOT NULL
);
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    submitter TEXT NOT NULL,
    run TEXT NOT NULL,
    share TEXT NOT NULL,
    priority TEXT NOT NULL,
    submitted_wall_s REAL NOT NULL,
    submitted_boot_s REAL NOT NULL,
    submitted_boot_id TEXT NOT NULL,
    state TEXT NOT NULL,
    turn INTEGER NOT NULL,
    urgency_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    machinery_faults INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    claimed_ms INTEGER NOT NULL DEFAULT 0,
    beat_ms INTEGER NOT NULL DEFAULT 0,
    lease_ms INTEGER NOT NULL DEFAULT 0,
    waited_ms INTEGER NOT NULL DEFAULT -1,
    ended_ms INTEGER NOT NULL DEFAULT 0,
    share_ticks INTEGER NOT NULL DEFAULT 0,
    submitter_ticks INTEGER NOT NULL DEFAULT 0,
    result TEXT NOT NULL DEFAULT '',
    fault TEXT NOT NULL DEFAULT '',
    last_output TEXT NOT NULL DEFAULT '',
    progress TEXT NOT NULL DEFAULT '',
    cpu_s REAL NOT NULL DEFAULT 0,
    wall_s REAL NOT NULL DEFAULT 0,
    suspect INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE accounts (
    share TEXT NOT NULL,
    submitter TEXT NOT NULL,
    vtime INTEGER NOT NULL DEFAULT 0,
    since INTEGER NOT NULL DEFAULT 0,
    measured INTEGER NOT NULL DEFAULT 0,
    cost_us INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, submitter)
) WITHOUT ROWID;
CREATE TABLE budgets (
    share TEXT PRIMARY KEY,
    cpu_s REAL NOT NULL DEFAULT 0,
    jobs INTEGER NOT NULL DEFAULT 0,
    wall_s REAL NOT NULL DEFAULT 0,
    first_ms INTEGER NOT NULL,
    submitted INTEGER NOT NULL DEFAULT 0,
    spent_us INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE starts (submitter TEXT NOT NULL, started_ms INTEGER NOT NULL);
CREATE INDEX starts_at ON starts (started_ms);
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE state IN ('queued', 'running', 'done', 'dead');
CREATE INDEX jobs_due ON jobs (due_ms) WHERE state = 'queued' AND ready = 0;
CREATE INDEX jobs_waiting ON jobs (queued_ms, turn) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (lease_ms) WHERE state = 'running';
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE state NOT IN ('queued', 'running');
CREATE INDEX jobs_in_lane
    ON jobs (share, submitter, kind, priority, turn, urgency_ms, suspect, state, ready)
    WHERE state = 'queued' AND ready = 1;
CREATE VIEW busy AS
    SELECT share, submitter FROM jobs WHERE state = 'queued' AND ready = 1
    UNION ALL SELECT share, submitter FROM jobs WHERE state = 'running';
INSERT INTO queue VALUES (1, 0, 0, '', 0, 0, 0, 0, 0, 0, '')
"""


def create(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty file within the caller's transaction."""
    for statement in _SCHEMA.split(";"):  # `executescript` would commit the caller's transaction
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
