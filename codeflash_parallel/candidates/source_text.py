"""Text of source files: encoding, byte-order mark, line endings, and whether it is Python."""

from __future__ import annotations

import codecs
import io
import re
import subprocess
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codeflash_parallel.candidates.python_source import decoded, parse_anew, pieces

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceText:
    """A Python file as text with line feeds alone, and what is needed to write it as it was.

    Attributes:
        mark: the byte-order mark, or nothing.
        line_end: of most of its lines; a file in which they differ is written with this one alone.
    """

    text: str
    encoding: str
    mark: bytes
    line_end: str

    @classmethod
    def read(cls, data: bytes) -> SourceText:
        """Decode a file as Python would.

        Raises:
            SyntaxError: unknown encoding.
            UnicodeDecodeError: it is not in the encoding that it names.
        """
        mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        text = data[len(mark) :].decode(encoding)
        line_end = "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
        return cls(text=text.replace("\r\n", "\n"), encoding=encoding, mark=mark, line_end=line_end)

    def write(self, text: str) -> bytes:
        """Return the bytes of a new text in the form of the old one.

        Raises:
            UnicodeEncodeError: the encoding lacks a character of the new text.
        """
        body = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\n", self.line_end)
        return self.mark + body.encode(self.encoding)


def is_crlf(data: bytes) -> bool:
    """Say whether every line of a file ends as on Windows."""
    return b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n")


def _ends_file(lines: list[bytes], index: int) -> bool:
    """Say whether a line of a patch ends its file without a line feed."""
    return index + 1 < len(lines) and lines[index + 1].startswith(b"\\")


def windows_patch(patch: bytes, is_windows: Callable[[str], bool]) -> bytes:
    """Return a patch whose hunks end their lines as the files do that they change.

    Patches are often written, by people and models, with plain line feeds for files that have none.

    Args:
        is_windows: says of a name in a ``---`` line (without its tab and what follows) whether that
            file has Windows line endings.
    """
    lines = patch.split(b"\n")
    converting, old_left, new_left = False, 0, 0
    for index, line in enumerate(lines):
        if old_left > 0 or new_left > 0:
            kind = line[:1]
            old_left -= kind in {b" ", b"-", b""}
            new_left -= kind in {b" ", b"+", b""}
            if converting and kind in {b" ", b"-", b"+"} and not _ends_file(lines, index):
                lines[index] = line.removesuffix(b"\r") + b"\r"
        elif line.startswith(b"--- "):
            name = line[4:].split(b"\t")[0].rstrip(b"\r").decode("utf-8", "surrogateescape")
            converting = is_windows(name)
        elif found := _HUNK.match(line):
            old_left, new_left = (int(count) if count is not None else 1 for count in found.groups())
    return b"\n".join(lines)


#: Compiling one file takes milliseconds; an interpreter that needs longer says nothing about the text.
_COMPILE_DEADLINE_S = 20.0
_COMPILE = "import sys; compile(sys.stdin.buffer.read(), sys.argv[1], 'exec', dont_inherit=True)"


def syntax_fault(source: bytes, known: bytes = b"") -> str:
    """Return what our own parser says against a text, empty when nothing.

    Runs on the event loop's thread: the filter of warnings belongs to the whole process.

    Args:
        source: a file, in whatever encoding it names.
        known: what it was made from; only what differs is parsed.
    """
    text = decoded(source)
    try:
        if text is None:
            parse_anew(source)
        else:
            pieces(text, decoded(known) or "")
    except SyntaxError as error:
        where = f" (line {error.lineno})" if error.lineno else ""
        return f"{error.msg}{where}"
    return ""


def compiles(interpreter: Path, source: bytes) -> bool:
    """Ask the project's Python, which may be newer than ours; nothing is executed."""
    try:
        done = subprocess.run(
            (interpreter, "-I", "-S", "-c", _COMPILE, "candidate.py"),
            input=source,
            capture_output=True,
            timeout=_COMPILE_DEADLINE_S,
            check=False,
            env={"PYTHONWARNINGS": "ignore"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
