"""Candidates of `packaging_canonicalize_name`: lower case, and runs of separators made one dash."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, substitute

PATH = "src/packaging/utils.py"
FUNCTION = "def canonicalize_name("
VALUE = '_canonicalize_regex.sub("-", name).lower()'
STATEMENT = f"    value = {VALUE}\n"
PATTERN = 're.compile(r"[-_.]+")'


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new)}


def _lru_cache(sources: Sources) -> dict[str, str]:
    text = add_import(sources.base(PATH), "import functools")
    return {PATH: substitute(text, FUNCTION, f"@functools.lru_cache(maxsize=None)\n{FUNCTION}")}


COLLAPSE_ONCE = """\
    value = name.lower().replace("_", "-").replace(".", "-").replace("--", "-")
"""

CHAR_LOOP = """\
    characters = []
    separated = False
    for character in name:
        if character in "-_.":
            if not separated:
                characters.append("-")
            separated = True
        else:
            characters.append(character)
            separated = False
    value = "".join(characters).lower()
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_v1_translate": lambda sources: sources.upstream(0),
    "upstream_v2_maketrans": lambda sources: sources.upstream(1),
    "upstream_v3_replace": lambda sources: sources.upstream(2),
    "lru_cache": _lru_cache,
    "no_collapse": _change(PATTERN, 're.compile(r"[-_.]")'),
    "collapse_once": _change(STATEMENT, COLLAPSE_ONCE),
    "no_lower": _change(VALUE, '_canonicalize_regex.sub("-", name)'),
    "char_loop": _change(STATEMENT, CHAR_LOOP),
    "lower_first": _change(VALUE, '_canonicalize_regex.sub("-", name.lower())'),
}
