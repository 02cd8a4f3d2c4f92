"""Candidates of `inflection_singularize`: is the word uncountable, else the first rule that fits."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "inflection/__init__.py"
LOOP = """\
    for inflection in UNCOUNTABLES:
        if re.search(r'(?i)\\b(%s)\\Z' % inflection, word):
            return word
"""

ONE_PATTERN = """\
    if UNCOUNTABLES and re.search(r'(?i)\\b(?:%s)\\Z' % '|'.join(UNCOUNTABLES), word):
        return word
"""

GENERATOR = """\
    uncountable = (re.search(r'(?i)\\b(%s)\\Z' % inflection, word) for inflection in UNCOUNTABLES)
    if any(uncountable):
        return word
"""

COMPILED_IN_ORDER = """\
    for inflection in sorted(UNCOUNTABLES):
        pattern = re.compile(r'\\b(%s)\\Z' % inflection, re.IGNORECASE)
        if pattern.search(word) is not None:
            return word
"""


def _change(new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), LOOP, new)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "one_pattern": _change(ONE_PATTERN),
    "generator": _change(GENERATOR),
    "compiled_in_order": _change(COMPILED_IN_ORDER),
}
