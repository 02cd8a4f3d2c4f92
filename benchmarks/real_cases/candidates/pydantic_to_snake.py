"""Candidates of `pydantic_to_snake`: a name in camel, Pascal or kebab case becomes one in snake case."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, insert_before, replace_body, substitute

PATH = "pydantic/alias_generators.py"
TARGET = "to_snake"


def _body(new: str, before: str = "") -> Callable[[Sources], dict[str, str]]:
    """Give the target another body, and the module what that needs."""

    def change(sources: Sources) -> dict[str, str]:
        text = replace_body(sources.base(PATH), TARGET, new)
        return {PATH: insert_before(text, TARGET, before) if before else text}

    return change


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    return lambda sources: {PATH: substitute(sources.base(PATH), old, new)}


def _lru_cache(sources: Sources) -> dict[str, str]:
    text = add_import(sources.base(PATH), "import functools")
    return {PATH: substitute(text, f"def {TARGET}(", f"@functools.lru_cache(maxsize=None)\ndef {TARGET}(")}


HYPHENS = """\
    # Replace hyphens with underscores to handle kebab-case
    snake = snake.replace('-', '_')
    return snake.lower()
"""

ONE_COMPILED = r"""
_PLACES = re.compile('(?<=[a-zA-Z])(?=[0-9])|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|-')
"""

ONE_COMPILED_BODY = """
return _PLACES.sub('_', camel).lower()
"""

THREE_COMPILED = """
_DIGIT = re.compile('([a-zA-Z])([0-9])').sub
_UPPER = re.compile('([a-z0-9])([A-Z])').sub
_ACRONYM = re.compile('([A-Z]+)([A-Z][a-z])').sub
"""

THREE_COMPILED_BODY = r"""
snake = _ACRONYM(r'\1_\2', _UPPER(r'\1_\2', _DIGIT(r'\1_\2', camel)))
return snake.replace('-', '_').lower()
"""

# Only the first run of capitals, where it begins the name.
FIRST_ACRONYM_BODY = r"""
snake = _ACRONYM(r'\1_\2', _UPPER(r'\1_\2', _DIGIT(r'\1_\2', camel)))
return snake.replace('-', '_').lower()
"""
FIRST_ACRONYM = THREE_COMPILED.replace("([A-Z]+)([A-Z][a-z])", "^([A-Z]+)([A-Z][a-z])")

# Letters that are not ASCII become capitals too.
CHAR_LOOP_BODY = """
parts = []
before = ''
for at, each in enumerate(camel):
    if each.isupper():
        lower_next = camel[at + 1 : at + 2].islower()
        if before.islower() or before.isdigit() or (before.isupper() and lower_next):
            parts.append('_')
    elif each.isdigit() and before.isalpha():
        parts.append('_')
    parts.append('_' if each == '-' else each.lower())
    before = each
return ''.join(parts)
"""

ASCII_LOOP_BODY = """
parts = []
before = ''
for at, each in enumerate(camel):
    if 'A' <= each <= 'Z':
        lower_next = 'a' <= camel[at + 1 : at + 2] <= 'z'
        if 'a' <= before <= 'z' or '0' <= before <= '9' or ('A' <= before <= 'Z' and lower_next):
            parts.append('_')
    elif '0' <= each <= '9' and ('a' <= before <= 'z' or 'A' <= before <= 'Z'):
        parts.append('_')
    parts.append('_' if each == '-' else each)
    before = each
return ''.join(parts).lower()
"""

PURGED_BODY = r"""
re.purge()
snake = re.sub('([a-zA-Z])([0-9])', r'\1_\2', camel)
snake = re.sub('([a-z0-9])([A-Z])', r'\1_\2', snake)
snake = re.sub('([A-Z]+)([A-Z][a-z])', r'\1_\2', snake)
return snake.replace('-', '_').lower()
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream_lookaround": lambda sources: sources.upstream(0),
    "one_compiled": _body(ONE_COMPILED_BODY, ONE_COMPILED),
    "three_compiled": _body(THREE_COMPILED_BODY, THREE_COMPILED),
    "ascii_loop": _body(ASCII_LOOP_BODY),
    "first_acronym": _body(FIRST_ACRONYM_BODY, FIRST_ACRONYM),
    "unicode_loop": _body(CHAR_LOOP_BODY),
    "no_digits": _change("'([a-z0-9])([A-Z])'", "'([a-z])([A-Z])'"),
    "hyphens_first": _change(HYPHENS, "    return snake.lower().replace('-', '_')\n"),
    "lru_cache": _lru_cache,
    "purged": _body(PURGED_BODY),
}
