"""The queue's SQLite file: tables, checks, transactions, clock, and the meaning of its errors."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Any

from codeflash_parallel.process.files import wait_for_lock
from codeflash_parallel.process.machine import text_of
from codeflash_parallel.queue.jobs import Instant
from codeflash_parallel.queue.queue_errors import (
    NetworkFileSystem,
    NoQueue,
    OtherQueueVersion,
    QueueBusy,
    QueueDamaged,
    QueueDiskFull,
    queue_unfit,
)
from codeflash_parallel.result.errors import CodeflashParallelError

NAME = "queue.sqlite3"

#: Of the tables below.
SCHEMA_VERSION = 7

#: Times are milliseconds of the queue's clock (`Database.changing`). An account with an empty submitter is
#: that of the whole share.
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

#: A transaction takes milliseconds. A process that holds its turn for longer is stopped; the others pass it.
_TURN_S = 2.0
#: After that SQLite waits; a process that is stopped inside a transaction holds the file.
_BUSY_S = 10.0
#: Opening takes milliseconds; a full check of a large file takes seconds.
_OPENING_S = 60.0

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

#: Network file systems, where locks do not hold, as the kernel's mount table names them.
_NETWORK = frozenset(
    {
        "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs",
        "9p", "afs", "ceph", "gfs2", "ocfs2", "lustre",
        "beegfs", "glusterfs", "gpfs", "orangefs", "ncpfs", "coda",
        "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.juicefs",
        "fuse.ceph",
    }
)  # fmt: skip
_MOUNTS = Path("/proc/self/mountinfo")


class DatabaseFileCheck(StrEnum):
    """Depth of the check when the file is opened."""

    #: Header and schema version.
    HEADER = "header"
    #: Every page.
    FULL = "full"


class Database:
    """One connection to the queue's file. Threads may share it, forked processes may not.

    Args:
        folder: holds the file.
        connection: made by `connect`; the database closes it.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._connection = connection

    def close(self) -> None:
        """Close the connection; closing twice is harmless."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def changing(self, now: Instant) -> Iterator[int]:
        """Write inside the block, in one transaction that is on the disk when the block ends.

        Yields:
            The queue's clock in milliseconds. It is the wall clock's time when a boot of the machine first
            uses the queue, and follows the boot clock from there: steps of the wall clock do not move it.

        Raises:
            EnvironmentFault: disk full, file busy or damaged; nothing has been changed.
        """
        # SQLite's own waiters sleep longer and longer: of 32 that write at once, some would starve.
        with self._lock, understood(self.folder), self._turn():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._follow_boot(now)
                yield self.now_ms(now)
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self, now: Instant | None = None) -> Iterator[int]:
        """Read one consistent state inside the block; yields the queue's clock (0 without `now`).

        Raises:
            EnvironmentFault: the file is damaged.
        """
        with self._lock, understood(self.folder):
            self._connection.execute("BEGIN")
            try:
                yield self.now_ms(now) if now else 0
            finally:
                self._roll_back()

    @contextmanager
    def reading_unless(self, is_due: Callable[[int], bool], now: Instant) -> Iterator[int]:
        """Read inside the block; if something is due by time, the block may write."""
        with self.reading(now) as now_ms:
            if not is_due(now_ms):
                yield now_ms
                return
        with self.changing(now) as now_ms:
            yield now_ms

    def _turn(self) -> AbstractContextManager[object]:
        return wait_for_lock(self.folder / "turns", _TURN_S) or nullcontext()

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def now_ms(self, now: Instant) -> int:
        """Return the queue's clock."""
        return self._offset_ms(now) + round(now.boot_s * 1000)

    def _offset_ms(self, now: Instant) -> int:
        """Return the offset of the queue's clock to the boot clock; never before the last submission."""
        boot_id, offset_ms, queued_ms = self.rows("SELECT boot_id, offset_ms, queued_ms FROM queue")[0]
        if boot_id == now.boot_id:
            return int(offset_ms)
        return int(max(round(now.wall_s * 1000), queued_ms) - round(now.boot_s * 1000))

    def _follow_boot(self, now: Instant) -> None:
        """Set the clock's offset after a boot of the machine; no worker survives one: all leases end."""
        boot_id = self.rows("SELECT boot_id FROM queue")[0][0]
        if boot_id == now.boot_id:
            return
        self.execute("UPDATE queue SET boot_id = ?, offset_ms = ?", (now.boot_id, self._offset_ms(now)))
        if boot_id:
            self.execute("UPDATE jobs SET lease_ms = 0 WHERE state = 'running'")

    def rows(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Row | None:
        """Return the first row of a query."""
        found: sqlite3.Row | None = self._connection.execute(sql, values).fetchone()
        return found

    def number(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Return the number that a query computes; 0 for none."""
        return self._connection.execute(sql, values).fetchone()[0] or 0

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Write rows."""
        self._connection.execute(sql, values)

    def rules(self) -> str:
        """Return what the daemon that served last has written about its rules; empty if none has."""
        with self.reading():
            return str(self.rows("SELECT rules FROM queue")[0][0])

    def insert_job(self, columns: dict[str, Any]) -> None:
        """Insert a job."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(columns.values()))  # noqa: S608 - our names

    def update_job(self, number: int, columns: dict[str, Any]) -> None:
        """Update columns of a job."""
        sets = ", ".join(f"{name} = ?" for name in columns)
        self.execute(f"UPDATE jobs SET {sets} WHERE number = ?", (*columns.values(), number))  # noqa: S608 - our names


def connect(path: Path) -> sqlite3.Connection:
    """Open a SQLite file; a commit is on the disk when it returns."""
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


# --- opening ---------------------------------------------------------------------------------------------


def must_exist(folder: Path) -> None:
    """Refuse a folder without a queue: reading calls create none.

    Raises:
        NoQueue: nothing has been submitted there.
        EnvironmentFault: `QUEUE_UNFIT`, the folder cannot be read.
    """
    with understood(folder):
        try:
            (folder / NAME).stat()
        except FileNotFoundError:
            raise NoQueue(folder=folder) from None


@contextmanager
def open_database(folder: Path, check: DatabaseFileCheck) -> Iterator[Database]:
    """Open the queue in a folder; create it if there is none.

    Raises:
        EnvironmentFault: `NETWORK_FILE_SYSTEM`, `OTHER_QUEUE_VERSION`, `QUEUE_BUSY`, `QUEUE_DISK_FULL`,
            `QUEUE_UNFIT` or `QUEUE_DAMAGED`.
    """
    with understood(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (name := file_system_of(folder)) in _NETWORK:
            raise NetworkFileSystem(folder=folder, name=name)
        lock = wait_for_lock(folder / "opening.lock", _OPENING_S)
        if lock is None:
            raise QueueBusy(folder=folder, waited_s=_OPENING_S)
        with lock:
            connection = _checked_connection(folder / NAME, check)
    database = Database(folder, connection)
    try:
        yield database
    finally:
        database.close()


def _checked_connection(path: Path, check: DatabaseFileCheck) -> sqlite3.Connection:
    connection = connect(path)
    try:
        _create_if_empty(connection, path)
        _check(connection, path, check)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_if_empty(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    if version:
        raise OtherQueueVersion(path=path, version=version)
    if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
        raise QueueDamaged(path=path, why="it is a file of SQLite's, but no queue")
    connection.execute("BEGIN IMMEDIATE")
    _create_tables(connection)
    connection.execute("COMMIT")


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of an empty file within the caller's transaction."""
    for statement in _SCHEMA.split(";"):  # `executescript` would commit the caller's transaction
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _check(connection: sqlite3.Connection, path: Path, check: DatabaseFileCheck) -> None:
    if connection.execute("SELECT COUNT(*) FROM queue").fetchone()[0] != 1:
        raise QueueDamaged(path=path, why="its table `queue` has no row")
    if check is DatabaseFileCheck.HEADER:
        return
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise QueueDamaged(path=path, why=str(found).splitlines()[-1])  # the first line may only say where


def file_system_of(folder: Path) -> str:
    """Return the kernel's name of the file system of a folder; empty where the kernel does not tell."""
    device = os.stat(folder).st_dev  # noqa: PTH116 - the same call for what is found in the table
    wanted = f"{os.major(device)}:{os.minor(device)}"
    table = text_of(_MOUNTS)
    return next((name for where, name in map(_mount, table.splitlines()) if where == wanted), "")


def _mount(line: str) -> tuple[str, str]:
    """Return device and file system of a line of the mount table: see proc_pid_mountinfo(5)."""
    fields = line.split(" ")
    after = fields.index("-") if "-" in fields else len(fields) - 2
    return fields[2], fields[after + 1]


# --- errors ----------------------------------------------------------------------------------------------


@contextmanager
def understood(folder: Path) -> Iterator[None]:
    """Raise errors of the file system and of SQLite inside the block as the queue's own."""
    try:
        yield
    except (OSError, sqlite3.DatabaseError) as error:
        meant = _meaning(error, folder)
        if meant is None:
            raise
        raise meant from error


def _meaning(error: OSError | sqlite3.DatabaseError, folder: Path) -> CodeflashParallelError | None:
    if isinstance(error, OSError):
        return QueueDiskFull(folder=folder) if error.errno in _FULL else queue_unfit(folder, error)
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # opening creates the index of the log, which had no room
        code = sqlite3.SQLITE_FULL
    match code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return QueueDiskFull(folder=folder)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return QueueBusy(folder=folder, waited_s=_TURN_S + _BUSY_S)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return QueueDamaged(path=folder / NAME, why=str(error))
        case sqlite3.SQLITE_IOERR | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return queue_unfit(folder, error)
    return None
