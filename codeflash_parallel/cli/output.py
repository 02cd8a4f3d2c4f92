"""Place and form of the result; known before anything else, so that errors go there too."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault, UsageError

if TYPE_CHECKING:
    from codeflash_parallel.report.json_lines import JsonLines
    from codeflash_parallel.result.result_document import Document


_UNWRITABLE = "OUTPUT_UNWRITABLE"


class Format(StrEnum):
    """The form of the result."""

    #: For people.
    TEXT = "text"
    #: The same in at most 4,000 bytes, for agents.
    BRIEF = "brief"
    #: One document.
    JSON = "json"
    #: One event a line, the document last.
    JSONL = "jsonl"

    @property
    def is_text(self) -> bool:
        """Whether it is read as it stands, and not by a program."""
        return self in {Format.TEXT, Format.BRIEF}


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
        # What comes after `--` is not ours.
        ours = arguments[: arguments.index("--") if "--" in arguments else None]
        form = Format.JSON.value if "--json" in ours else last_value(ours, "--output-format")
        known = form in [known.value for known in Format]
        return cls(Format(form) if known else Format.TEXT, last_value(ours, "--output"))

    def must_be_writable(self) -> None:
        """Check that the place of the result can probably be written.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if self._path is not None:
            must_be_writable(self._path)

    def events(self) -> JsonLines:
        """Return the observer that writes events as they come.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        from codeflash_parallel.report.json_lines import JsonLines

        if self._events is None:
            self._file = None
            if self._path is not None:
                with _writing_to(self._path):
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = self._path.open("w", encoding="utf-8")
            self._events = JsonLines(self._file or sys.stdout)
        return self._events

    def write_document(self, data: Document) -> None:
        """Write the document, as the only one or as the last line.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if self._written:
            return
        if self.form == Format.JSONL:
            with _writing_to(self._path):
                self.events().finish(data)
                if self._file is not None:
                    self._file.close()
            self._written = True
        else:
            self.write_values(data)

    def write_values(self, data: Any) -> None:
        """Write JSON values as the result: one document, or one line where lines were asked for.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        import json

        # ASCII only: what others wrote cannot act on a terminal in this form, either.
        indent = None if self.form == Format.JSONL else 2
        self.write(json.dumps(data, indent=indent, allow_nan=False) + "\n")
        self._written = True

    def write_report(self, draw: Callable[[TextIO], None]) -> None:
        """Let a report for people be drawn on the place of the result.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if self._path is None and self.form != Format.BRIEF:
            with _writing_to(None):
                draw(sys.stdout)
                sys.stdout.flush()
        else:
            drawn = io.StringIO()
            draw(drawn)
            self.write(drawn.getvalue())
        self._written = True

    def write_page(self, page: Callable[[], str], values: Callable[[], Any]) -> None:
        """Write a page for a browser, or the same as JSON values.

        Raises:
            UsageError: `NO_OUTPUT`: it would fill a terminal, or is to be brief.
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if not self.form.is_text:
            self.write_values(values())
        elif self._path is not None:
            write_file(self._path, page())
        elif self.form == Format.BRIEF or sys.stdout.isatty():
            raise UsageError("NO_OUTPUT", "A page is long and for a browser.", "Give --output PATH.")
        else:
            say(page())

    def write(self, text: str) -> None:
        """Write text, cut where it has to be brief; a file appears whole or not at all.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
        """
        if self.form == Format.BRIEF:
            from codeflash_parallel.report.brief import cut

            text = cut(text, "the same without --output-format brief")
        if self._path is None:
            say(text)
        else:
            write_file(self._path, text)

    def write_error(self, error: CodeflashParallelError) -> None:
        """Write the document of a run that failed.

        A message goes to standard error in the form for people, and where the document goes to a file.
        """
        had_file, is_of_place = self._path is not None, error.code == _UNWRITABLE
        # That the file cannot be written is said when it is tried for the document.
        if self.form.is_text or had_file != is_of_place:
            print_error(error)
        if self.form.is_text or (is_of_place and not had_file) or self._has_written(error):
            return
        self._path = self._events = None  # the document still has to be somewhere
        if had_file:
            self._has_written(error)
        else:
            print_error(error)

    def _has_written(self, error: CodeflashParallelError) -> bool:
        """Write the document of an error; where that fails, say so on standard error."""
        try:
            self.write_error_document(error)
        except EnvironmentFault as unwritable:
            print_error(unwritable)
            return False
        return True

    def write_error_document(self, error: CodeflashParallelError) -> None:
        """Write the document of an error."""
        from codeflash_parallel.result.result_document import error_document

        self.write_document(error_document(error))


@contextmanager
def _writing_to(path: Path | None) -> Iterator[None]:
    """Report a place that takes nothing more, as a full disk; `None`: the standard output.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
        BrokenPipeError: the reader of the standard output has seen enough.
    """
    try:
        yield
    except OSError as error:
        if path is None:
            if isinstance(error, BrokenPipeError):
                raise
            drop_stdout()
        place = path or "The standard output"
        raise EnvironmentFault(_UNWRITABLE, f"{place} cannot be written: {error.strerror}.") from error


def must_be_writable(path: Path) -> None:
    """Check, before hours are spent, that a file can probably be written; nothing is made.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
    """
    with _writing_to(path):
        whole = path.absolute()
        there = next(place for place in (whole, *whole.parents) if place.exists())
        number = 0
        if there == whole and whole.is_dir():
            number = errno.EISDIR
        elif there != whole and not there.is_dir():
            number = errno.ENOTDIR
        # A file is put in the place of the old one; a pipe or a device is written to.
        elif not os.access(whole.parent if whole.is_file() else there, os.W_OK):
            number = errno.EACCES
        if number:
            raise OSError(number, os.strerror(number))


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; what is no regular file (a pipe, a device) is written to directly.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
    """
    from codeflash_parallel.process.files import write_atomically

    with _writing_to(path):
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_atomically(path.resolve(), text.encode("utf-8", "backslashreplace"))


def print_error(error: CodeflashParallelError) -> None:
    """Print an error for people on standard error."""
    from codeflash_parallel.result.safe_text import one_line

    try:
        hint = f"  {one_line(error.hint)}\n" if error.hint else ""
        sys.stderr.write(f"error: {one_line(error.message)}\n{hint}")
        sys.stderr.flush()
    except OSError:  # a closed standard error must not hide the exit code, nor make the interpreter's own
        _drop(sys.stderr)


def say(text: str) -> None:
    """Write text to the standard output, whatever the place of the result is; no text: what it holds back.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
        BrokenPipeError: the reader has seen enough.
    """
    with _writing_to(None):
        sys.stdout.write(text)
        sys.stdout.flush()


def drop_stdout() -> None:
    """Let nothing more be written to a closed pipe or a full disk, not even by the interpreter at its end."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def last_value(arguments: Sequence[str], option: str) -> str:
    """Return the value of an option's last occurrence, after a space or an equals sign; empty: none."""
    value = ""
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            value = argument.removeprefix(f"{option}=")
        elif argument == option and place + 1 < len(arguments):
            value = arguments[place + 1]
    return value
