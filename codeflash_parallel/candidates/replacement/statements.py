"""What single statements bind, use and are; and small facts about their text."""

from __future__ import annotations

import ast
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from codeflash_parallel.candidates.analysis.functions import role
from codeflash_parallel.candidates.analysis.python_source import PythonSource
from codeflash_parallel.candidates.analysis.syntax_tree import (
    Definition,
    FunctionNode,
    dotted,
    is_docstring,
    is_type_checking,
    skeleton,
    statements_of,
)
from codeflash_parallel.candidates.replacement.import_merge import bound_by_import

#: Name, role (getter, setter, overload …) and how many of that name and role came before.
Key = tuple[str, str, int]


def keyed(functions: Iterable[ast.stmt]) -> dict[Key, FunctionNode]:
    """Return functions under names that tell overloads, setters and redefinitions apart."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[Key, FunctionNode] = {}
    for node in functions:
        if isinstance(node, FunctionNode):
            key = (node.name, role(node))
            found[*key, seen[key]] = node
            seen[key] += 1
    return found


def paired(new: Sequence[ast.expr], old: Sequence[ast.expr]) -> list[ast.expr | None]:
    """Return for each new decorator the old one it stands for: an equal one, else one of the same name."""
    free = list(old)
    found: dict[int, ast.expr] = {}
    for key in (skeleton, _last_name):
        for index, decorator in enumerate(new):
            twin = next((o for o in free if index not in found and key(o) == key(decorator)), None)
            if twin is not None:
                found[index] = twin
                free.remove(twin)
    return [found.get(index) for index in range(len(new))]


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value, loop variables and changes in place apart."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return bound_by_import(statement)
        case ast.Assign() | ast.AnnAssign():
            return _stored(statement)
    if type(statement).__name__ == "TypeAlias":  # from Python 3.12 on
        return _stored(statement)
    return {name for inner in statements_of(statement) for name in bound_names(inner)}


def all_names(statement: ast.AST) -> set[str]:
    """Return every name that occurs anywhere in a statement."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def eager_names(statement: ast.AST) -> set[str]:
    """Return the names that a statement needs while the module is being imported."""
    names: set[str] = set()
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        if isinstance(node, FunctionNode):
            pending += [*node.decorator_list, node.args]
        elif isinstance(node, ast.Lambda):
            pending.append(node.args)
        else:
            pending += ast.iter_child_nodes(node)
    return names


def places(added: Sequence[ast.stmt], replaced: Sequence[tuple[int, ast.stmt]], default: int) -> list[int]:
    """Return the line where each new statement goes: `default`, or above an earlier one that needs it.

    Args:
        added: new statements, in the replacement's order.
        replaced: line in the original, and new version, of what is replaced in place.
        default: line of the target's outermost statement.
    """
    users = [(place, eager_names(statement)) for place, statement in replaced if place < default]
    found: list[int] = []
    for statement in reversed(added):
        names = bound_names(statement)
        place = min([default, *(at for at, used in users if used & names)])
        if place < default:
            users.append((place, all_names(statement)))
        found.append(place)
    return found[::-1]


def ignorable(statement: ast.stmt) -> bool:
    """Tell what is not spliced: docstrings, placeholders, blocks for type checkers, the main block."""
    if isinstance(statement, ast.If):
        return is_type_checking(statement) or "__name__" in all_names(statement.test)
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def is_stub(function: FunctionNode) -> bool:
    """Tell a function whose body is only ``...``: context that an author left out."""
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    return all(
        isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant) and s.value.value is ... for s in body
    ) and bool(body)


def shares_line(source: PythonSource, statement: ast.stmt) -> bool:
    """Tell whether another statement stands on one of a statement's lines."""
    if isinstance(statement, Definition):
        return False
    before = source.lines[statement.lineno - 1].encode()[: statement.col_offset].strip()
    after = source.lines[(statement.end_lineno or 0) - 1].encode()[statement.end_col_offset or 0 :].strip()
    return bool(before) or not (after == b"" or after.startswith(b"#"))


def header_end(source: PythonSource, node: ast.ClassDef) -> int:
    """Return the index after the line with the colon of ``class X(...):``."""
    depth = 0
    lines = iter(source.lines[node.lineno - 1 :])
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        depth += (token.string in {"(", "[", "{"}) - (token.string in {")", "]", "}"})
        if token.string == ":" and depth == 0:
            return node.lineno - 1 + token.start[0]
    return node.lineno


def converter(new_unit: str, old_unit: str) -> Callable[[str], str]:
    """Return what turns one kind of indentation into another, where one is tabs and the other spaces."""
    if ("\t" in new_unit) == ("\t" in old_unit):
        return lambda line: line

    def convert(line: str) -> str:
        white = line[: len(line) - len(line.lstrip(" \t"))]
        if "\t" in new_unit:
            return white.replace("\t", old_unit) + line[len(white) :]
        steps, rest = divmod(len(white), len(new_unit))
        return "\t" * steps + " " * rest + line[len(white) :]

    return convert


def _last_name(decorator: ast.expr) -> str:
    """Return ``cache`` for both ``@cache`` and ``@functools.cache()``."""
    return dotted(decorator).rpartition(".")[2] or skeleton(decorator)


def _stored(statement: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
