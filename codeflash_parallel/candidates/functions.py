"""Target functions, and functions in Python source by dotted name. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from codeflash_parallel.candidates.python_source import (
    FunctionNode,
    dotted,
    first_line,
    flat,
    is_docstring,
    parse,
    skeleton,
)
from codeflash_parallel.result.errors import UsageError


class Target(NamedTuple):
    """A function that is being optimized.

    Attributes:
        path: file, POSIX, relative to the root of the repository.
        qualname: dotted name inside the module, e.g. ``"Class.method"``.
    """

    path: str
    qualname: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``src/pkg/mod.py::Class.method`` (``Class::method`` is understood, too).

        Raises:
            UsageError: `BAD_FUNCTION` when the text is not of that form.
        """
        path, separator, name = text.partition("::")
        qualname = name.replace("::", ".")
        parts = PurePosixPath(path).parts
        good_path = path.endswith(".py") and not path.startswith("/") and ".." not in parts
        if not separator or not good_path or not all(p.isidentifier() for p in qualname.split(".")):
            raise UsageError(
                "BAD_FUNCTION",
                f"--function {text!r} is not of the form path/in/repo.py::Class.method.",
                "Give a path relative to the repository and a dotted name, e.g. src/pkg/mod.py::Shape.area.",
            )
        return cls(path=str(PurePosixPath(path)), qualname=qualname)

    @property
    def name(self) -> str:
        """The last part of the dotted name."""
        return self.qualname.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.path}::{self.qualname}"


#: What a function is made to do when its failure must be seen.
FORCED_FAILURE = 'raise AssertionError("codeflash-parallel: forced failure")'
_LINE_END = rb"\r\n|\r|\n"
#: Last parts of decorators that mark a definition as not being the one that a plain name stands for.
_SECONDARY = frozenset({"overload", "setter", "deleter"})


def locate(source: str, qualname: str) -> FunctionNode | None:
    """Return a function of a source, `None` if there is none of that name (or the source does not parse).

    Of several definitions it is the first that is no ``@overload`` and no property's setter or deleter.
    """
    tree = parse_or_none(source)
    return find(tree.body, qualname) if tree else None


def signature(source: str, qualname: str) -> str:
    """Return how a function is called, in Python; empty if there is none of that name."""
    node = locate(source, qualname)
    return f"{type(node).__name__} {ast.unparse(node.args)}" if node else ""


def functions_of(source: str) -> tuple[str, ...]:
    """Return the dotted names of all functions and methods, in order; empty if the source does not parse.

    A function inside a function belongs to the outermost one and is not listed.
    """
    tree = parse_or_none(source)
    return tuple(dict.fromkeys(name for name, _ in definitions(tree.body))) if tree else ()


def touched(old: str, new: str) -> tuple[str, ...]:
    """Return the functions of both texts whose syntax trees differ, docstrings apart, in the old order."""
    before, after = _skeletons(old), _skeletons(new)
    return tuple(name for name, tree in before.items() if name in after and after[name] != tree)


def force_failure(source: str, *qualnames: str) -> str:
    """Return the source with the bodies of some functions replaced by failures; docstrings and kinds stay.

    Raises:
        LookupError: there is no such function.
    """
    mark = "\ufeff" * source.startswith("\ufeff")
    text = source.removeprefix("\ufeff").encode()
    offsets = _line_offsets(text)
    # From the last one to the first, so that the offsets of those before stay true.
    for start, end, failure in sorted((_failure(source, n, offsets) for n in qualnames), reverse=True):
        text = text[:start] + failure.encode() + text[end:]
    return mark + text.decode()


def _failure(source: str, qualname: str, offsets: Sequence[int]) -> tuple[int, int, str]:
    """Return which bytes of a source (without its mark) become a failure, and the failure."""
    node = locate(source, qualname)
    if node is None:
        raise LookupError(f"There is no function {qualname}.")
    failure = FORCED_FAILURE + ("; yield" if is_generator(node) else "")
    end = offsets[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
    first = node.body[1] if is_docstring(node.body[0]) and len(node.body) > 1 else node.body[0]
    start = offsets[first_line(first)] + first.col_offset
    return (end, end, f"; {failure}") if is_docstring(first) else (start, end, failure)


def is_generator(node: FunctionNode) -> bool:
    """Tell whether a function's own body yields."""
    pending: list[ast.AST] = list(node.body)
    while pending:
        item = pending.pop()
        if isinstance(item, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(item))
    return False


def parse_or_none(source: str) -> ast.Module | None:
    """Parse, `None` if the source is not Python."""
    try:
        return parse(source)
    except SyntaxError:
        return None


def definitions(body: Sequence[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Yield every function and method of a scope with its dotted name."""
    for statement in flat(body):
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield prefix + name, statement
            case ast.ClassDef(name=name):
                yield from definitions(statement.body, f"{prefix}{name}.")


def find(body: Sequence[ast.stmt], qualname: str) -> FunctionNode | None:
    """Return the definition that a dotted name stands for."""
    found = [node for name, node in definitions(body) if name == qualname]
    return next((node for node in found if not role(node)), found[0] if found else None)


def role(node: FunctionNode) -> str:
    """Return ``overload``, ``setter`` or ``deleter`` for a secondary definition, else an empty text."""
    names = (dotted(decorator).rpartition(".")[2] for decorator in node.decorator_list)
    return next((name for name in names if name in _SECONDARY), "")


def _skeletons(source: str) -> dict[str, list[str]]:
    tree = parse_or_none(source)
    found: dict[str, list[str]] = {}
    for name, node in definitions(tree.body) if tree else ():
        found.setdefault(name, []).append(skeleton(node))
    return found


def _line_offsets(text: bytes) -> list[int]:
    """Return where each line begins, in bytes, as syntax trees count columns."""
    return [0, *(match.end() for match in re.finditer(_LINE_END, text))]
