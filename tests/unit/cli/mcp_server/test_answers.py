from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.cli.mcp_server.answers import (
    LIMIT_BYTES,
    cut,
    error_line,
    error_of_document,
    error_of_stderr,
)


@given(st.text(st.characters(), max_size=20), st.integers(0, 1000), st.text())
def test_an_answer_is_never_longer_than_its_limit(text: str, times: int, full: str) -> None:
    assert len(cut(text * times, full).encode()) <= LIMIT_BYTES
    assert len(error_line(text * times).encode()) <= LIMIT_BYTES


def test_a_short_text_stays_as_it_is() -> None:
    assert cut("one\n two\n", "show") == "one\n two"


@pytest.mark.parametrize("line", ["word", "é" * 30, "🙂"])
def test_a_long_text_is_cut_at_the_end_of_a_line(line: str) -> None:
    *kept, last = cut(f"{line}\n" * 4000, "codeflash-parallel show r1").splitlines()
    assert set(kept) == {line}
    assert last == "... (cut; full: codeflash-parallel show r1)"


def test_one_long_line_is_cut_inside() -> None:
    text = cut("🙂" * 4000, "show")
    assert text.startswith("🙂" * 900)
    assert text.endswith("\n... (cut; full: show)")


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("error: It is red.\n  Make it green.\n", "It is red. Make it green."),
        ("warning: old\nerror: first\nerror: error: second\n", "error: second"),
        ("Traceback:\n  File x\nKeyError: 1\n", "KeyError: 1"),
        ("", "The command ended with exit code 3 and printed no error."),
    ],
)
def test_the_last_error_is_one_line(stderr: str, line: str) -> None:
    assert error_of_stderr(stderr, 3) == line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (None, ""),
        (("usage", "Bad\nname.", "Good: x."), "Bad name. Good: x."),
        (("interrupted", "Interrupted.", ""), "Interrupted. Continue with: codeflash-parallel resume r1"),
    ],
)
def test_the_error_of_a_document_is_one_line(error: tuple[str, str, str] | None, line: str) -> None:
    told = error and dict(zip(("family", "message", "hint"), error, strict=True))
    assert error_of_document({"run_id": "r1", "error": told}) == line
