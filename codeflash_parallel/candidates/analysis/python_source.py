"""Parse Python source: whole files, and pieces of files that candidates have in common."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise

from codeflash_parallel.candidates.analysis.syntax_tree import first_line

#: What Python's own tokenizer takes for the end of a line (`str.splitlines` knows many more).
_ENDS = r"\r\n|\r|\n"
#: Parsed texts that are kept: all candidates of a run are made of the same few files.
_KEPT = 8
#: Where it is imported, the parser reads what follows in another way.
_OTHER_LANGUAGE = "barry_as_FLUFL"


def parse(text: str) -> ast.Module:
    """Parse Python source; whatever is wrong with it, it is a `SyntaxError`.

    A byte order mark is ignored, and warnings about the source (invalid escapes) are not shown. The tree
    is shared with whoever else asks: it is not to be changed.
    """
    return parse_piece(text.removeprefix("\ufeff"))


@lru_cache(maxsize=_KEPT)
def parse_piece(text: str) -> ast.Module:
    """Parse as `parse` does what has no byte order mark: a piece of a text, or one without its mark."""
    return parse_anew(text)


def parse_anew(source: str | bytes) -> ast.Module:
    """Parse without looking at what was parsed before; a file's bytes may name their encoding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:
            # NUL bytes, lone surrogates and absurd nesting are not reported as syntax errors by every version
            raise SyntaxError(f"cannot be parsed: {type(error).__name__}") from error


def decoded(data: bytes) -> str | None:
    """Return the text of a file in UTF-8 that names no encoding; `None` for any other."""
    if b"coding" in b"".join(data.split(b"\n", 2)[:2]):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def pieces(text: str, known: str = "") -> tuple[str, ...]:
    """Cut a text into pieces of whole outermost statements, each of which means alone what it means there.

    Pieces that a known text has, too, at its beginning and its end, are not parsed again.

    Raises:
        SyntaxError: the text is not Python.
    """
    text, known = text.removeprefix("\ufeff"), known.removeprefix("\ufeff")
    try:
        head, tail = same_around(known, text)
        between = text[head : len(text) - tail]
        parse_piece(between)
    except SyntaxError:
        return _whole(text)
    cut, parts = cuts(known), _whole(known)
    first, last = cut.index(head), cut.index(len(known) - tail)
    return (*parts[:first], between, *parts[last:])


@lru_cache(maxsize=_KEPT)
def _whole(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in pairwise(cuts(text)))


@lru_cache(maxsize=_KEPT)
def cuts(text: str) -> tuple[int, ...]:
    """Return the offsets at which a text (without a mark) can be cut into pieces, both ends included.

    Between two outermost statements that share no line the parser remembers nothing, unless a backslash
    joins the second one's first line to the line before, or the language itself has been changed.

    Raises:
        SyntaxError: it is not Python.
    """
    body = parse_piece(text).body
    if _OTHER_LANGUAGE in text:
        return (0, len(text))
    lines = [0, *(match.end() for match in re.finditer(_ENDS, text)), len(text)]
    spans = [(first_line(node), node.end_lineno or node.lineno) for node in body]
    own = (lines[after[0]] for before, after in pairwise(spans) if before[1] <= after[0])
    return (0, *(cut for cut in own if _is_fresh(text, cut)), len(text))


def same_around(known: str, text: str) -> tuple[int, int]:
    """Return how many characters two texts share at the beginning and at the end, whole pieces only.

    Raises:
        SyntaxError: the known text is not Python.
    """
    cut = cuts(known)
    if _OTHER_LANGUAGE in text:
        return 0, 0
    heads = [offset for offset in cut if _is_fresh(known, offset)]
    head = heads[bisect_left(heads, x=True, key=lambda at: not text.startswith(known[:at])) - 1]
    longer = len(text) - len(known)
    tails = [offset for offset in cut if offset >= head and longer + offset >= head]
    ends = bisect_left(tails, x=True, key=lambda at: text.endswith(known[at:]))
    whole = (offset for offset in tails[ends:] if _is_fresh(text, longer + offset))
    return head, len(known) - next(whole, len(known))


def _is_fresh(text: str, offset: int) -> bool:
    """Tell whether what stands at an offset begins a line that is not joined to the one before."""
    before = text[max(0, offset - len("\\\r\n")) : offset]
    return not before or (before[-1] in "\r\n" and not before.rstrip("\r\n").endswith("\\"))
