"""Candidates of `textdistance_levenshtein`: the table of edit distances, row by row."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "textdistance/algorithms/edit_based.py"
CARRIED = """\
        test = self.test_func
        columns = range(1, len(s2) + 1)
        cur: Any
        if numpy:
            cur = numpy.arange(len(s2) + 1)
        else:
            cur = range(len(s2) + 1)
        for r in range(1, len(s1) + 1):
            prev = cur
            cur = [r]
            item = s1[r - 1]
            best = r
            diagonal = prev[0]
            for c in columns:
                above = prev[c]
                edit = diagonal if test(item, s2[c - 1]) else diagonal + 1
                best += 1
                if above + 1 < best:
                    best = above + 1
                if edit < best:
                    best = edit
                cur.append(best)
                diagonal = above
        return int(cur[-1])
"""

APPENDED = """\
        rows = len(s1) + 1
        cols = len(s2) + 1
        cur: Any
        cur = numpy.arange(cols) if numpy else range(cols)
        for r in range(1, rows):
            prev, cur = cur, [r]
            for c in range(1, cols):
                edit = prev[c - 1] + (not self.test_func(s1[r - 1], s2[c - 1]))
                cur.append(min(edit, prev[c] + 1, cur[c - 1] + 1))
        return int(cur[-1])
"""

WHOLE_TABLE = """\
        rows = len(s1) + 1
        cols = len(s2) + 1
        table: Any = [[r + c for c in range(cols)] for r in range(rows)]
        for r in range(1, rows):
            for c in range(1, cols):
                equal = self.test_func(s1[r - 1], s2[c - 1])
                edits = [table[r - 1][c - 1] + (not equal), table[r - 1][c] + 1, table[r][c - 1] + 1]
                table[r][c] = sorted(edits)[0]
        return int(table[-1][-1])
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "Levenshtein._cycled", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "carried": _body(CARRIED),
    "appended": _body(APPENDED),
    "whole_table": _body(WHOLE_TABLE),
}
