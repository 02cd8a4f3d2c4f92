"""Whether a text is Python, by our own parser and by an interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from codeflash_parallel.candidates.syntax_check import compiles, syntax_fault


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
