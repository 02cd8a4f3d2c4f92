"""Where the result goes, and in which form; known before anything else, so that errors go there too."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from codeflash_parallel.model.errors import CodeflashParallelError, EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.model.document import Document
    from codeflash_parallel.report.jsonl import JsonLines


class Format(StrEnum):
    """The form of the result."""

    #: For people.
    TEXT = "text"
    #: One document.
    JSON = "json"
    #: One event a line, the document last.
    JSONL = "jsonl"


class Output:
    """The place of the result. It takes one result: whatever comes after the first is not written.

    Args:
        form: text, JSON or JSON lines.
        path: a file instead of standard output; empty: standard output.
    """

    def __init__(self, form: Format = Format.TEXT, path: str = "") -> None:
        self.form = form
        self._path = Path(path) if path else None
        self._events: JsonLines | None = None
        self._file: TextIO | None = None
        self._written = False

    @classmethod
    def found_in(cls, arguments: Sequence[str]) -> Output:
        """Find the output options in a command line that may otherwise be wrong."""
        form = last_value(arguments, "--output-format")
        known = form in [known.value for known in Format]
        return cls(Format(form) if known else Format.TEXT, last_value(arguments, "--output"))

    def events(self) -> JsonLines:
        """Return the observer that writes events as they come.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        from codeflash_parallel.report.jsonl import JsonLines

        if self._events is None:
            self._file = self._opened()
            self._events = JsonLines(self._file or sys.stdout)
        return self._events

    def write_document(self, data: Document) -> None:
        """Write the document, as the only one or as the last line.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        from codeflash_parallel.report.document import dumps

        if self._written:
            return
        if self.form == Format.JSONL:
            self.events().finish(data)
            self._close()
        else:
            self.write(dumps(data) + "\n")
        self._written = True

    def write_report(self, draw: Callable[[TextIO], None]) -> None:
        """Let a report for people be drawn on the place of the result."""
        if self._path is None:
            draw(sys.stdout)
            sys.stdout.flush()
        else:
            drawn = io.StringIO()
            draw(drawn)
            self.write(drawn.getvalue())
        self._written = True

    def write(self, text: str) -> None:
        """Write text; a file appears whole or not at all.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if self._path is None:
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            write_file(self._path, text)

    def write_error(self, error: CodeflashParallelError) -> None:
        """Write the document of a run that failed; in the form for people, a message on standard error."""
        from codeflash_parallel.model.document import error_document

        if self.form == Format.TEXT:
            print_error(error)
            return
        try:
            self.write_document(error_document(error))
        except EnvironmentFault as unwritable:
            # The place that was asked for cannot be had: the document still has to be somewhere.
            print_error(unwritable)
            self._path = None
            self.write_document(error_document(error))

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _opened(self) -> TextIO | None:
        if self._path is None:
            return None
        try:
            return self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(self._path, error) from error


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; what is no regular file (a pipe, a device) is written to directly.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
    """
    from codeflash_parallel.process.files import write_atomically

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_atomically(path.resolve(), text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _unwritable(path, error) from error


def print_error(error: CodeflashParallelError) -> None:
    """Print an error for people on standard error."""
    from codeflash_parallel.report.text import one_line

    with suppress(OSError):  # a closed standard error must not hide the exit code
        sys.stderr.write(f"error: {one_line(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"  {one_line(error.hint)}\n")


def _unwritable(path: Path, error: OSError) -> EnvironmentFault:
    return EnvironmentFault("OUTPUT_UNWRITABLE", f"{path} cannot be written: {error.strerror}.")


def last_value(arguments: Sequence[str], option: str) -> str:
    """Return the value of an option's last occurrence, after a space or an equals sign; empty: none."""
    value = ""
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            value = argument.removeprefix(f"{option}=")
        elif argument == option and place + 1 < len(arguments):
            value = arguments[place + 1]
    return value
