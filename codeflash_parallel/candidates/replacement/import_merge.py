"""Which imports of a replacement the original lacks, and where they go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from codeflash_parallel.candidates.analysis.python_source import PythonSource
from codeflash_parallel.candidates.analysis.syntax_tree import (
    Definition,
    first_line,
    flat,
    is_docstring,
    is_type_checking,
)

ImportNode = ast.Import | ast.ImportFrom

#: Comments that must stay on the first lines: a shebang and the encoding.
_HEADER = re.compile(r"#!|#.*coding[:=]")


class InsertionRank(IntEnum):
    """Order of insertions at one and the same line."""

    #: Imports: everything below may need them.
    IMPORT = 0
    #: New statements.
    STATEMENT = 1
    #: Parts of a definition: decorators, and what is replaced.
    PART = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class LineEdit:
    """Lines ``[start, stop)`` become `lines` (without line ends); equal numbers insert."""

    start: int
    stop: int
    lines: tuple[str, ...] = field(repr=False)
    rank: InsertionRank = InsertionRank.PART


@dataclass(frozen=True, kw_only=True, slots=True)
class _Name:
    """One imported name: ``from module import name as bound`` (`module` empty: ``import name as bound``)."""

    module: str
    name: str
    asname: str | None

    @property
    def bound(self) -> str:
        return self.asname or self.name.partition(".")[0]

    @property
    def is_future(self) -> bool:
        return self.module == "__future__"


def merge_imports(old: PythonSource, new_body: Sequence[ast.stmt], before: int) -> list[LineEdit]:
    """Return insertions that give the original what the replacement imports at its top level.

    Args:
        old: the original.
        new_body: the replacement's top-level statements.
        before: index of the first line of the original that uses something new.
    """
    have = set(_names(flat(old.tree.body)))
    # a name that the original itself defines is not imported: its own definition would win anyway
    defined = {d.name for d in flat(old.tree.body) if isinstance(d, Definition)}
    wanted = [n for n in dict.fromkeys(_names(new_body)) if n not in have and n.bound not in defined]
    known = {*have, *wanted, *_names(_for_typing(old.tree.body))}
    for_typing = dict.fromkeys(_names(_for_typing(new_body)))
    typing_only = [n for n in for_typing if n not in known and n.bound not in defined]
    place = _place(old, before)
    edits = [
        _insertion(old, _future_place(old), _rendered([n for n in wanted if n.is_future])),
        _insertion(old, place, _rendered([n for n in wanted if not n.is_future])),
        _typing_insertion(old, place, typing_only),
    ]
    return [e for e in edits if e.lines]


def bound_by_import(statement: ImportNode) -> set[str]:
    """Return the names that an import binds."""
    return {name.bound for name in _names([statement])}


def _names(statements: Iterable[ast.stmt]) -> Iterator[_Name]:
    for statement in statements:
        if isinstance(statement, ImportNode):
            module = ""
            if isinstance(statement, ast.ImportFrom):
                module = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                yield _Name(module=module, name=alias.name, asname=alias.asname)


def _for_typing(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    return [inner for block in body if is_type_checking(block) for inner in block.body]


def _rendered(names: Sequence[_Name], indent: str = "") -> tuple[str, ...]:
    """Return import statements, the names of one module together."""
    lines: dict[str, list[str]] = {}
    for name in names:
        text = name.name + (f" as {name.asname}" if name.asname else "")
        key = f"from {name.module} import" if name.module else f"import {text}"
        # `from x import *` cannot share a statement
        key += "  *" if name.name == "*" else ""
        lines.setdefault(key, []).append(text)
    return tuple(
        indent + (key if key.startswith("import ") else f"{key.removesuffix('  *')} {', '.join(texts)}")
        for key, texts in lines.items()
    )


def _insertion(old: PythonSource, place: int, lines: Sequence[str]) -> LineEdit:
    """Return an insertion with the blank lines that separate imports from a docstring or from code."""
    after_import = any(s.end_lineno == place for s in old.tree.body if isinstance(s, ImportNode))
    if lines and not after_import:
        is_top = place <= first_line(old.tree.body[0])
        lines = [*lines, "", ""] if is_top else ["", *lines]
    return LineEdit(start=place, stop=place, lines=tuple(lines), rank=InsertionRank.IMPORT)


def _typing_insertion(old: PythonSource, place: int, names: Sequence[_Name]) -> LineEdit:
    """Return what adds names for type checkers only: to the first such block, else in a block of its own."""
    blocks = [b for b in old.tree.body if is_type_checking(b) and b.body[-1].lineno > b.lineno]
    if blocks:
        last = blocks[0].body[-1]
        stop = last.end_lineno or last.lineno
        lines = _rendered(names, old.indent(last))
        return LineEdit(start=stop, stop=stop, lines=lines, rank=InsertionRank.IMPORT)
    block = ("if TYPE_CHECKING:", *_rendered(names, old.unit())) if names else ()
    return _insertion(old, place, block)


def _place(old: PythonSource, before: int) -> int:
    """Return the index after the last import above a line, else after docstring and ``__future__``."""
    ends = [
        s.end_lineno or 0
        for s in old.tree.body
        if isinstance(s, ImportNode) and (s.end_lineno or 0) <= before
    ]
    return max(ends, default=_future_place(old))


def _future_place(old: PythonSource) -> int:
    """Return the index after the docstring and the ``__future__`` imports, else above the first statement."""
    index = -1
    for position, statement in enumerate(old.tree.body):
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if is_future or (position == 0 and is_docstring(statement)):
            index = statement.end_lineno or 0
    if index >= 0:
        return index
    first = old.tree.body[0]
    lead = min(old.lead(first), first_line(first))
    return next(
        (i for i in range(lead, first_line(first)) if not _HEADER.match(old.lines[i])), first_line(first)
    )
