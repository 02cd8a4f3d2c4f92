"""Modules of Python and a page of JSON as HTML: with classes, and with inline styles."""

from __future__ import annotations

from pygments.formatters import HtmlFormatter
from pygments.lexers import JsonLexer, PythonLexer

FUNCTION = '''
def area_{n}(width: float, height: float = {n}.5) -> float:
    """Return the area.

    Both sides are in <metres> & more than 0.
    """
    if width < 0 or height < 0:  # never "negative"
        raise ValueError(f"not {{width}} x {{height}}")
    return width * height
'''
PYTHON = "".join(FUNCTION.format(n=n) for n in range(12))
JSON = (
    "[\n" + ",\n".join(f'  {{"id": {n}, "name": "no {n}", "tags": ["a", null]}}' for n in range(40)) + "\n]\n"
)
TOKENS = [list(PythonLexer().get_tokens(PYTHON)), list(JsonLexer().get_tokens(JSON))]
format_lines = HtmlFormatter._format_lines  # noqa: SLF001
OPTIONS = ({}, {"noclasses": True})


def main() -> list[str]:
    pages = []
    for options in OPTIONS:
        formatter = HtmlFormatter(**options)
        pages += ["".join(line for _, line in format_lines(formatter, tokens)) for tokens in TOKENS]
    return pages
