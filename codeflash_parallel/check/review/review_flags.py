"""What a candidate's code has and the baseline's has not, and is a reason to look harder. Pure.

Step 2 of the gate. Never a verdict: honest candidates use threads and clocks, and an attack can be written
without any name that is known here. What the baseline has already is not flagged, wherever it stands.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from codeflash_parallel.candidates.analysis.python_source import (
    decoded,
    parse,
    parse_anew,
    parse_piece,
    same_around,
)
from codeflash_parallel.check.review.suspicious_constructs import Construct, constructs, names_of
from codeflash_parallel.result.outcome_codes import FlagKind
from codeflash_parallel.result.result_model import Flag

#: Larger files are not read: their trees would take seconds, in which nothing else of a run goes on.
MAX_BYTES = 1_000_000
#: Files of the snapshot whose names are remembered: every candidate changes the same few.
_KEPT = 8

_Key = tuple[FlagKind, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """One construct of the new text.

    Attributes:
        is_known: the old text has the same line.
    """

    found: Construct
    path: str
    is_known: bool


def added_flags(old: Mapping[str, bytes | None], new: Mapping[str, bytes | None]) -> tuple[Flag, ...]:
    """Return what is flagged in some files and was not there before, each construct once a file.

    Args:
        old: the snapshot's content of the files that a candidate changes, by path; `None`: there is none.
        new: the candidate's content; `None`: it removes the file.
    """
    before: Counter[_Key] = Counter()
    places: list[_Place] = []
    unread: list[Flag] = []
    for path in sorted(new):
        one, other = old.get(path) or b"", new[path] or b""
        if one == other or not path.endswith(".py"):
            continue
        try:
            gone, come = _compared(path, one, other)
        except SyntaxError as error:
            unread.append(Flag(kind=FlagKind.UNREAD, what=str(error), path=path, line=0))
            continue
        before.update(gone)
        places += come
    return (*unread, *_named(places, before))


def _named(places: list[_Place], before: Counter[_Key]) -> list[Flag]:
    """Return flags of the constructs that there are more of than before, at new lines if possible."""
    flags: dict[tuple[_Key, str], Flag] = {}
    left = Counter((place.found.kind, place.found.what) for place in places) - before
    for place in sorted(places, key=lambda place: (place.is_known, place.path, place.found.line)):
        key = (place.found.kind, place.found.what)
        if left[key] > 0:
            left[key] -= 1
            flag = Flag(kind=key[0], what=key[1], path=place.path, line=place.found.line)
            flags.setdefault((key, place.path), flag)
    return sorted(flags.values(), key=lambda flag: (flag.path, flag.line, flag.kind, flag.what))


def _compared(path: str, old: bytes, new: bytes) -> tuple[Counter[_Key], list[_Place]]:
    """Return what is found where two texts of a file differ: counted in the old, listed in the new one.

    Raises:
        SyntaxError: one of them is not Python here, or too large.
    """
    if max(len(old), len(new)) > MAX_BYTES:
        raise SyntaxError("it is too large to be read")
    try:
        before, after = _differing(old, new)
    except SyntaxError as error:
        raise SyntaxError("it cannot be parsed here") from error
    gone = Counter((found.kind, found.what) for found in constructs(before.tree, before.names))
    come = [
        _Place(
            found=Construct(found.kind, found.what, found.line + after.above),
            path=path,
            is_known=after.line(found.line) in before.lines,
        )
        for found in constructs(after.tree, after.names)
    ]
    return gone, come


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """A file, or what differs of it.

    Attributes:
        names: what names of the whole file stand for.
        lines: of the text, without indentation.
        above: lines in front of it.
    """

    tree: ast.Module
    names: Mapping[str, str]
    lines: tuple[str, ...]
    above: int = 0

    def line(self, number: int) -> str:
        """Return a line by its number in this text, from 1."""
        return self.lines[number - 1] if number <= len(self.lines) else ""


def _differing(old: bytes, new: bytes) -> tuple[_Reading, _Reading]:
    """Read what differs between two texts of a file; all of it where that cannot be told by the text."""
    known, text = decoded(old), decoded(new)
    if known is None or text is None:
        return _whole(old), _whole(new)
    known, text = known.removeprefix("\ufeff"), text.removeprefix("\ufeff")
    head, tail = same_around(known, text)
    try:
        before, after = (_piece(t[head : len(t) - tail], known, _lines_of(t[:head])) for t in (known, text))
    except SyntaxError:  # it is Python only together with what stands around it
        return _whole(old), _whole(new)
    return before, after


def _piece(text: str, known: str, above: int) -> _Reading:
    tree = parse_piece(text)
    names = names_of(tree, _names(known))
    return _Reading(tree=tree, names=names, lines=_stripped(text), above=above)


@lru_cache(maxsize=_KEPT)
def _names(text: str) -> Mapping[str, str]:
    return names_of(parse(text))


def _whole(data: bytes) -> _Reading:
    tree = parse_anew(data)
    return _Reading(tree=tree, names=names_of(tree), lines=_stripped(data.decode("latin-1")))


def _stripped(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


def _lines_of(text: str) -> int:
    return len(_stripped(text)) - 1
