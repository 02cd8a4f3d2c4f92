"""Edits of source text that make candidates: replace a function, substitute a line, add an import."""

from __future__ import annotations

import ast
import textwrap
from typing import Protocol


class Sources(Protocol):
    """Texts of a case's repository, read from git when they are asked for."""

    def base(self, path: str) -> str:
        """Return the text of a file before the change."""

    def upstream(self, number: int) -> dict[str, str]:
        """Return the case's source files, by path, as upstream's commit `perf_commits[number]` left them.

        Files that the commit left as they were are not there; which files count is said by `perf_files`.
        """


class EditError(ValueError):
    """An edit does not fit the text."""


def substitute(text: str, old: str, new: str, count: int = 1) -> str:
    """Replace `old`, which has to occur exactly `count` times."""
    if (found := text.count(old)) != count:
        raise EditError(f"expected {count} times, found {found} times: {old!r}")
    return text.replace(old, new)


def function_source(text: str, name: str) -> str:
    """Return the source of "function" or "Class.method", its decorators included, without its indentation."""
    first, last, _ = _place(text, name)
    return textwrap.dedent("".join(text.splitlines(keepends=True)[first:last]))


def replace_function(text: str, name: str, new_source: str) -> str:
    """Replace "function" or "Class.method", its decorators included; the new source gets its indentation."""
    first, last, column = _place(text, name)
    return _spliced(text, first, last, _indented(new_source, column))


def replace_body(text: str, name: str, new_body: str) -> str:
    """Replace what follows a function's docstring; the new body gets its indentation."""
    old = function_source(text, name)
    function = ast.parse(old).body[0]
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    body = function.body
    first = body[1] if ast.get_docstring(function) is not None and len(body) > 1 else body[0]
    head = old.splitlines(keepends=True)[: first.lineno - 1]
    return replace_function(text, name, "".join(head) + _indented(new_body, first.col_offset))


def insert_before(text: str, name: str, new_source: str) -> str:
    """Insert statements before "function" or "Class.method", with a blank line or two between them."""
    first, _, column = _place(text, name)
    blank = "\n" if column else "\n\n"
    return _spliced(text, first, first, _indented(new_source, column) + blank)


def add_import(text: str, statement: str) -> str:
    """Insert an import after the module's docstring and its imports from `__future__`."""
    after = 0
    for index, node in enumerate(ast.parse(text).body):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            after = node.end_lineno or 0
    return _spliced(text, after, after, statement.strip() + "\n")


def _place(text: str, name: str) -> tuple[int, int, int]:
    """Return the first line (from 0), the line after the last, and the indentation of a function."""
    body: list[ast.stmt] = ast.parse(text).body
    *classes, function = name.split(".")
    for owner in classes:
        body = next((n.body for n in body if isinstance(n, ast.ClassDef) and n.name == owner), [])
    # The last definition is the one that counts: those before it may be overloads.
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return first - 1, node.end_lineno or node.lineno, node.col_offset
    raise EditError(f"there is no function {name}")


def _indented(source: str, column: int) -> str:
    return textwrap.indent(textwrap.dedent(source).strip("\n") + "\n", " " * column)


def _spliced(text: str, first: int, last: int, new: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:first], new, *lines[last:]])
