"""Candidates of `webcolors_legacy_color`: HTML 5's lenient reading of a colour."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, substitute

PATH = "src/webcolors/html5.py"
PLANES = """\
    value = "".join("00" if ord(c) > 0xFFFF else c for c in value)
"""
JUNK = """\
    value = "".join(c if c in string.hexdigits else "0" for c in value)
"""
PADDING = """\
    while (len(value) == 0) or (len(value) % 3 != 0):
        value += "0"
"""


def _expressions(sources: Sources) -> dict[str, str]:
    text = substitute(sources.base(PATH), PLANES, "    if not value.isascii():\n    " + PLANES)
    text = substitute(text, JUNK, '    value = re.sub("[^0-9a-fA-F]", "0", value)\n')
    return {PATH: add_import(text, "import re")}


def _padded_at_once(sources: Sources) -> dict[str, str]:
    new = '    value = value + "0" * (-len(value) % 3) if value else "000"\n'
    return {PATH: substitute(sources.base(PATH), PADDING, new)}


def _character_by_character(sources: Sources) -> dict[str, str]:
    new = """\
    replaced = ""
    for c in value:
        replaced += c if any(c == digit for digit in string.hexdigits) else "0"
    value = replaced
"""
    return {PATH: substitute(sources.base(PATH), JUNK, new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "expressions": _expressions,
    "padded_at_once": _padded_at_once,
    "character_by_character": _character_by_character,
}
