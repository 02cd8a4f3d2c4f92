"""Whether a change of a file changes only the bodies of some functions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from codeflash_parallel.model.functions import definitions, is_generator
from codeflash_parallel.model.source import Definition, FunctionNode, parse_piece, same_around, skeleton

#: Names that give a method the cell of its class, which the class's own code has to make.
_CLASS_CELL = frozenset({"super", "__class__"})


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyChange:
    """What a change of one file is.

    Attributes:
        qualnames: the targets whose bodies changed; empty when something else changed, too.
        why: what else changed, one clause; empty when only bodies of targets did, or nothing that runs.
    """

    qualnames: tuple[str, ...]
    why: str


def body_change(old: str, new: str, targets: Collection[str]) -> BodyChange:
    """Say whether two texts of a file differ in the bodies of target functions only.

    What a function object takes from its definition has to stay: name, decorators, arguments, defaults,
    annotations, docstring, its kind, and the variables of other scopes that it uses. Lines may move.

    Args:
        old: the snapshot's text.
        new: the candidate's text.
        targets: dotted names of the functions whose code may be swapped.
    """
    try:
        before, after = _differing(old.removeprefix("\ufeff"), new.removeprefix("\ufeff"))
    except SyntaxError:
        return BodyChange(qualnames=(), why="our Python cannot parse it")
    pairs, why = _paired(before, after, frozenset(targets))
    why = why or next(filter(None, (_interface_change(*pair) for pair in pairs)), "")
    changed = [name for name, one, other in pairs if _body(one) != _body(other)]
    if not why and _shell(before, pairs) != _shell(after, pairs):
        why = "it changes more than the bodies of the targets"
    return BodyChange(qualnames=() if why else tuple(dict.fromkeys(changed)), why=why)


def _differing(old: str, new: str) -> tuple[ast.Module, ast.Module]:
    """Return both trees, without outermost statements at the beginning and the end whose text is the same.

    What is left is parsed alone: between two statements the parser remembers nothing. Where it is not
    Python alone (a new `else` for the last equal statement, a string that is not closed), all is parsed.
    """
    try:
        head, tail = same_around(old, new)
        return parse_piece(old[head : len(old) - tail]), parse_piece(new[head : len(new) - tail])
    except SyntaxError:
        return parse_piece(old), parse_piece(new)


_Pair = tuple[str, FunctionNode, FunctionNode]


def _paired(old: ast.Module, new: ast.Module, targets: frozenset[str]) -> tuple[list[_Pair], str]:
    """Return the definitions of the targets in both trees, in order, and why they cannot be paired."""
    one = [(name, node) for name, node in definitions(old.body) if name in targets]
    other = [(name, node) for name, node in definitions(new.body) if name in targets]
    if [name for name, _ in one] != [name for name, _ in other]:
        return [], "it adds, removes or moves definitions of the targets"
    return [(name, node, twin) for (name, node), (_, twin) in zip(one, other, strict=True)], ""


def _interface_change(name: str, old: FunctionNode, new: FunctionNode) -> str:
    """Return what a function shows to others and does no longer show in the same way."""
    if ast.get_docstring(old, clean=False) != ast.get_docstring(new, clean=False):
        return f"the docstring of {name} changes"
    if type(old) is not type(new) or is_generator(old) != is_generator(new):
        return f"{name} becomes a function of another kind"
    if _outer_names(name, old) != _outer_names(name, new):
        return f"{name} uses other variables of the scopes around it"
    return "" if _globals(old) == _globals(new) else f"{name} declares other names as global"


def _globals(node: FunctionNode) -> set[str]:
    """Return the names that a body declares as global: the module's own code is compiled accordingly."""
    return {name for item in ast.walk(node) if isinstance(item, ast.Global) for name in item.names}


def _outer_names(name: str, node: FunctionNode) -> set[str]:
    """Return the variables of scopes between module and function that a body uses."""
    used = {item.id for statement in node.body for item in ast.walk(statement) if isinstance(item, ast.Name)}
    parameters = {parameter.name for parameter in getattr(node, "type_params", ())}
    return used & (parameters | (_CLASS_CELL if "." in name else frozenset()))


def _body(node: FunctionNode) -> list[str]:
    return [skeleton(statement) for statement in node.body]


def _shell(tree: ast.Module, pairs: list[_Pair]) -> tuple[str, list[str | None]]:
    """Return a tree without the targets' bodies, as text, and the docstrings that are left in it."""
    hollow = {id(node) for pair in pairs for node in pair[1:]}
    bodies = [(node, node.body) for node in ast.walk(tree) if isinstance(node, FunctionNode)]
    emptied = [(node, body) for node, body in bodies if id(node) in hollow]
    for node, _ in emptied:
        node.body = [ast.Pass()]
    text, docstrings = skeleton(tree), list(_docstrings(tree))
    for node, body in emptied:
        node.body = body
    return text, docstrings


def _docstrings(tree: ast.Module) -> Iterator[str | None]:
    for node in ast.walk(tree):
        if isinstance(node, Definition | ast.Module):
            yield ast.get_docstring(node, clean=False)
