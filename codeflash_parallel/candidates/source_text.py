"""Text of Python files: encoding, line ends, syntax, lines of statements, imports that are added. Pure."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from codeflash_parallel.candidates.python_source import (
    Definition,
    decoded,
    first_line,
    flat,
    is_docstring,
    is_type_checking,
    parse,
    parse_anew,
    pieces,
)

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


#: What Python's own tokenizer takes for the end of a line (`str.splitlines` knows many more).
_LINE = r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z"
#: Files that are kept: all candidates of a run are made of the same few.
_KEPT = 8


class LineEdit(NamedTuple):
    """Lines ``[start, stop)`` become `lines` (without line ends); equal numbers insert."""

    start: int
    stop: int
    lines: tuple[str, ...]


class SourceLines(NamedTuple):
    """One file's text.

    Attributes:
        lines: with their own line ends; joined they are the text.
        tree: its syntax tree; line n of a node is ``lines[n - 1]``.
        inside: indexes of lines that begin inside a string: their white space is data.
    """

    lines: tuple[str, ...]
    tree: ast.Module
    inside: frozenset[int]

    @classmethod
    @lru_cache(maxsize=_KEPT)
    def read(cls, text: str) -> SourceLines:
        """Parse a text.

        Raises:
            SyntaxError: it is not Python for the interpreter that runs us.
        """
        tree = parse(text)
        lines = tuple(re.findall(_LINE, text))
        bare = (line.rstrip("\r\n") + "\n" for line in lines)
        try:
            # no token but (a part of) a string goes on in another line
            spans = [(token.start[0], token.end[0]) for token in tokenize.generate_tokens(bare.__next__)]
        except (tokenize.TokenError, IndexError) as error:
            raise SyntaxError(f"cannot be tokenized: {error}") from error
        inside = frozenset(index for start, end in spans for index in range(start, end))
        return cls(lines=lines, tree=tree, inside=inside)

    def bare(self, index: int) -> str:
        """Return one line without its line end."""
        return self.lines[index].rstrip("\r\n")

    def indent(self, node: ast.stmt) -> str:
        """Return the white space in front of a statement's first line."""
        line = self.lines[first_line(node)]
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def lead(self, node: ast.stmt) -> int:
        """Return the index where the comments directly above a statement begin (its own line if none)."""
        index, indent = first_line(node), self.indent(node)
        while index and index - 1 not in self.inside and self.bare(index - 1).startswith(indent + "#"):
            index -= 1
        return index

    def end(self, node: ast.stmt) -> int:
        """Return the index after a statement, deeper-indented comments that follow its body included."""
        stop = node.end_lineno or node.lineno
        if not isinstance(node, Definition):
            return stop
        deeper = re.compile(re.escape(self.indent(node)) + r"[ \t]+#")
        for index in range(stop, len(self.lines)):
            if deeper.match(self.lines[index]):
                stop = index + 1
            elif self.lines[index].strip():
                break
        return stop

    def unit(self) -> str:
        """Return one step of indentation: that of the first indented block."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                return self.indent(body[0])[len(self.indent(node)) :] or "    "
        return "    "

    def shares_line(self, statement: ast.stmt) -> bool:
        """Tell whether another statement stands on one of a statement's lines."""
        if isinstance(statement, Definition):
            return False
        before = self.lines[statement.lineno - 1].encode()[: statement.col_offset].strip()
        after = self.lines[(statement.end_lineno or 0) - 1].encode()[statement.end_col_offset or 0 :].strip()
        return bool(before) or not (after == b"" or after.startswith(b"#"))


ImportNode = ast.Import | ast.ImportFrom
#: Module with its dots (empty for ``import name``), name, and the name that `as` gives it.
_Key = tuple[str, str, str | None]

#: Comments that must stay on the first lines: a shebang and the encoding.
_HEADER = re.compile(r"#!|#.*coding[:=]")


def merge_imports(old: SourceLines, new_body: Sequence[ast.stmt], before: int) -> list[LineEdit]:
    """Return insertions that give the original what the replacement imports at its top level.

    Args:
        old: the original.
        new_body: the replacement's top-level statements.
        before: index of the first line of the original that uses something new.
    """
    known = {key for key, _ in _imported(flat(old.tree.body))}
    # a name that the original itself defines is not imported: its own definition would win anyway
    defined = {d.name for d in flat(old.tree.body) if isinstance(d, Definition)}
    wanted = list(_lacking(new_body, known, defined))
    known |= {key for key, _ in _imported([*wanted, *_for_typing(old.tree.body)])}
    typing_only = list(_lacking(_for_typing(new_body), known, defined))
    lines = [old.unit() + ast.unparse(s) for s in typing_only]
    place, future_place = _place(old, before), _future_place(old)
    edits = [
        _insertion(old, future_place, [ast.unparse(s) for s in wanted if _is_future(s)]),
        _insertion(old, place, [ast.unparse(s) for s in wanted if not _is_future(s)]),
        _insertion(old, place, ["if TYPE_CHECKING:", *lines] if lines else []),
    ]
    return [e for e in edits if e.lines]


def bound_by_import(statement: ImportNode) -> set[str]:
    """Return the names that an import binds."""
    return {bound for _, bound in _imported([statement])}


def _imported(statements: Iterable[ast.stmt]) -> Iterator[tuple[_Key, str]]:
    """Yield what some statements import, and the names that it is bound to."""
    for statement in statements:
        if isinstance(statement, ImportNode):
            module = ""
            if isinstance(statement, ast.ImportFrom):
                module = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                yield (module, alias.name, alias.asname), alias.asname or alias.name.partition(".")[0]


def _lacking(statements: Iterable[ast.stmt], known: set[_Key], defined: set[str]) -> Iterator[ImportNode]:
    """Yield the imports among some statements without the names that are known or defined."""
    seen = set(known)
    for statement in statements:
        if isinstance(statement, ImportNode):
            lacking = copy(statement)
            pairs = zip(statement.names, _imported([statement]), strict=True)
            lacking.names = [a for a, (key, bound) in pairs if key not in seen and bound not in defined]
            seen.update(key for key, _ in _imported([lacking]))
            if lacking.names:
                yield lacking


def _for_typing(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    return [inner for block in body if is_type_checking(block) for inner in block.body]


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _insertion(old: SourceLines, place: int, lines: Sequence[str]) -> LineEdit:
    """Return an insertion with the blank lines that separate imports from a docstring or from code."""
    after_import = any(s.end_lineno == place for s in old.tree.body if isinstance(s, ImportNode))
    if lines and not after_import:
        is_top = place <= first_line(old.tree.body[0])
        lines = [*lines, "", ""] if is_top else ["", *lines]
    return LineEdit(start=place, stop=place, lines=tuple(lines))


def _place(old: SourceLines, before: int) -> int:
    """Return the index after the last import above a line, else after docstring and ``__future__``."""
    ends = (s.end_lineno or 0 for s in old.tree.body if isinstance(s, ImportNode))
    return max((end for end in ends if end <= before), default=_future_place(old))


def _future_place(old: SourceLines) -> int:
    """Return the index after the docstring and the ``__future__`` imports, else above the first statement."""
    first = old.tree.body[0]
    top = [s for s in old.tree.body if _is_future(s) or (s is first and is_docstring(s))]
    if top:
        return top[-1].end_lineno or 0
    lead = range(min(old.lead(first), first_line(first)), first_line(first))
    return next((index for index in lead if not _HEADER.match(old.lines[index])), first_line(first))
