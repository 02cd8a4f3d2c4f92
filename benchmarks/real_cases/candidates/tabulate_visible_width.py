"""Candidates of `tabulate_visible_width`: how wide a string is without its colour codes."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "tabulate/__init__.py"
OLD = """\
    if isinstance(s, (str, bytes)):
        return len(_strip_ansi(s))
    else:
        return len(str(s))
"""

NO_ESCAPE = (
    """\
    if type(s) is str and "\\x1b" not in s:
        return len(s)
"""
    + OLD
)

OTHERS_FIRST = """\
    if not isinstance(s, (str, bytes)):
        return len(str(s))
    return len(_strip_ansi(s))
"""

COUNTED = """\
    visible = _strip_ansi(s) if isinstance(s, (str, bytes)) else str(s)
    return sum(1 for _ in visible)
"""


def _change(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), OLD, new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "no_escape": _change(NO_ESCAPE),
    "others_first": _change(OTHERS_FIRST),
    "counted": _change(COUNTED),
}
