from __future__ import annotations

import ast
import hashlib
import warnings
from collections.abc import Mapping

from codeflash_parallel.model.candidate import digest_of
from codeflash_parallel.model.source import skeleton

#: A larger file counts by its bytes: its tree would take seconds, in which nothing else of a run goes on.
MAX_TREE_BYTES = 1_000_000


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"raw {digest_of(data)}"
    return f"tree {digest_of(skeleton(tree).encode(errors='surrogatepass'))}"
