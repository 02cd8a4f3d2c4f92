"""A document with comments of a line and literal strings: what the parser asks for at each of them."""

from __future__ import annotations

from tomli import _parser

COMMENT = "# the address at which the service listens, and how long it waits"
LITERAL = "'C:\\programs\\service\\bin'"
LINES = [f"{COMMENT} ({n})\nkey{n} = {LITERAL}\n" for n in range(50)]
DOCUMENT = "".join(LINES)
COMMENTS = [n for n, character in enumerate(DOCUMENT) if character == "#"]
LITERALS = [n + 2 for n, character in enumerate(DOCUMENT) if DOCUMENT[n : n + 2] == " '"]
BAD = _parser.ILLEGAL_COMMENT_CHARS


def main() -> list[int]:
    until = _parser.skip_until
    comments = [until(DOCUMENT, at, "\n", error_on=BAD, error_on_eof=False) for at in COMMENTS]
    return comments + [until(DOCUMENT, at, "'", error_on=BAD, error_on_eof=True) for at in LITERALS]
