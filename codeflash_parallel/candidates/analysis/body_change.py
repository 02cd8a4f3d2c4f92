"""Whether a change of a file changes only the bodies of some functions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache

from codeflash_parallel.candidates.analysis.functions import definitions, is_generator
from codeflash_parallel.candidates.analysis.python_source import parse_piece, same_around
from codeflash_parallel.candidates.analysis.syntax_tree import (
    Definition,
    FunctionNode,
    skeleton,
    statements_of,
)

#: Texts whose readings are kept: the snapshot's is wanted for every candidate, a candidate's when it is
#: checked and again when it is admitted. Each is as large as what changed.
_KEPT = 128
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
        before, after = _differing(old.removeprefix("\ufeff"), new.removeprefix("\ufeff"), frozenset(targets))
    except SyntaxError:
        return BodyChange(qualnames=(), why="our Python cannot parse it")
    why = _other_change(before, after)
    pairs = zip(before.functions, after.functions, strict=not why)
    changed = dict.fromkeys(one.name for one, other in pairs if one.body != other.body)
    return BodyChange(qualnames=() if why else tuple(changed), why=why)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Function:
    """What counts of one definition of a target.

    Attributes:
        kind: type of its node, and whether it is a generator.
        outer: variables of scopes between module and function that its body uses.
        declared: names that its body declares as global: the module's own code is compiled accordingly.
        body: the statements' skeletons, as one text.
    """

    name: str
    docstring: str | None
    kind: tuple[type, bool]
    outer: frozenset[str]
    declared: frozenset[str]
    body: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """What counts of a text.

    Attributes:
        functions: the definitions of the targets, in order.
        shell: the rest, without the targets' bodies.
        docstrings: those of the rest.
    """

    functions: tuple[_Function, ...]
    shell: str
    docstrings: tuple[str | None, ...]


def _differing(old: str, new: str, targets: frozenset[str]) -> tuple[_Reading, _Reading]:
    """Read both texts, without outermost statements at the beginning and the end whose text is the same.

    What is left is parsed alone: between two statements the parser remembers nothing. Where it is not
    Python alone (a new `else` for the last equal statement, a string that is not closed), all is parsed.
    """
    try:
        head, tail = same_around(old, new)
        return _reading(old[head : len(old) - tail], targets), _reading(new[head : len(new) - tail], targets)
    except SyntaxError:
        return _reading(old, targets), _reading(new, targets)


@lru_cache(maxsize=_KEPT)
def _reading(text: str, targets: frozenset[str]) -> _Reading:
    tree = parse_piece(text)
    found = [(name, node) for name, node in definitions(tree.body) if name in targets]
    functions = tuple(_function(name, node) for name, node in found)
    hollow = frozenset(node for _, node in found)
    shell, docstrings = skeleton(tree, hollow), tuple(_docstrings(tree, hollow))
    return _Reading(functions=functions, shell=shell, docstrings=docstrings)


def _function(name: str, node: FunctionNode) -> _Function:
    # Walking through a tree takes as long as this: that a word is not in the text says the same.
    body = " ".join(map(skeleton, node.body))
    return _Function(
        name=name,
        docstring=ast.get_docstring(node, clean=False),
        kind=(type(node), "Yield" in body and is_generator(node)),
        outer=_outer_names(name, node, body),
        declared=_globals(node) if "Global" in body else frozenset(),
        body=body,
    )


def _other_change(old: _Reading, new: _Reading) -> str:
    """Return what changes besides bodies, one clause; empty when nothing does."""
    if [function.name for function in old.functions] != [function.name for function in new.functions]:
        return "it adds, removes or moves definitions of the targets"
    pairs = zip(old.functions, new.functions, strict=True)
    why = next(filter(None, (_interface_change(*pair) for pair in pairs)), "")
    if not why and (old.shell, old.docstrings) != (new.shell, new.docstrings):
        return "it changes more than the bodies of the targets"
    return why


def _interface_change(old: _Function, new: _Function) -> str:
    """Return what a function shows to others and does no longer show in the same way."""
    if old.docstring != new.docstring:
        return f"the docstring of {old.name} changes"
    if old.kind != new.kind:
        return f"{old.name} becomes a function of another kind"
    if old.outer != new.outer:
        return f"{old.name} uses other variables of the scopes around it"
    return "" if old.declared == new.declared else f"{old.name} declares other names as global"


def _globals(node: FunctionNode) -> frozenset[str]:
    declarations = (item for item in ast.walk(node) if isinstance(item, ast.Global))
    return frozenset(name for item in declarations for name in item.names)


def _outer_names(name: str, node: FunctionNode, body: str) -> frozenset[str]:
    parameters = {parameter.name for parameter in getattr(node, "type_params", ())}
    outer = frozenset(parameters | (_CLASS_CELL if "." in name else frozenset()))
    if not any(word in body for word in outer):
        return frozenset()
    walks = (ast.walk(statement) for statement in node.body)
    return outer & {item.id for walk in walks for item in walk if isinstance(item, ast.Name)}


def _docstrings(tree: ast.Module, hollow: Collection[ast.AST]) -> Iterator[str | None]:
    pending: list[ast.AST] = [tree]
    for node in pending:
        if node in hollow:
            continue
        if isinstance(node, Definition | ast.Module):
            yield ast.get_docstring(node, clean=False)
        pending.extend(statements_of(node))
