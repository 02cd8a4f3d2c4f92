"""Lines of Python source: where statements and the comments that belong to them begin and end."""

from __future__ import annotations

import ast
import re
import tokenize
from functools import lru_cache
from typing import NamedTuple

from codeflash_parallel.candidates.analysis.python_source import parse
from codeflash_parallel.candidates.analysis.syntax_tree import Definition, first_line

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
