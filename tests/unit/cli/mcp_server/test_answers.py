from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeflash_parallel.cli.mcp_server.answers import (
    error_line,
    error_of_document,
    error_of_stderr,
)
from codeflash_parallel.report.brief import MOST_BYTES


@given(st.text(st.characters(), max_size=20), st.integers(0, 1000))
def test_an_error_is_never_longer_than_an_answer(text: str, times: int) -> None:
    assert len(error_line(text * times).encode()) <= MOST_BYTES


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
