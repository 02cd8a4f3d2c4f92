"""Candidates of `humanize_numbers`: numbers for people, with separators, suffixes and words."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_function, substitute

PATH = "src/humanize/number.py"

#: The end of `intcomma`, from the formatting of the number on.
GROUPING = """    if ndigits is not None:
        orig = "{0:.{1}f}".format(value, ndigits)
    else:
        orig = str(value)
    orig = orig.replace(".", decimal_sep)
    import re

    while True:
        new = re.sub(r"^(-?\\d+)(\\d{3})", rf"\\g<1>{thousands_sep}\\g<2>", orig)
        if orig == new:
            return new
        orig = new
"""


def _grouped(source: str) -> Callable[[Sources], dict[str, str]]:
    """Give `intcomma` another end."""
    return lambda sources: {PATH: substitute(sources.base(PATH), GROUPING, source)}


ONLY_INTCOMMA = """    text = f"{value:,}" if ndigits is None else f"{value:,.{ndigits}f}"
    if thousands_sep == "," and decimal_sep == ".":
        return text
    return text.translate({ord(","): thousands_sep, ord("."): decimal_sep})
"""

INT_CAST = """    text = f"{int(value):,}"
    return text.replace(",", thousands_sep)
"""

REVERSED_CHUNKS = """    if ndigits is not None:
        orig = "{0:.{1}f}".format(value, ndigits)
    else:
        orig = str(value)
    orig = orig.replace(".", decimal_sep)
    sign = "-" if orig[:1] == "-" else ""
    end = start = len(sign)
    while end < len(orig) and orig[end].isdecimal():
        end += 1
    backwards = orig[start:end][::-1]
    chunks = [backwards[at : at + 3] for at in range(0, len(backwards), 3)]
    return sign + thousands_sep[::-1].join(chunks)[::-1] + orig[end:]
"""

RECOMPILE_REGEX = """    if ndigits is not None:
        orig = "{0:.{1}f}".format(value, ndigits)
    else:
        orig = str(value)
    orig = orig.replace(".", decimal_sep)
    import re

    re.purge()
    while True:
        new = re.sub(r"^(-?\\d+)(\\d{3})", rf"\\g<1>{thousands_sep}\\g<2>", orig)
        if orig == new:
            return new
        orig = new
"""


def ignores_locale(sources: Sources) -> dict[str, str]:
    """Take upstream's change, and write English separators whatever the locale says."""
    texts = sources.upstream(0)
    body = function_source(texts[PATH], "intcomma")
    localised = """    if thousands_sep != "," or decimal_sep != ".":
        result = result.translate(str.maketrans(",.", thousands_sep + decimal_sep))
"""
    body = substitute(body, localised, "")
    return {**texts, PATH: replace_function(texts[PATH], "intcomma", body)}


def teens_wrong(sources: Sources) -> dict[str, str]:
    """Take upstream's change, and lose what is special about 11, 12 and 13."""
    texts = sources.upstream(0)
    special = "digit = 0 if value % 100 in (11, 12, 13) else value % 10"
    return {**texts, PATH: substitute(texts[PATH], special, "digit = value % 10")}


def import_hoisted(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    body = function_source(text, "intcomma")
    body = substitute(body, "    import re\n\n", "")
    body = substitute(body, "    import math\n\n", "    import math\n    import re\n\n")
    return {PATH: replace_function(text, "intcomma", body)}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "only_intcomma": _grouped(ONLY_INTCOMMA),
    "ignores_locale": ignores_locale,
    "teens_wrong": teens_wrong,
    "int_cast": _grouped(INT_CAST),
    "reversed_chunks": _grouped(REVERSED_CHUNKS),
    "recompile_regex": _grouped(RECOMPILE_REGEX),
    "import_hoisted": import_hoisted,
}
