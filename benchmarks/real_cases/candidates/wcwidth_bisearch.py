"""Candidates of `wcwidth_bisearch`: is a character in a table of intervals."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, replace_body

PATH = "wcwidth/bisearch.py"
STANDARD = """\
    if ucs < table[0][0] or ucs > table[-1][1]:
        return 0
    return 1 if table[bisect_right(table, (ucs, LAST)) - 1][1] >= ucs else 0
"""

LOWER_FIRST = """\
    low = 0
    high = len(table) - 1

    if ucs < table[0][0] or ucs > table[high][1]:
        return 0

    while low <= high:
        middle = (low + high) >> 1
        if ucs < table[middle][0]:
            high = middle - 1
        elif ucs > table[middle][1]:
            low = middle + 1
        else:
            return 1
    return 0
"""

LINEAR = """\
    if ucs < table[0][0] or ucs > table[-1][1]:
        return 0
    for start, end in table:
        if ucs <= end:
            return int(ucs >= start)
    return 0
"""


def _standard(sources: Sources) -> dict[str, str]:
    text = replace_body(sources.base(PATH), "bisearch", STANDARD)
    return {PATH: add_import(text, "from bisect import bisect_right\n\nLAST = 0x110000")}


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "bisearch", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "standard": _standard,
    "lower_first": _body(LOWER_FIRST),
    "linear": _body(LINEAR),
}
