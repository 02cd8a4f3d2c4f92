"""Candidates of `mistune_strip_end`: white space after the last line break is removed."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, replace_body

PATH = "src/mistune/util.py"
RSTRIP = """\
    newline = src.find("\\n", len(src.rstrip()))
    return src if newline < 0 else src[: newline + 1]
"""

FOR_LOOP = """\
    end = 0
    for index in range(len(src) - 1, -1, -1):
        if not src[index].isspace():
            end = index + 1
            break
    newline = src.find("\\n", end)
    if newline >= 0:
        return src[:newline] + "\\n"
    return src
"""

PARTITION = """\
    kept = [*src]
    while kept and kept[-1].isspace():
        kept.pop()
    tail = src[len(kept) :]
    before, newline, _ = tail.partition("\\n")
    return "".join(kept) + before + newline if newline else src
"""


def _body(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: replace_body(sources.base(PATH), "strip_end", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "rstrip": _body(RSTRIP),
    "for_loop": _body(FOR_LOOP),
    "partition": _body(PARTITION),
}
