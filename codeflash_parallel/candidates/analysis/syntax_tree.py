"""Syntax trees: what is code, what is prose, and whether two are the same."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from typing import Any, TypeGuard

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: What may begin with a docstring; nodes that are one word; fields that mean nothing when a program runs.
_WITH_PROSE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_WORD_KINDS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
_WORDS: dict[type, str] = {word: word.__name__ for kind in _WORD_KINDS for word in kind.__subclasses__()}
_NO_CODE = frozenset({"type_comment", "type_ignores"})
#: How nodes of a type begin, and those of their fields that matter when they run, the last one first.
_SHAPES: dict[type, tuple[str, tuple[str, ...]]] = {
    kind: (f"{kind.__name__}(", tuple(name for name in reversed(kind._fields) if name not in _NO_CODE))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def first_line(node: ast.stmt) -> int:
    """Return the index of a statement's first line, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1


def flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one scope, those inside its if, try, with, loop and match blocks included.

    Blocks for type checkers only are left out: nothing in them ever runs.
    """
    for statement in body:
        yield statement
        if isinstance(statement, Definition):
            continue
        if is_type_checking(statement):
            yield from flat(statement.orelse)
        else:
            yield from flat(statements_of(statement))


def statements_of(node: ast.AST) -> list[ast.stmt]:
    """Return the statements directly inside a block statement."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found.extend(child.body)
    return found


def is_type_checking(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Tell ``if TYPE_CHECKING:`` (also ``typing.TYPE_CHECKING``)."""
    return isinstance(statement, ast.If) and dotted(statement.test).rpartition(".")[2] == "TYPE_CHECKING"


def dotted(node: ast.expr) -> str:
    """Return ``a.b`` for a name or attribute or a call of one, else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case ast.Call(func=function):
            return dotted(function)
    return ""


def is_docstring(statement: ast.stmt) -> bool:
    """Tell a statement that is only a string."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def is_prose(statement: ast.stmt) -> bool:
    """Tell a docstring that no doctest stands in: nothing runs because of it."""
    return is_docstring(statement) and ">>>" not in ast.dump(statement)


def without_prose(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its docstring (a doctest in one is code, though)."""
    return body[1:] if body and is_prose(body[0]) else body


def same(one: ast.AST, other: ast.AST) -> bool:
    """Tell whether two trees mean the same: positions, formatting, comments and docstrings apart."""
    return skeleton(one) == skeleton(other)


def skeleton(root: ast.AST, hollow: Collection[ast.AST] = ()) -> str:
    """Return a text that is equal for equal trees; iterative, since long expressions nest thousands deep.

    Args:
        root: of the tree.
        hollow: nodes in it whose bodies do not count.
    """
    parts: list[str] = []
    pending: list[Any] = [root]
    while pending:
        item = pending.pop()
        kind = type(item)
        # The most frequent kinds first: this is half of what the evaluator does for many a candidate.
        if kind is str:
            parts.append(item)
        elif kind is ast.Name:
            parts.append(f"Name {item.id!r} {_WORDS[type(item.ctx)]}")
        elif kind is ast.Constant:
            parts.append(_constant(item.value))
        elif kind is list:
            pending += ("]", *reversed(item), "[")
        elif kind in _WORDS:
            parts.append(_WORDS[kind])
        elif kind in _SHAPES:
            head, fields = _SHAPES[kind]
            parts.append(head)
            pending += (")", *[_field(item, name, hollow) for name in fields])
        else:
            parts.append(_constant(item))
    return " ".join(parts)


def _field(node: ast.AST, name: str, hollow: Collection[ast.AST]) -> object:
    """Return a field of a node, a body without its docstring (a doctest in one is code, though)."""
    value: Any = getattr(node, name, None)
    if type(value) is str:
        return repr(value)
    if name != "body" or not isinstance(node, _WITH_PROSE):
        return value
    return [] if node in hollow else without_prose(value)


def _constant(value: object) -> str:
    """Return type and value; integers in hexadecimal, since very long ones have no decimal text."""
    if type(value) is int:
        return f"int {value:x}"
    return f"{type(value).__name__} {value!r}"
