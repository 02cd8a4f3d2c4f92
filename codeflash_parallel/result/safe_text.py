"""Hostile text made safe for terminals and files.

Candidates, test output, ids and paths are written by others. What reaches a terminal must not move the
cursor, change colours, titles or the clipboard, reverse the reading direction, or hide.
"""

from __future__ import annotations

import unicodedata

#: Unicode categories that draw nothing themselves but change what is drawn: controls (escape sequences start
#: with one), formats (bidi overrides, zero-width characters, tags), lone surrogates, line and paragraph
#: separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

#: How wide a tab is shown; diffs of Python code are read with it.
_TAB = "    "

#: Marks a cut.
ELLIPSIS = "…"


def printable(text: str) -> str:
    """Return text that only draws itself: newlines stay, tabs become spaces, what acts is escaped."""
    if text.replace("\n", "").isprintable():  # says no to all of the categories, and to what is no character
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str, *, limit: int = 0) -> str:
    """Return printable text without line breaks, cut to `limit` characters (0: not cut)."""
    line = " ".join(printable(text).split())
    if limit and len(line) > limit:
        return line[: limit - 1] + ELLIPSIS
    return line


def _shown(character: str) -> str:
    if character == "\n":
        return character
    if character == "\t":
        return _TAB
    if unicodedata.category(character) in _UNSAFE or _is_noncharacter(character):
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character


def _is_noncharacter(character: str) -> bool:
    """Tell the 66 code points that are never characters; XML forbids some of them."""
    code = ord(character)
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF  # noqa: PLR2004 - from the Unicode standard


def encodable(text: str) -> str:
    """Return text that any UTF-8 reader accepts: lone surrogates (undecodable file names) are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
