"""Constants of changed code."""

from __future__ import annotations

import pytest

from codeflash_parallel.candidates.analysis.code_constants import changed_constants, constants_of

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
