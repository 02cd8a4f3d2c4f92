"""Candidates of `rich_segment_divide`: a line of styled text cut at some columns."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, function_source, replace_body, replace_function, substitute

PATH = "rich/segment.py"
NAME = "Segment.divide"
LENGTH = "cell_len(text)"
PRINTABLE = "(len(text) if text.isascii() and text.isprintable() else cell_len(text))"
LEADING = """\
    while cut == 0:
"""

PLAIN_NEXT = f"""\
    remaining = iter(cuts)
    cut = next(remaining, None)
{LEADING}        yield []
        cut = next(remaining, None)
    if cut is None:
        return

    portion: List["Segment"] = []
    pos = 0
    for segment in segments:
        text, _style, control = segment
        while text:
            end_pos = pos if control else pos + {LENGTH}
            if end_pos < cut:
                portion.append(segment)
                pos = end_pos
                break
            if end_pos == cut:
                portion.append(segment)
                text = ""
            else:
                before, segment = segment.split_cells(cut - pos)
                portion.append(before)
                text, _style, control = segment
            pos = cut
            yield portion
            portion = []
            cut = next(remaining, None)
            if cut is None:
                return
    yield portion
"""


def _body(*changes: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    """Make `PLAIN_NEXT` with some changes the target's body."""

    def changed(sources: Sources) -> dict[str, str]:
        body = PLAIN_NEXT
        for old, new in changes:
            body = substitute(body, old, new)
        return {PATH: replace_body(sources.base(PATH), NAME, body)}

    return changed


def _change(old: str, new: str) -> Callable[[Sources], dict[str, str]]:
    def changed(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        function = substitute(function_source(text, NAME), old, new)
        return {PATH: replace_function(text, NAME, function)}

    return changed


def _renamed(sources: Sources) -> dict[str, str]:
    text = sources.base(PATH)
    function = (
        function_source(text, NAME).replace("split_segments", "portion").replace("add_segment", "append")
    )
    return {PATH: replace_function(text, NAME, function)}


def _each_character(sources: Sources) -> dict[str, str]:
    length = "(0 if segment.control else sum(map(get_character_cell_size, segment.text)))"
    return _change("segment.cell_length", length)(sources)


CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "plain_next": _body(),
    "printable_ascii": _body((LENGTH, PRINTABLE)),
    "ascii_length": _body((LENGTH, "(len(text) if text.isascii() else cell_len(text))")),
    "controls_skipped": _body(
        (
            "    text, _style, control = segment\n        while",
            "    text, _style, control = segment\n        if control:\n            continue\n        while",
        )
    ),
    "one_leading_zero": _body((LEADING, "    if cut == 0:\n")),
    "by_characters": _body(
        (
            "segment.split_cells(cut - pos)",
            "(Segment(text[: cut - pos], _style), Segment(text[cut - pos :], _style))",
        )
    ),
    "each_character": _each_character,
    "renamed": _renamed,
}
