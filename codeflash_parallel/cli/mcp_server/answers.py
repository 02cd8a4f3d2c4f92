"""Errors of runs and commands as one line each."""

from __future__ import annotations

from codeflash_parallel.report.brief import MOST_BYTES
from codeflash_parallel.result.result_document import Document
from codeflash_parallel.result.safe_text import one_line

#: Characters of an error; each may need four bytes.
_ERROR_CHARACTERS = MOST_BYTES // 4
#: Begins the line of an error on standard error; its hint follows on the next line.
_ERROR = "error: "


def error_line(text: str) -> str:
    """Return the text of an error as one printable line of bounded length."""
    return one_line(text, limit=_ERROR_CHARACTERS)


def error_of_stderr(stderr: str, exit_code: int) -> str:
    """Return the error that a command has printed last, with its hint, as one line.

    Args:
        stderr: the end of what it has written there.
        exit_code: stands for an error where it has written nothing.
    """
    lines = stderr.rstrip().splitlines()
    starts = [place for place, line in enumerate(lines) if line.startswith(_ERROR)]
    told = " ".join(lines[starts[-1] :]).removeprefix(_ERROR) if starts else "".join(lines[-1:])
    return error_line(told or f"The command ended with exit code {exit_code} and printed no error.")


def error_of_document(document: Document) -> str:
    """Return the error of a run's document as one line; empty: it has none."""
    error = document.get("error")
    if not error:
        return ""
    told = f"{error['message']} {error['hint']}"
    if error["family"] == "interrupted" and document["run_id"]:
        told += f" Continue with: codeflash-parallel resume {document['run_id']}"
    return error_line(told)
