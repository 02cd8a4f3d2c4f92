"""The tables of the queue's file.

Times are milliseconds of the queue's own clock, which nobody can step and which goes on over a start of
the machine (see `timekeeping`). `lanes` counts the jobs that wait or run; triggers keep it in the
transaction that changes a job, so that nothing can be counted that is not there.
"""

from __future__ import annotations

import sqlite3

#: Of the tables below.
VERSION = 5

_TABLES = """
CREATE TABLE queue (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    sequence INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    offset_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    seen_wall_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    cost_us INTEGER NOT NULL,
    wall_us INTEGER NOT NULL
);
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
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
CREATE TABLE shares (
    share TEXT PRIMARY KEY,
    vtime INTEGER NOT NULL,
    since INTEGER NOT NULL,
    budget_cpu_s REAL NOT NULL DEFAULT 0,
    budget_jobs INTEGER NOT NULL DEFAULT 0,
    budget_wall_s REAL NOT NULL DEFAULT 0,
    first_ms INTEGER NOT NULL,
    submitted INTEGER NOT NULL DEFAULT 0,
    spent_us INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX shares_vtime ON shares (vtime);
CREATE TABLE submitters (
    share TEXT NOT NULL,
    submitter TEXT NOT NULL,
    vtime INTEGER NOT NULL,
    since INTEGER NOT NULL,
    measured INTEGER NOT NULL DEFAULT 0,
    cost_us INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, submitter)
) WITHOUT ROWID;
CREATE TABLE starts (submitter TEXT NOT NULL, started_ms INTEGER NOT NULL);
CREATE INDEX starts_at ON starts (started_ms);
CREATE TABLE lanes (
    share TEXT NOT NULL,
    submitter TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority TEXT NOT NULL,
    queued INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    running INTEGER NOT NULL,
    PRIMARY KEY (share, submitter, kind, priority)
) WITHOUT ROWID;
"""

_INDEXES = """
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE state IN ('queued', 'running', 'done', 'dead');
CREATE INDEX jobs_due ON jobs (due_ms) WHERE state = 'queued' AND ready = 0;
CREATE INDEX jobs_waiting ON jobs (queued_ms, turn) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (lease_ms) WHERE state = 'running';
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE state NOT IN ('queued', 'running');
"""

#: State and readiness are in it although all have the same: else SQLite looks them up, row by row.
_LANE_INDEX = """
CREATE INDEX jobs_in_lane ON jobs (share, submitter, kind, priority, urgency_ms, turn, state, ready)
    WHERE state = 'queued' AND ready = 1;
"""

_TRIGGERS = """
CREATE TRIGGER jobs_enter AFTER INSERT ON jobs WHEN NEW.state IN ('queued', 'running') BEGIN
    INSERT INTO lanes VALUES (
        NEW.share, NEW.submitter, NEW.kind, NEW.priority,
        NEW.state = 'queued', NEW.state = 'queued' AND NEW.ready, NEW.state = 'running'
    ) ON CONFLICT (share, submitter, kind, priority) DO UPDATE SET
        queued = queued + excluded.queued, ready = ready + excluded.ready,
        running = running + excluded.running;
END;
CREATE TRIGGER jobs_move AFTER UPDATE OF state, ready ON jobs
WHEN OLD.state <> NEW.state OR OLD.ready <> NEW.ready BEGIN
    INSERT OR IGNORE INTO lanes
        VALUES (NEW.share, NEW.submitter, NEW.kind, NEW.priority, 0, 0, 0);
    UPDATE lanes SET
        queued = queued + (NEW.state = 'queued') - (OLD.state = 'queued'),
        ready = ready + (NEW.state = 'queued' AND NEW.ready) - (OLD.state = 'queued' AND OLD.ready),
        running = running + (NEW.state = 'running') - (OLD.state = 'running')
    WHERE share = NEW.share AND submitter = NEW.submitter AND kind = NEW.kind AND priority = NEW.priority;
    DELETE FROM lanes
    WHERE share = NEW.share AND submitter = NEW.submitter AND kind = NEW.kind AND priority = NEW.priority
        AND queued = 0 AND running = 0;
END;
"""

#: Lanes whose counts are not those of the rows; there are none.
MISCOUNTED = """
SELECT COUNT(*) FROM (
    SELECT share, submitter, kind, priority, queued, ready, running FROM lanes
    EXCEPT
    SELECT share, submitter, kind, priority,
        SUM(state = 'queued'), SUM(state = 'queued' AND ready), SUM(state = 'running')
    FROM jobs WHERE state IN ('queued', 'running') GROUP BY share, submitter, kind, priority
)
"""


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty file, within a transaction of the caller's."""
    for statement in _statements(_TABLES + _INDEXES + _LANE_INDEX + _TRIGGERS):
        connection.execute(statement)
    # The clock starts at 1: a time of 0 is none.
    connection.execute("INSERT INTO queue VALUES (1, 0, 0, '', 0, 1, 0, 0, 0, 0, 0)")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _statements(script: str) -> list[str]:
    """Return the statements of a script; `executescript` would end the caller's transaction."""
    found, text = [], ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            found.append(text)
            text = ""
    return found
