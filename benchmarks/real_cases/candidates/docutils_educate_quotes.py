"""Candidates of `docutils_educate_quotes`: straight quotes of a text made curly."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_function, substitute

PATH = "docutils/docutils/utils/smartquotes.py"
TARGET = "educateQuotes"
SMART = "    smart = smartchars(language)\n"
EARLY = f"""{SMART}    if "'" not in text and '"' not in text:
        return text
"""


def _change(*pairs: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    """Substitute in the target alone."""

    def texts(sources: Sources) -> dict[str, str]:
        function = function_source(sources.base(PATH), TARGET)
        for old, new in pairs:
            function = substitute(function, old, new)
        return {PATH: replace_function(sources.base(PATH), TARGET, function)}

    return texts


def _upstream_early(sources: Sources) -> dict[str, str]:
    text = sources.upstream(0)[PATH]
    function = substitute(function_source(text, TARGET), SMART, EARLY)
    return {PATH: replace_function(text, TARGET, function)}


def _by_kind(sources: Sources) -> dict[str, str]:
    """Put the steps for secondary quotes, and those for primary ones, under conditions."""
    lines = function_source(sources.base(PATH), TARGET).splitlines()
    opening, closing = (
        next(n for n, line in enumerate(lines) if line.strip().startswith(start))
        for start in ("# Get most opening secondary", "# Get most opening primary")
    )
    secondary = ['    if "\'" in text:', *_deeper(lines[opening:closing])]
    primary = ["    if '\"' in text:", *_deeper(lines[closing:-1])]
    function = "\n".join([*lines[:opening], *secondary, *primary, lines[-1]])
    return {PATH: replace_function(sources.base(PATH), TARGET, function)}


def _deeper(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else line for line in lines]


LANGUAGE = "if language.startswith('en'):"
APOSTROPHE = r"""re.compile(r"(?<=(\w|\d))'(?=\w)")"""
ASCII_APOSTROPHE = """re.compile(r"(?<=[a-zA-Z0-9])'(?=[a-zA-Z])")"""
CLOSING = "text = closing_secondary_quotes_regex.sub(smart.csquote, text)"
ENTITIES = r"r'|&[mn]dash;|&\#8211;|&\#8212;|&\#x201[34];',"
UNCACHED = """
    re.purge()
"""

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "upstream_early": _upstream_early,
    "early": _change((SMART, EARLY)),
    "by_kind": _by_kind,
    "only_en": _change((LANGUAGE, "if language == 'en':")),
    "ascii_apostrophe": _change((APOSTROPHE, ASCII_APOSTROPHE)),
    "no_entities": _change((ENTITIES, "'',")),
    "closing_by_replace": _change((CLOSING, """text = text.replace("'", smart.csquote)""")),
    "uncached": _change((SMART, SMART + UNCACHED)),
}
