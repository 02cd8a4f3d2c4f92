"""Candidates of `werkzeug_clean_status`: a response's status line and code from what the user gave."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, add_import, substitute

PATH = "src/werkzeug/sansio/response.py"

FIRST = """        if isinstance(value, HTTPStatus):
            value = int(value)
"""
EMPTY = """        if len(split_status) == 0:
            raise ValueError("Empty status argument")

"""
PARSED = """        try:
            status_code = int(split_status[0])
        except ValueError:
"""
LOOKUP = """        try:
            status = f"{status_code} {HTTP_STATUS_CODES[status_code].upper()}"
        except KeyError:
            status = f"{status_code} UNKNOWN"

        return status, status_code
"""


def _edit(*edits: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new in edits:
            text = substitute(text, old, new)
        return {PATH: text}

    return texts


INTS_FIRST = """
        if type(value) is int:
            try:
                return f"{value} {HTTP_STATUS_CODES[value].upper()}", value
            except KeyError:
                return f"{value} UNKNOWN", value

"""
#: A code and words, with one blank between them.
TEXT_FIRST = """
        elif type(value) is str:
            head, _, words = value.partition(" ")
            if head.isascii() and head.isdigit() and words.strip():
                return value, int(head)

"""
SEARCHED = """        for code, text in sorted(HTTP_STATUS_CODES.items()):
            if code == status_code:
                return f"{status_code} {text.upper()}", status_code

        return f"{status_code} UNKNOWN", status_code
"""
GOT = """        text = HTTP_STATUS_CODES.get(status_code, "UNKNOWN")
        return f"{status_code} {text.upper()}", status_code
"""
THREE_DIGITS = """        try:
            status_code = int(status[:3])
        except ValueError:
"""
DIGITS_ONLY = """        if split_status[0].isdigit():
            status_code = int(split_status[0])
        else:
"""
MEMO = """
@lru_cache(maxsize=None, typed=True)
def _status_of(value, charset):
    return Response._parsed_status(value, charset)
"""


def memo(sources: Sources) -> dict[str, str]:
    """Keep every answer by value and charset; the work goes into a method of its own."""
    text = sources.base(PATH)
    head = "    def _clean_status(self, value: t.Union[str, int, HTTPStatus]) -> t.Tuple[str, int]:\n"
    kept = head + "        return _status_of(value, self.charset)\n\n"
    work = "    @staticmethod\n    def _parsed_status(value, charset):\n"
    text = substitute(text, head, kept + work)
    text = substitute(text, "_to_str(value, self.charset)", "_to_str(value, charset)")
    text = substitute(text, "class Response:\n", MEMO + "\n\nclass Response:\n")
    return {PATH: add_import(text, "from functools import lru_cache")}


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "ints_first": _edit((FIRST, FIRST + INTS_FIRST)),
    "ints_and_text_first": _edit((FIRST, FIRST + INTS_FIRST.rstrip() + TEXT_FIRST)),
    "three_digits": _edit((PARSED, THREE_DIGITS)),
    "digits_only": _edit((PARSED, DIGITS_ONLY)),
    "no_empty_check": _edit((EMPTY, "")),
    "memo": memo,
    "searched": _edit((LOOKUP, SEARCHED)),
    "get_message": _edit((LOOKUP, GOT)),
}
