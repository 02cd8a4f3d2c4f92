from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.result.safe_text import encodable, one_line, printable

ATTACKS = {
    "colour": "\x1b[31m",
    "title": "\x1b]0;owned\x07",
    "clipboard": "\x1b]52;c;ZWNobw==\x1b\\",
    "hyperlink": "\x1b]8;;file:///etc\x07",
    "device control": "\x1bP+q544e\x1b\\",
    "C1 introducer": "\x9b31m",
    "carriage return": "safe\rfake",
    "backspace": "ab\b\bxx",
    "bell": "\a",
    "shift out": "\x0e",
    "bidi override": "\u202egnp.exe",
    "bidi isolate": "\u2066x\u2069",
    "zero width": "a\u200bb",
    "byte order mark": "\ufeff",
    "tag characters": "\U000e0041",
    "line separator": "a\u2028b",
    "next line": "a\x85b",
    "surrogate": "\ud83d",
    "null": "a\0b",
    "delete": "\x7f",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_attacks_become_visible(attack: str) -> None:
    shown = printable(attack)
    assert "\\" in shown
    assert all(unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    shown = printable(text)
    assert all(c == "\n" or unicodedata.category(c) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
    assert shown.count("\n") == text.count("\n")
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines", "naïve 数学", "def f(x):\n    return x", "[bold]not markup[/]"]
)
def test_honest_text_stays(text: str) -> None:
    assert printable(text) == text


def test_tabs_are_spaces() -> None:
    assert printable("\tx") == "    x"


@given(st.text(), st.integers(1, 30))
def test_one_line_is_one_line_within_its_limit(text: str, limit: int) -> None:
    shown = one_line(text, limit=limit)
    assert "\n" not in shown
    assert len(shown) <= limit


@given(st.text(st.characters()))
def test_encodable_text_encodes(text: str) -> None:
    encodable(text).encode("utf-8")
