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

from codeflash_parallel.result.errors import CodeflashParallelError, EnvironmentFault

if TYPE_CHECKING:
    from codeflash_parallel.report.json_lines import JsonLines
    from codeflash_parallel.result.result_document import Document


_UNWRITABLE = "OUTPUT_UNWRITABLE"


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
        form = Format.JSON.value if _asks_for_json(arguments) else last_value(arguments, "--output-format")
        known = form in [known.value for known in Format]
        return cls(Format(form) if known else Format.TEXT, last_value(arguments, "--output"))

    def must_be_writable(self) -> None:
        """Look whether the place of the result can probably be written.

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
            self._file = self._opened()
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
            with self._place():
                self.events().finish(data)
                self._close()
        else:
            self.write_values(data)
        self._written = True

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
        if self._path is None:
            with self._place():
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
            with self._place():
                sys.stdout.write(text)
                sys.stdout.flush()
        else:
            write_file(self._path, text)

    def flush(self) -> None:
        """Write what the standard output still holds back.

        Raises:
            EnvironmentFault: `OUTPUT_UNWRITABLE`.
            BrokenPipeError: whoever read it has seen enough.
        """
        say("")

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Write to the place of the result; tell of one that takes nothing more, as a full disk."""
        if self._path is None:
            with _standard_output():
                yield
            return
        try:
            yield
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def write_error(self, error: CodeflashParallelError) -> None:
        """Write the document of a run that failed.

        A message goes to standard error in the form for people, and where the document goes to a file.
        """
        had_file = self._path is not None
        is_of_place = error.code == _UNWRITABLE
        nowhere = is_of_place and not had_file
        # That the file cannot be written is said when it is tried for the document.
        if self.form == Format.TEXT or had_file != is_of_place:
            print_error(error)
        if self.form == Format.TEXT or nowhere or self._has_written(error):
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

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _opened(self) -> TextIO | None:
        if self._path is None:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)  # as for a file that is written whole
            return self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise _unwritable(self._path, error) from error


def must_be_writable(path: Path) -> None:
    """Look, before hours are spent, whether a file can probably be written; nothing is made.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
    """
    try:
        _look_at(path.absolute())
    except OSError as error:
        raise _unwritable(path, error) from error


def _look_at(path: Path) -> None:
    there = next(place for place in (path, *path.parents) if place.exists())
    if there == path and path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if there != path and not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    # A file is put in the place of the old one; a pipe or a device is written to.
    if not os.access(path.parent if path.is_file() else there, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; what is no regular file (a pipe, a device) is written to directly.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
    """
    from codeflash_parallel.process.atomic_file import write_atomically

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            write_atomically(path.resolve(), text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise _unwritable(path, error) from error


def print_error(error: CodeflashParallelError) -> None:
    """Print an error for people on standard error."""
    from codeflash_parallel.result.safe_text import one_line

    try:
        sys.stderr.write(f"error: {one_line(error.message)}\n")
        if error.hint:
            sys.stderr.write(f"  {one_line(error.hint)}\n")
        sys.stderr.flush()
    except OSError:  # a closed standard error must not hide the exit code, nor make the interpreter's own
        _drop(sys.stderr)


def say(text: str) -> None:
    """Write text to the standard output, whatever the place of the result is.

    Raises:
        EnvironmentFault: `OUTPUT_UNWRITABLE`.
        BrokenPipeError: whoever read it has seen enough.
    """
    with _standard_output():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextmanager
def _standard_output() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise _unwritable("The standard output", error) from error


def _unwritable(place: Path | str, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(_UNWRITABLE, f"{place} cannot be written: {error.strerror}.")


def drop_stdout() -> None:
    """Let nothing more be written to a closed pipe or a full disk, not even by the interpreter at its end."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Look for the short spelling; what comes after `--` is somebody else's."""
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def last_value(arguments: Sequence[str], option: str) -> str:
    """Return the value of an option's last occurrence, after a space or an equals sign; empty: none."""
    value = ""
    for place, argument in enumerate(arguments):
        if argument.startswith(f"{option}="):
            value = argument.removeprefix(f"{option}=")
        elif argument == option and place + 1 < len(arguments):
            value = arguments[place + 1]
    return value
