"""Candidates of `jmespath_is_false`: which values count as false."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "jmespath/visitor.py"
BY_TYPE = """\
        kind = type(value)
        if kind is str or kind is list or kind is dict:
            return not value
        if kind is int or kind is float:
            return False
        return (value == '' or value == [] or value == {} or value is None or
                value is False)
"""

IDENTITIES_FIRST = """\
        if value is None or value is False:
            return True
        return value == '' or value == [] or value == {}
"""

LOOP = """\
        for empty in ('', [], {}):
            if value == empty:
                return True
        return any(value is constant for constant in (None, False))
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "TreeInterpreter._is_false", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "by_type": _body(BY_TYPE),
    "identities_first": _body(IDENTITIES_FIRST),
    "loop": _body(LOOP),
}
