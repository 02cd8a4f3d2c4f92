from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from codeflash_parallel.candidates.analysis.python_source import decoded, parse_anew, parse_piece, pieces
from codeflash_parallel.candidates.analysis.syntax_tree import is_prose, skeleton
from codeflash_parallel.result.candidate_model import digest_of

#: A larger file counts by its bytes: its tree would take seconds, in which nothing else of a run goes on.
MAX_TREE_BYTES = 1_000_000
#: Pieces whose digests are kept: those of the largest modules there are, several times.
_KNOWN = 8_192


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """An outermost statement."""

    digest: str
    prose: bool


def fingerprint(files: Mapping[str, bytes | None], known: Mapping[str, bytes | None] | None = None) -> str:
    """Return a digest of some files that formatting, comments and docstrings do not change.

    Python files count by their syntax trees (names exactly as they are), others, and those that do not
    parse or are very large, by their bytes. Two sets of edits of the same files with equal fingerprints run
    the same code.

    Args:
        files: new content by path; `None` for a file that is removed.
        known: what they were made from; it changes nothing but the time that this takes.

    Returns:
        64 hexadecimal digits.
    """
    known = known or {}
    parts = (f"{path}\0{_digest(path, data, known.get(path))}" for path, data in sorted(files.items()))
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


def _digest(path: str, data: bytes | None, known: bytes | None) -> str:
    if data is None:
        return "removed"
    if not path.endswith(".py") or len(data) > MAX_TREE_BYTES:
        return f"raw {digest_of(data)}"
    try:
        parts = _parts(data, known or b"")
    except SyntaxError:
        return f"raw {digest_of(data)}"
    digests = (part.digest for part in parts[_begins_with_prose(parts) :])
    return f"tree {digest_of(chr(10).join(digests).encode())}"


def _begins_with_prose(parts: list[_Part]) -> bool:
    return bool(parts) and parts[0].prose


def _parts(data: bytes, known: bytes) -> list[_Part]:
    text = decoded(data)
    if text is None:
        return [_part(node) for node in parse_anew(data).body]
    return [part for piece in pieces(text, decoded(known) or "") for part in _known(piece)]


@lru_cache(maxsize=_KNOWN)
def _known(piece: str) -> tuple[_Part, ...]:
    """Return the parts of a piece; those of a text that was seen before are known."""
    return tuple(_part(node) for node in parse_piece(piece).body)


def _part(node: ast.stmt) -> _Part:
    return _Part(digest=digest_of(skeleton(node).encode(errors="surrogatepass")), prose=is_prose(node))
