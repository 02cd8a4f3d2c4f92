"""Candidates of `slugify_ascii`: a text made fit for an address."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "slugify/slugify.py"
FIRST = """\
    if allow_unicode:
        text = unicodedata.normalize('NFKC', text)
    else:
        text = unicodedata.normalize('NFKD', text)
        text = unidecode.unidecode(text)
"""


def _ascii_first(sources: Sources) -> dict[str, str]:
    text = substitute(sources.base(PATH), FIRST, "    if text.isascii():\n        pass\n    el" + FIRST[4:])
    for name, start in {"entities": "&", "decimal": "&#", "hexadecimal": "&#x"}.items():
        text = substitute(text, f"    if {name}:\n", f"    if {name} and {start!r} in text:\n")
    return {PATH: text}


def _quotes_replaced(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    return {PATH: substitute(text, "text = QUOTE_PATTERN.sub('', text)", "text = text.replace(\"'\", '')")}


def _each_character(sources: Sources) -> dict[str, str]:
    new = "''.join(map(unidecode.unidecode, text))"
    return {PATH: substitute(sources.base(PATH), "unidecode.unidecode(text)", new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "ascii_first": _ascii_first,
    "quotes_replaced": _quotes_replaced,
    "each_character": _each_character,
}
