"""The note that a queue's file was made anew: nobody shall take one that has lost something for an empty one.

It lies beside the queue, a line a time, and is told with the queue's figures until somebody removes it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

NAME = "rebuilt.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebuilt:
    """A time at which the queue's file was made anew.

    Attributes:
        at_s: seconds since the epoch.
        why: what was wrong with the file, one clause.
        aside: where the damaged file lies now; empty: there was none.
        jobs: how many came back.
        has_journal: there was one to make it from.
        damaged_lines: of the journal, that could not be read.
    """

    at_s: float
    why: str
    aside: str
    jobs: int
    has_journal: bool
    damaged_lines: int


def leave_note(folder: Path, rebuilt: Rebuilt) -> None:
    """Add a line to the note of a queue, and wait for the disk."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    handle = os.open(folder / NAME, flags, 0o600)
    with os.fdopen(handle, "ab") as file:
        # After half a line, which a full disk leaves, this one shall stand alone.
        file.write(b"\n" + json.dumps(asdict(rebuilt)).encode("ascii") + b"\n")
        file.flush()
        os.fsync(handle)


def told(folder: Path) -> str:
    """Return what the note of a queue says, for people, on one line; empty: there is none."""
    try:
        lines = (folder / NAME).read_bytes().splitlines()
    except FileNotFoundError:
        return ""
    notes = [note for line in lines if (note := _note_of(line)) is not None]
    before = f" It was not the first time: {folder / NAME} has all {len(notes)}." if len(notes) > 1 else ""
    said = words(notes[-1]) if notes else "The queue's file was made anew."
    return f"{said}{before} Remove {folder / NAME} when you have read this."


def _note_of(line: bytes) -> Rebuilt | None:
    try:
        return Rebuilt(**json.loads(line))
    except (ValueError, TypeError):  # half a line: the disk was full
        return None


def words(rebuilt: Rebuilt) -> str:
    """Return what has happened, for people."""
    at = datetime.fromtimestamp(rebuilt.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    aside = f" The damaged file is {rebuilt.aside} now." if rebuilt.aside else ""
    return f"The queue's file was made anew at {at}: {rebuilt.why}.{aside} {_came_back(rebuilt)}"


def _came_back(rebuilt: Rebuilt) -> str:
    if not rebuilt.has_journal:
        return "There was no journal: what had been handed in is not in the queue any more."
    back = f"Jobs that came back from the journal: {rebuilt.jobs}; all shares start even."
    if not rebuilt.damaged_lines:
        return back
    return f"{back} Lines of it that could not be read: {rebuilt.damaged_lines}; what they said is lost."
