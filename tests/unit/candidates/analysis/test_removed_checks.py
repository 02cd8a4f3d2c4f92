"""Checks and conversions that changed code drops."""

from __future__ import annotations

import pytest

from codeflash_parallel.candidates.analysis.removed_checks import loosens


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"return int(x)", b"return x", True),
        (b"return x", b"return int(x)", False),
        (b"assert x; return x", b"return x", True),
        (b"raise ValueError", b"raise TypeError", False),
        (b"return f(x)", b"try:\n  return f(x)\n except E:\n  return None", True),
        (b"return f(x)", b"return (", False),
        (b"return len(x) + len(x)", b"n = len(x); return n + n", False),
    ],
)
def test_who_swallows_exceptions_or_drops_checks(old: bytes, new: bytes, expected: bool) -> None:
    assert loosens(b"def g(x):\n " + old, b"def g(x):\n " + new) is expected
