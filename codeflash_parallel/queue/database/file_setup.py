"""How the queue's file is opened: made where there is none, and checked."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.queue.database import schema
from codeflash_parallel.queue.database.connection import NAME, Database, connect, understood
from codeflash_parallel.queue.database.network_filesystem import NameOf, refuse_network
from codeflash_parallel.queue.errors import NoQueue, OtherQueueVersion, QueueBusy, QueueDamaged

#: Opening takes milliseconds; who holds the lock for longer is stopped.
_PATIENCE_S = 60.0
_RETRY_S = 0.002


class DatabaseFileCheck(StrEnum):
    """How far a file is looked at before it is used."""

    #: Its head, its version, and whatever is read later.
    HEADER = "header"
    #: Every page of it, and the counts against the rows.
    FULL = "full"


def must_be_there(folder: Path) -> None:
    """Refuse a folder that holds no queue: who only looks makes none.

    Raises:
        NoQueue: nothing has ever been handed in there.
        EnvironmentFault: `QUEUE_UNFIT`, the folder cannot be read.
    """
    with understood(folder):
        if not (folder / NAME).exists():
            raise NoQueue(folder)


@contextmanager
def open_database(
    folder: Path, check: DatabaseFileCheck, name_of: NameOf | None = None
) -> Iterator[Database]:
    """Open the queue in a folder, and make it if there is none.

    Raises:
        EnvironmentFault: `NETWORK_FILE_SYSTEM`, `OTHER_QUEUE_VERSION`, `QUEUE_BUSY`, `QUEUE_DISK_FULL`,
            `QUEUE_UNFIT` or `QUEUE_DAMAGED`.
    """
    with understood(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network(folder, name_of)
        with _alone(folder / "opening.lock"):
            connection = _prepared(folder / NAME, check)
    database = Database(folder, connection)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _locked(handle):
            if time.monotonic() > deadline:
                raise QueueBusy(path.parent, _PATIENCE_S)
            time.sleep(_RETRY_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _prepared(path: Path, check: DatabaseFileCheck) -> sqlite3.Connection:
    """Return the open file, made or checked; called by one process at a time."""
    connection = connect(path)
    try:
        _make(connection, path)
        _look(connection, path, check)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == schema.VERSION:
        return
    if version:
        raise OtherQueueVersion(path, version)
    if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
        raise QueueDamaged(path, "it is a file of SQLite's, but no queue")
    connection.execute("BEGIN IMMEDIATE")
    schema.create(connection)
    connection.execute("COMMIT")


def _look(connection: sqlite3.Connection, path: Path, check: DatabaseFileCheck) -> None:
    if connection.execute("SELECT COUNT(*) FROM queue").fetchone()[0] != 1:
        raise QueueDamaged(path, "it does not say where it stands")
    if check is DatabaseFileCheck.HEADER:
        return
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise QueueDamaged(path, str(found).splitlines()[-1])  # the first line may only say where
    if connection.execute(schema.MISCOUNTED).fetchone()[0]:
        raise QueueDamaged(path, "its counts are not those of its rows")
