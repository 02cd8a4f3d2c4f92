"""Whether a text is Python, by our own parser and by an interpreter."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.candidates.source_text import (
    SourceText,
    compiles,
    is_crlf,
    syntax_fault,
    windows_patch,
)

PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\r\ufeff"), max_size=80)


@given(PLAIN)
def test_an_unchanged_text_gives_the_same_bytes(text: str) -> None:
    for data in (text.encode(), codecs.BOM_UTF8 + text.encode(), text.replace("\n", "\r\n").encode()):
        try:
            source = SourceText.read(data)
        except SyntaxError:  # a cookie of an unknown encoding, by chance
            return
        assert source.write(source.text) == data


def test_all_lines_end_as_most_do() -> None:
    assert SourceText.read(b"a\r\nb\r\n").write("a\nnew\nb\n") == b"a\r\nnew\r\nb\r\n"
    assert SourceText.read(b"a\r\nb\nc\r\n").write("a\nnew\nb\nc\n") == b"a\r\nnew\r\nb\r\nc\r\n"
    assert SourceText.read(b"a\nb\n").write("a\nnew\nb\n") == b"a\nnew\nb\n"


def test_cookie_and_mark_are_kept() -> None:
    latin = "# coding: latin-1\nx = 'é'\n".encode("latin-1")
    assert SourceText.read(latin).write(
        "# coding: latin-1\nx = 'ü'\n"
    ) == "# coding: latin-1\nx = 'ü'\n".encode("latin-1")
    assert SourceText.read(codecs.BOM_UTF8 + b"x = 1\n").write("x = 2\n") == codecs.BOM_UTF8 + b"x = 2\n"
    with pytest.raises(UnicodeEncodeError):
        SourceText.read(latin).write("x = '€'\n")
    with pytest.raises(SyntaxError):
        SourceText.read(b"# coding: nonsense\n")


def test_windows_files_are_told() -> None:
    assert is_crlf(b"a\r\nb\r\n")
    assert not is_crlf(b"a\r\nb\n")
    assert not is_crlf(b"a\n")
    assert not is_crlf(b"")


def test_hunks_for_windows_files_get_windows_endings() -> None:
    patch = b"--- a/w.py\n+++ b/w.py\n@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n--- a/u.py\n+++ b/u.py\n@@ -1 +1 @@\n-x\n+y\n"
    expected = b"--- a/w.py\n+++ b/w.py\n@@ -1,2 +1,2 @@ def f():\n a\r\n-b\r\n+c\r\n--- a/u.py\n+++ b/u.py\n@@ -1 +1 @@\n-x\n+y\n"
    assert windows_patch(patch, lambda name: name == "a/w.py") == expected
    assert windows_patch(expected, lambda name: name == "a/w.py") == expected


def test_a_line_without_an_end_gets_none() -> None:
    patch = (
        b"--- a/w\n+++ b/w\n@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )
    assert windows_patch(patch, lambda _: True) == patch


@given(st.binary())
def test_any_bytes_may_be_a_patch(patch: bytes) -> None:
    assert windows_patch(patch, lambda _: False) == patch


@pytest.mark.parametrize(
    ("source", "known", "fault"),
    [
        (b"x = 1\n", b"", ""),
        (b"x = 1\ndef f(:\n", b"x = 1\n", "line 2"),
        (b"x = '\0'\n", b"", "null bytes"),
        (b"(" * 5000, b"", "nested"),
        (b"# coding: latin-1\nx = '\xe9'\n", b"", ""),
        (b"x = '\xe9'\n", b"", "utf-8"),
    ],
)
def test_what_is_no_python_is_told(source: bytes, known: bytes, fault: str) -> None:
    said = syntax_fault(source, known)
    assert fault in said
    assert bool(said) == bool(fault)


def test_an_interpreter_is_asked(tmp_path: Path) -> None:
    assert compiles(Path(sys.executable), b"raise SystemExit(3)\n")
    assert not compiles(Path(sys.executable), b"a ?= 1\n")
    assert not compiles(tmp_path / "missing", b"a = 1\n")
