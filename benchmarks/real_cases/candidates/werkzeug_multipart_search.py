"""Candidates of `werkzeug_multipart_search`: the next event of a body that comes in small pieces."""

from __future__ import annotations

from collections.abc import Callable

from edits import Sources, substitute

PATH = "src/werkzeug/sansio/multipart.py"

STATE = "        self.state = State.PREAMBLE\n        self.boundary = boundary\n"
STATE_AND_FROM = STATE + "        self._searched = 0\n"
PREAMBLE = "            match = self.preamble_re.search(self.buffer)\n"
PART = "            match = BLANK_LINE_RE.search(self.buffer)\n"
DATA_STATE = "                self.state = State.DATA\n"
IN_DATA = "        elif self.state == State.DATA:\n"
LAST_NEWLINE = """        try:
            last_nl = self.buffer.rindex(b"\\n")
        except ValueError:
            last_nl = len(self.buffer)
        try:
            last_cr = self.buffer.rindex(b"\\r")
        except ValueError:
            last_cr = len(self.buffer)

        return min(last_nl, last_cr)
"""
FOUND_LAST = """        length = len(self.buffer)
        last_nl = self.buffer.rfind(b"\\n")
        last_cr = self.buffer.rfind(b"\\r")

        return min(length if last_nl < 0 else last_nl, length if last_cr < 0 else last_cr)
"""


def _edit(*edits: tuple[str, str]) -> Callable[[Sources], dict[str, str]]:
    def texts(sources: Sources) -> dict[str, str]:
        text = sources.base(PATH)
        for old, new in edits:
            text = substitute(text, old, new)
        return {PATH: text}

    return texts


def _resumed(overlap: int) -> list[tuple[str, str]]:
    """Return edits after which the end of headers is searched in what is new, and some bytes before it."""
    again = f"            else:\n                self._searched = max(0, len(self.buffer) - {overlap})\n"
    return [
        (STATE, STATE_AND_FROM),
        (PART, "            match = BLANK_LINE_RE.search(self.buffer, self._searched)\n"),
        (
            DATA_STATE + "\n" + IN_DATA,
            DATA_STATE + "                self._searched = 0\n" + again + "\n" + IN_DATA,
        ),
    ]


FOUND_FIRST = (
    PREAMBLE,
    """            match = None
            if self.buffer.find(b"--" + self.boundary) != -1:
                match = self.preamble_re.search(self.buffer)
""",
)
IN_START = (
    PREAMBLE,
    "            match = self.preamble_re.search(self.buffer[: len(self.boundary) + 64])\n",
)
COPIED = (PREAMBLE, "            match = self.preamble_re.search(bytes(self.buffer))\n")
COPIED_PART = (PART, "            match = BLANK_LINE_RE.search(bytes(self.buffer))\n")
RENAMED = (
    PART,
    "            buffer = self.buffer\n            match = BLANK_LINE_RE.search(buffer)\n",
)

CANDIDATES: dict[str, Callable[[Sources], dict[str, str]]] = {
    "upstream": lambda sources: sources.upstream(0),
    "headers_resumed": _edit(*_resumed(3)),
    "boundary_found_first": _edit(FOUND_FIRST),
    "both": _edit(*_resumed(3), FOUND_FIRST),
    "overlap_of_one": _edit(*_resumed(1)),
    "no_overlap": _edit(*_resumed(0)),
    "preamble_in_start": _edit(IN_START),
    "copied": _edit(COPIED, COPIED_PART),
    "last_by_rfind": _edit((LAST_NEWLINE, FOUND_LAST)),
}
