"""The lines of a journal. Pure.

A line is the CRC-32 of what follows as eight hexadecimal digits, a space, and one JSON object without a line
break. The first line names the version of the form. A last line that was torn, because the writer died in
the middle of it, is recognised and left out; a bad line with a good one behind it is damage, and nothing
after it is believed.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from codeflash_parallel.race.race_record import restored, written
from codeflash_parallel.run.store.journal_events import SCHEMA, Begun, Happened


class NewerJournal(ValueError):  # noqa: N818 - told in its reader's own words
    """The journal was written by a later version; `args[0]` is its schema."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalContent:
    """What is in a journal.

    Attributes:
        events: in order.
        good_bytes: length of the lines that they stand in; what follows was torn.
        damage: why the rest cannot be believed, one clause; empty when all is well.
    """

    events: tuple[Happened, ...] = ()
    good_bytes: int = 0
    damage: str = ""
    torn: bytes = field(default=b"", repr=False)


def line_of(event: Happened) -> bytes:
    """Return the line of an event, with its line break."""
    text = json.dumps(written(Happened, event), separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def read_lines(data: bytes) -> JournalContent:
    """Return what the bytes of a journal say.

    Raises:
        NewerJournal: a later version wrote it.
    """
    events: list[Happened] = []
    good = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        body = _body(line)
        if body is None:
            rest = lines[number + 1 :]
            if any(_body(later) is not None for later in rest):
                return JournalContent(
                    events=tuple(events), good_bytes=good, damage=f"line {number + 1} is damaged"
                )
            break
        if not events:
            _must_be_known(body)
        try:
            events.append(restored(Happened, body))
        except (ValueError, TypeError, KeyError) as error:
            return JournalContent(events=tuple(events), good_bytes=good, damage=f"line {number + 1}: {error}")
        good += len(line) + 1
    if not events or not isinstance(events[0], Begun):
        return JournalContent(damage="it does not begin with what was asked for")
    return JournalContent(events=tuple(events), good_bytes=good, torn=data[good:])


def _body(line: bytes) -> Any:
    """Return the JSON value of a line whose checksum is right, to the letter, else `None`."""
    checksum, _, text = line.partition(b" ")
    try:
        return json.loads(text) if checksum == b"%08x" % zlib.crc32(text) else None
    except ValueError:
        return None


def _must_be_known(first: Any) -> None:
    schema = first.get("schema") if isinstance(first, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise NewerJournal(schema)
