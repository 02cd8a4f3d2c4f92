"""The journal: every change of a job, in order. A damaged queue is made anew from it.

A line is the CRC-32 of what follows as eight hexadecimal digits, a space, and one JSON object. It holds the
columns that a change has set. The first line names the generation: the queue's file says to which generation
of the journal it belongs and how many bytes of it are true. Lines are written *before* the transaction they
belong to ends; what a writer that died in between has left is cut off by the next one. They are forced to the
disk after it, before the change is acknowledged, while others may write again already.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

NAME = "journal.jsonl"

#: Of the form of the lines.
VERSION = 1

#: A change: its event, and what it has set.
Change = Mapping[str, Any]


#: `json.dumps` would make an encoder for each line.
_encode = json.JSONEncoder(separators=(",", ":")).encode


class StaleJournal(Exception):  # noqa: N818 - found and mended inside the store
    """The journal is not the one that the queue's file speaks of, or is shorter."""


def line_of(change: Change) -> bytes:
    """Return the line of a change, with its line break."""
    text = _encode(change).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


@lru_cache(maxsize=8)
def head_of(generation: str) -> bytes:
    """Return the first line of a journal."""
    return line_of({"journal": VERSION, "generation": generation})


def append(path: Path, generation: str, end: int, lines: bytes) -> int:
    """Write lines at the true end of a journal and return the new end; see `wait_for_disk`.

    Raises:
        StaleJournal: nothing was written.
        OSError: the disk is full; nothing of it counts.
    """
    handle = _opened(path)
    try:
        head = head_of(generation)
        size = os.fstat(handle).st_size
        if size < end or os.pread(handle, len(head), 0) != head:
            raise StaleJournal
        if size > end:
            os.ftruncate(handle, end)
        _write(handle, lines, end)
    finally:
        os.close(handle)
    return end + len(lines)


def wait_for_disk(path: Path) -> None:
    """Wait until all that has been written to a journal is on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(handle)
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        raise StaleJournal from None


def _write(handle: int, data: bytes, place: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, place)
        place += written
        view = view[written:]


def read(path: Path, end: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the changes of a journal in order; lines that are torn or damaged are left out.

    Args:
        end: bytes that are true; all there are where the queue's file cannot say.
    """
    with path.open("rb") as file:
        read_bytes = 0
        for line in file:
            read_bytes += len(line)
            if end is not None and read_bytes > end:
                return
            change = body(line)
            if change is not None and "journal" not in change:
                yield change


def is_whole(path: Path, generation: str, end: int) -> bool:
    """Say whether a journal is the one of a generation, and all its lines up to its true end are."""
    try:
        with path.open("rb") as file:
            data = file.read(end)
    except FileNotFoundError:
        return False
    lines = data.splitlines(keepends=True)
    return len(data) == end and data.startswith(head_of(generation)) and None not in map(body, lines)


def body(line: bytes) -> dict[str, Any] | None:
    """Return what a line says, `None` for one that is torn or damaged."""
    checksum, _, text = line.partition(b" ")
    try:
        good = line.endswith(b"\n") and int(checksum, 16) == zlib.crc32(text[:-1])
        return json.loads(text) if good else None
    except ValueError:
        return None


def write_anew(path: Path, generation: str, changes: Iterable[Change]) -> int:
    """Write a journal beside the old one, wait for the disk, give it its name, and return its length."""
    draft = path.with_name(f"{path.name}.new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(head_of(generation))
        for change in changes:
            file.write(line_of(change))
        file.flush()
        os.fdatasync(handle)
        length = file.tell()
    draft.replace(path)
    return length
