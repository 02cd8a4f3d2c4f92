"""What happened to the jobs of a queue, in the order of its commits: is it a history that a queue can have?

A trigger in the queue's file writes each change down, in the transaction that makes it. A checker goes through it with a
queue of its own; then what processes have seen is compared with it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from codeflash_parallel.queue.store.database import NAME

FINAL = {"done", "cancelled", "expired", "dropped", "dead"}

#: State before → states that may follow.
FOLLOWING = {
    None: {"queued"},
    "queued": {"queued", "running", "expired", "dropped", "cancelled"},
    "running": {"queued", "done", "dead", "cancelled"},
    "dead": {"queued"},
}

RECORD = """
CREATE TABLE IF NOT EXISTS history (
    number INTEGER, key TEXT, state TEXT, fence INTEGER, worker TEXT, result TEXT, before TEXT
);
CREATE TRIGGER IF NOT EXISTS history_in AFTER INSERT ON jobs BEGIN
    INSERT INTO history VALUES (NEW.number, NEW.key, NEW.state, NEW.fence, NEW.worker, NEW.result, NULL);
END;
CREATE TRIGGER IF NOT EXISTS history_on AFTER UPDATE OF state, fence, result ON jobs BEGIN
    INSERT INTO history VALUES (
        NEW.number, NEW.key, NEW.state, NEW.fence, NEW.worker, NEW.result, OLD.state
    );
END;
"""


@dataclass
class History:
    """What happened to each job.

    Attributes:
        claims: (number, fence) → worker.
        results: number → result.
    """

    submitted: dict[int, str] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    fences: dict[int, int] = field(default_factory=dict)
    claims: dict[tuple[int, int], str] = field(default_factory=dict)
    results: dict[int, str] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)


def record_history(folder: Path) -> None:
    """Have all changes of a queue written down from now on; it has been made."""
    with closing(sqlite3.connect(folder / NAME)) as connection:
        connection.executescript(RECORD)


def check_history(folder: Path) -> History:
    """Return the history of a queue.

    Raises:
        AssertionError: no queue can have had it.
    """
    seen = History()
    with closing(sqlite3.connect(folder / NAME)) as connection:
        for number, key, state, fence, worker, result, before in connection.execute(
            "SELECT * FROM history ORDER BY rowid"
        ):
            _follow(seen, number, key, state, fence, worker, result, before)
    return seen


def _follow(
    seen: History, number: int, key: str, state: str, fence: int, worker: str, result: str, before: str | None
) -> None:
    where = f"job {number}: {before} to {state}"
    assert before == seen.states.get(number), where
    assert state in FOLLOWING[before], where
    if before is None:
        holder = seen.keys.get(key)
        assert holder is None or seen.states[holder] in {"cancelled", "expired", "dropped"}, where
        seen.keys[key], seen.submitted[number], seen.fences[number] = number, key, fence
    if state == "running":
        assert fence == seen.fences[number] + 1, where
        seen.claims[number, fence] = worker
    if state == "done":
        assert number not in seen.results, where
        seen.results[number] = result
    seen.fences[number], seen.states[number] = fence, state
