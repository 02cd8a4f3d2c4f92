from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

from codeflash_parallel.model.candidate import digest_of
from codeflash_parallel.model.source import (
    decoded,
    parse_anew,
    parse_file,
    skeleton,
    statements,
    without_prose,
)

#: A larger file counts by its bytes: its tree would take seconds, in which nothing else of a run goes on.
MAX_TREE_BYTES = 1_000_000
#: Outermost statements whose digests are kept: those of the largest modules there are, several times.
_KNOWN = 8_192


def fingerprint(files: Mapping[str, bytes | None]) -> str:
    """Return a digest of some files that formatting, comments and docstrings do not change.

    Python files count by their syntax trees (names exactly as they are), others, and those that do not
    parse or are very large, by their bytes. Two sets of edits of the same files with equal fingerprints run
    the same code.

    Args:
        files: new content by path; `None` for a file that is removed.

    Returns:
        64 hexadecimal digits.
    """
    parts = (f"{path}\0{_digest(path, data)}" for path, data in sorted(files.items()))
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


def _digest(path: str, data: bytes | None) -> str:
    if data is None:
        return "removed"
    if not path.endswith(".py") or len(data) > MAX_TREE_BYTES:
        return f"raw {digest_of(data)}"
    try:
        return f"tree {digest_of(chr(10).join(_parts(data)).encode())}"
    except SyntaxError:
        return f"raw {digest_of(data)}"


def _parts(data: bytes) -> Iterator[str]:
    """Yield a digest of each outermost statement; that of a text that was seen before is known."""
    text = decoded(data)
    if text is None:
        yield from map(_part, without_prose(parse_file(data).body))
        return
    found = statements(text)
    first = len(found) - len(without_prose([statement.node for statement in found]))
    for statement in found[first:]:
        alone = statement.alone
        yield _known(text[statement.start : statement.end]) if alone else _part(statement.node)


@lru_cache(maxsize=_KNOWN)
def _known(text: str) -> str:
    """Return the digest of a text that is one outermost statement."""
    (node,) = parse_anew(text).body
    return _part(node)


def _part(node: ast.stmt) -> str:
    return digest_of(skeleton(node).encode(errors="surrogatepass"))
