"""Candidates of `sqlparse_imt`: is a token of a class, a match or a type."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "sqlparse/utils.py"
PLAIN_LOOPS = """\
    if token is None:
        return False
    if i and isinstance(token, i):
        return True
    if m:
        if isinstance(m, list):
            for pattern in m:
                if token.match(*pattern):
                    return True
        elif token.match(*m):
            return True
    if t:
        if isinstance(t, list):
            for ttype in t:
                if token.ttype in ttype:
                    return True
        elif token.ttype in t:
            return True
    return False
"""

ONE_EXPRESSION = """\
    if token is None:
        return False
    if i and isinstance(token, i):
        return True
    if m and (any(token.match(*p) for p in m) if isinstance(m, list) else token.match(*m)):
        return True
    return bool(t) and (any(token.ttype in each for each in t) if isinstance(t, list) else token.ttype in t)
"""

EVERYTHING_A_LIST = """\
    if token is None:
        return False
    if i and isinstance(token, i):
        return True
    patterns = list(m) if isinstance(m, list) else [m] if m else []
    if any(map(lambda pattern: token.match(*pattern), patterns)):
        return True
    ttypes = list(t) if isinstance(t, list) else [t] if t else []
    return any(map(lambda ttype: token.ttype in ttype, ttypes))
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "imt", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "plain_loops": _body(PLAIN_LOOPS),
    "one_expression": _body(ONE_EXPRESSION),
    "everything_a_list": _body(EVERYTHING_A_LIST),
}
