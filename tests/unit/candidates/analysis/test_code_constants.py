"""Constants of changed code, and checks that it drops."""

from __future__ import annotations

import pytest

from codeflash_parallel.candidates.analysis.code_constants import changed_constants, constants_of
from codeflash_parallel.candidates.analysis.removed_checks import loosens

OLD = b'''
LIMIT = 900


def kept(text):
    """I return it."""
    return text[:700]


def cut(items, word="de"):
    return [item for item in items if item != "unused"][:50]


class Box:
    def size(self):
        return len("box") + 12345
'''


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"[:50]", b"[: 1 << 10]", {1024}),
        (b'"unused"', b'("used", "seen")', {"used", "seen"}),
        (b'"de"', b'"fr"', {"fr"}),
        (b"12345", b"54321", {54321}),
        (b"return it", b"return that", set()),
        (b"[:50]", b"[:50", set()),
    ],
)
def test_constants_are_those_of_code_objects_that_differ(old: bytes, new: bytes, found: set[object]) -> None:
    assert set(changed_constants(OLD, OLD.replace(old, new))) == found


def test_constants_of_some_functions() -> None:
    assert set(constants_of(OLD, ["cut", "Box.size"])) >= {50, "unused", "box", 12345}
    assert 700 not in constants_of(OLD, ["cut"])
    assert constants_of(b"def f(:", ["f"]) == ()


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
