"""Checks and conversions that a text has, and another one has not. Pure."""

from __future__ import annotations

import ast
from collections import Counter

from codeflash_parallel.candidates.analysis.python_source import parse

#: Builtins that check a type, or convert to one; `len` and `ord` are called for what they give.
_BUILTINS = frozenset(
    {
        *("isinstance", "issubclass", "callable", "hasattr"),
        *("int", "float", "complex", "str", "bytes", "list", "tuple", "set", "frozenset", "dict"),
    }
)


def loosens(old: bytes, new: bytes) -> bool:
    """Say whether the new text of a module adds an `except`, or drops a check or a conversion."""
    try:
        before, after = _checks(old), _checks(new)
    except (SyntaxError, ValueError):
        return False
    return after["except"] > before["except"] or any(
        after[name] < count for name, count in before.items() if name != "except"
    )


def _checks(text: bytes) -> Counter[str]:
    found: Counter[str] = Counter()
    for node in ast.walk(parse(text.decode("utf-8", "replace"))):
        if isinstance(node, ast.ExceptHandler):
            found["except"] += 1
        elif isinstance(node, ast.Raise | ast.Assert):
            found["raise"] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
            found[node.func.id] += 1
    return found
