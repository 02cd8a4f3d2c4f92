"""The queue's file: its connection, its transactions, and what its errors mean."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codeflash_parallel.queue.database.clock_offset import QueueClock
from codeflash_parallel.queue.database.write_turn import turn
from codeflash_parallel.queue.errors import QueueBusy, QueueDamaged, QueueDiskFull, queue_unfit
from codeflash_parallel.queue.jobs import Instant
from codeflash_parallel.result.errors import CodeflashParallelError

NAME = "queue.sqlite3"

#: A turn takes a millisecond or two; who waits longer is behind one that is stopped, and goes past it.
TURN_S = 2.0
#: After that SQLite itself is asked; it holds the file for as long as the stopped one does.
_BUSY_S = 10.0

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class Database:
    """One connection to the queue's file. Threads may share it, forked processes may not.

    Args:
        folder: that holds the file and its locks.
        connection: made by `connect`; it is ours from now on.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._connection = connection

    def close(self) -> None:
        """Close the connection; again is harmless."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def changing(self, now: Instant) -> Iterator[QueueClock]:
        """Change rows inside the block, in one transaction that is on the disk when the block is left.

        Raises:
            EnvironmentFault: disk full, file busy or damaged; then nothing has been changed.
        """
        with self._lock, understood(self.folder), turn(self.folder / "turns", TURN_S):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._clock(now)
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read rows inside the block as they are at one moment; waits for nobody.

        Raises:
            EnvironmentFault: the file is damaged.
        """
        with self._lock, understood(self.folder):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._roll_back()

    @contextmanager
    def looking(self, now: Instant, is_due: Callable[[int], bool]) -> Iterator[QueueClock]:
        """Read rows inside the block, which changes them only where time has something to do."""
        with self.reading():
            clock = self.clock().following(now)
            if not is_due(clock.at(now)):
                yield clock
                return
        with self.changing(now) as clock:
            yield clock

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows that a query finds."""
        return self._connection.execute(sql, values).fetchall()

    def tuples(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds without their names: half the cost where there are many."""
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """Return the first row that a query finds."""
        found: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        return found

    def number(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Return the one number that a query computes; 0 for none."""
        return self._connection.execute(sql, values).fetchone()[0] or 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Change rows."""
        self._connection.execute(sql, values)

    def insert(self, table: str, columns: dict[str, Any]) -> None:
        """Add a row."""
        names = ", ".join(columns)
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
        self._connection.execute(sql, tuple(columns.values()))

    def update(self, table: str, where: dict[str, Any], columns: dict[str, Any]) -> None:
        """Change the one row that has the values of `where`."""
        sets = ", ".join(f"{name} = ?" for name in columns)
        wanted = " AND ".join(f"{name} = ?" for name in where)
        values = (*columns.values(), *where.values())
        sql = f"UPDATE {table} SET {sets} WHERE {wanted}"  # noqa: S608 - our own names
        self._connection.execute(sql, values)

    def _clock(self, now: Instant) -> QueueClock:
        """Return the queue's clock, written down anew where it is due.

        After a start of the machine no worker lives: their leases end.
        """
        clock = self.clock()
        if not clock.is_stale(now):
            return clock
        seen = clock.seen(now)
        self.execute(
            "UPDATE queue SET boot_id = ?, offset_ms = ?, seen_ms = ?, seen_wall_ms = ?",
            (seen.boot_id, seen.offset_ms, seen.seen_ms, seen.seen_wall_ms),
        )
        if clock.boot_id not in {"", seen.boot_id}:
            self.execute("UPDATE jobs SET lease_ms = 0 WHERE state = 'running'")
        return seen

    def clock(self) -> QueueClock:
        """Return the queue's clock as it was written down."""
        row = self.row("SELECT boot_id, offset_ms, seen_ms, seen_wall_ms FROM queue")
        assert row is not None
        return QueueClock(**dict(row))


def connect(path: Path) -> sqlite3.Connection:
    """Open a file of SQLite's; every commit is on the disk when it returns."""
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def understood(folder: Path) -> Iterator[None]:
    """Say in our own words what the file system or SQLite cannot do inside the block."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        meant = _meaning(error, folder)
        if meant is None:
            raise
        raise meant from error


def _meaning(error: OSError | sqlite3.DatabaseError, folder: Path) -> CodeflashParallelError | None:
    if isinstance(error, OSError):
        return QueueDiskFull(folder) if error.errno in _FULL else queue_unfit(folder, error)
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # who opens it makes the index of its log, which had no room
        code = sqlite3.SQLITE_FULL
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return QueueDiskFull(folder)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return QueueBusy(folder, TURN_S + _BUSY_S)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return QueueDamaged(folder / NAME, str(error))
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return queue_unfit(folder, error)
    return None
