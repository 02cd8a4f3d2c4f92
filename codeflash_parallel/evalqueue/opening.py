"""How the queue's file is opened: made, checked, brought up to date, or made anew from the journal."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from codeflash_parallel.evalqueue import journal, schema
from codeflash_parallel.evalqueue.database import NAME, Database, connect, understood
from codeflash_parallel.evalqueue.filesystems import NameOf, refuse_network
from codeflash_parallel.evalqueue.refusals import NewerQueue, NoQueue, QueueBusy, QueueDamaged

#: Opening takes milliseconds, a rebuild seconds; who holds the lock for longer is stopped.
_PATIENCE_S = 60.0
_RETRY_S = 0.002

#: Called with one sentence when a damaged file has been made anew.
OnRebuilt = Callable[[str], None]

#: What SQLite keeps beside its file belongs to it.
_ASIDE = ("", "-wal", "-shm")


class Check(StrEnum):
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
        if not any((folder / name).exists() for name in (NAME, journal.NAME)):
            raise NoQueue(folder)


@contextmanager
def open_database(
    folder: Path, check: Check, name_of: NameOf | None = None, on_rebuilt: OnRebuilt = lambda _said: None
) -> Iterator[Database]:
    """Open the queue in a folder, and make it if there is none.

    Raises:
        EnvironmentFault: `NETWORK_FILE_SYSTEM`, `NEWER_QUEUE`, `QUEUE_BUSY`, `QUEUE_DISK_FULL`, or
            `QUEUE_DAMAGED` where others have the damaged file open.
    """
    with understood(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network(folder, name_of)
        users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with understood(folder), _alone(folder / "opening.lock"):
            fcntl.flock(users, fcntl.LOCK_SH)
            database = _opened(folder, check, users, on_rebuilt)
        try:
            if check is Check.FULL:
                database.tend_journal()
            yield database
        finally:
            database.close()
    finally:
        os.close(users)


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


def _opened(folder: Path, check: Check, users: int, on_rebuilt: OnRebuilt) -> Database:
    """Return the open file, made or mended; called by one process at a time."""
    path = folder / NAME
    try:
        connection = _prepare(folder, check, users)
    except QueueDamaged as damage:
        from codeflash_parallel.evalqueue import rebuilt
        from codeflash_parallel.evalqueue.rebuilding import rebuild

        with _only_user(users, damage):
            rebuild(folder, damage.why, _move_aside(path))
            on_rebuilt(rebuilt.told(folder))
        connection = connect(path)
    return Database(folder, connection)


def _prepare(folder: Path, check: Check, users: int) -> sqlite3.Connection:
    path = folder / NAME
    if not path.exists() and (folder / journal.NAME).exists():
        raise QueueDamaged(path, "it is gone, and its journal is there")
    with understood(folder):
        connection = connect(path)
        try:
            _make_fit(connection, path, check, users)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_fit(connection: sqlite3.Connection, path: Path, check: Check, users: int) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > schema.VERSION:
        raise NewerQueue(path, version)
    _update(connection, path, version, users)
    _look(connection, path, check)


def _update(connection: sqlite3.Connection, path: Path, version: int, users: int) -> None:
    if version == schema.VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    if version == 0:
        if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]:
            raise QueueDamaged(path, "it is a file of SQLite's, but no queue")
        if (book := path.with_name(journal.NAME)).exists() and any(journal.read(book)):
            # Somebody has emptied it, or a rebuild was killed: the journal is all that there is.
            raise QueueDamaged(path, "it is empty, and its journal is not")
        schema.create(connection)
        generation = connection.execute("SELECT lower(hex(randomblob(8)))").fetchone()[0]
        end = journal.write_anew(book, generation, ())
        connection.execute("UPDATE queue SET generation = ?, journal_end = ?", (generation, end))
    else:
        with _only_user(users, QueueBusy(path.parent, 0)):
            schema.migrate(connection, version)
    connection.execute("COMMIT")


def _look(connection: sqlite3.Connection, path: Path, check: Check) -> None:
    if connection.execute("SELECT COUNT(*) FROM queue").fetchone()[0] != 1:
        raise QueueDamaged(path, "it does not say where it stands")
    if check is Check.HEADER:
        return
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise QueueDamaged(path, str(found).splitlines()[-1])  # the first line may only say where
    if connection.execute(schema.MISCOUNTED).fetchone()[0]:
        raise QueueDamaged(path, "its counts are not those of its rows")


@contextmanager
def _only_user(users: int, otherwise: Exception) -> Iterator[None]:
    """Have the file for ourselves inside the block; nobody else may use it by what we do to it.

    Raises:
        Exception: what is given, where others have it open.
    """
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise otherwise from None
    try:
        yield
    finally:
        fcntl.flock(users, fcntl.LOCK_SH)


def _move_aside(path: Path) -> str:
    """Give a damaged file, and what belongs to it, another name: somebody may want to look at it.

    Returns:
        Where it lies now; empty where there was none.
    """
    number = 1
    while (aside := path.with_name(f"{NAME}.damaged-{number}")).exists():
        number += 1
    moved = [suffix for suffix in _ASIDE if path.with_name(NAME + suffix).exists()]
    for suffix in moved:
        path.with_name(NAME + suffix).rename(aside.with_name(aside.name + suffix))
    return str(aside.with_name(aside.name + moved[0])) if moved else ""
