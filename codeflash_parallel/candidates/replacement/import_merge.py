"""Which imports of a replacement the original lacks, and where they go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from codeflash_parallel.candidates.analysis.syntax_tree import (
    Definition,
    first_line,
    flat,
    is_docstring,
    is_type_checking,
)
from codeflash_parallel.candidates.replacement.source_lines import LineEdit, SourceLines

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
    place, future_place = _place(old, before), _future_place(old)
    edits = [
        _insertion(old, future_place, [ast.unparse(s) for s in wanted if _is_future(s)]),
        _insertion(old, place, [ast.unparse(s) for s in wanted if not _is_future(s)]),
        _typing_insertion(old, place, [ast.unparse(s) for s in typing_only]),
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


def _typing_insertion(old: SourceLines, place: int, lines: Sequence[str]) -> LineEdit:
    """Return what adds imports for type checkers only: to the first such block, else in one of its own."""
    blocks = [b for b in old.tree.body if is_type_checking(b) and b.body[-1].lineno > b.lineno]
    if blocks:
        last = blocks[0].body[-1]
        stop = last.end_lineno or last.lineno
        return LineEdit(start=stop, stop=stop, lines=tuple(old.indent(last) + line for line in lines))
    block = ["if TYPE_CHECKING:", *(old.unit() + line for line in lines)] if lines else []
    return _insertion(old, place, block)


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
