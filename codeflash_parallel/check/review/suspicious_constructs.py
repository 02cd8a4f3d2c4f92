"""Constructs in Python source that an optimization hardly needs and an attack often does. Pure.

Names are followed through imports and plain assignments of one file (`from os import _exit as leave`,
`o = os`), not through what the program does: this is for readers of a report, and decides nothing.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codeflash_parallel.candidates.analysis.syntax_tree import flat
from codeflash_parallel.check.review.misuse_kinds import OF_ATTRIBUTES, OF_METHODS, kind_of
from codeflash_parallel.result.outcome_codes import FlagKind

#: Builtins that are flagged where they are used; `open` depends on its mode.
_BUILTINS = frozenset({"exec", "eval", "compile", "exit", "quit", "SystemExit", "KeyboardInterrupt"})
_TYPES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))
_SHADOWABLE = frozenset(name for name in vars(builtins) if not name.startswith("_"))
#: Functions that open files, and their place for the mode.
_OPENERS = {"builtins.open": 1, "io.open": 1, "codecs.open": 1, "gzip.open": 1, "bz2.open": 1, "lzma.open": 1}
_MODE = re.compile(r"[rwxabtU+]{1,4}")


@dataclass(frozen=True, slots=True)
class Construct:
    """One construct.

    Attributes:
        what: its name, resolved.
        line: from 1.
    """

    kind: FlagKind
    what: str
    line: int


def names_of(tree: ast.Module, around: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what names of a file stand for, dotted: imports, and names that are assigned one.

    Args:
        tree: of the file or of a part of it.
        around: what names stand for outside of that part.
    """
    known = dict(around or {})
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {a.asname or a.name.partition(".")[0]: _imported(a) for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            known |= {a.asname or a.name: f"{_module(node)}.{a.name}" for a in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            whole = resolved(node.value, known)
            known |= {node.targets[0].id: whole} if whole and len(node.targets) == 1 else {}
    return known


def _module(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _imported(alias: ast.alias) -> str:
    return alias.name if alias.asname else alias.name.partition(".")[0]


def resolved(node: ast.expr, known: Mapping[str, str]) -> str:
    """Return the dotted name of an expression whose first name is an import; else an empty text."""
    match node:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Attribute(value=value, attr=name):
            before = resolved(value, known)
            return f"{before}.{name}" if before else ""
        case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name)), *_]):
            before = resolved(value, known)
            return f"{before}.{name}" if before else ""
        case ast.Call(func=ast.Name(id="__import__"), args=[ast.Constant(value=str(name)), *_]):
            return name
    return ""


def constructs(tree: ast.Module, known: Mapping[str, str]) -> Iterator[Construct]:
    """Yield what is found in a tree.

    Args:
        tree: of a file or of a part of it.
        known: what names stand for (`names_of` the whole file).
    """
    yield from _shadows(tree.body)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield from (Construct(kind, what, getattr(node, "lineno", 1)) for kind, what in _in_node(node, known))
        # The longest name says it all: what it begins with would be said again.
        pending.extend([] if _is_import(node, known) else ast.iter_child_nodes(node))


def _is_import(node: ast.AST, known: Mapping[str, str]) -> bool:
    """Tell attributes, and attributes of attributes, of a name that stands for an import."""
    if not isinstance(node, ast.Attribute):
        return False
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in known


def _in_node(node: ast.AST, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    match node:
        case ast.Import():
            yield from _named(alias.name for alias in node.names)
        case ast.ImportFrom():
            yield from _named(f"{_module(node)}.{alias.name}" for alias in node.names)
        case ast.Attribute():
            yield from _attribute(node, known)
        case ast.Name():
            yield from _name(node, known)
        case ast.Call():
            yield from _call(node, known)
        case ast.Subscript(ctx=ast.Store() | ast.Del()):
            yield from _namespace(node.value, known)
        case ast.ClassDef():
            yield from _class(node)
        case ast.Global(names=names):
            yield from ((FlagKind.PATCHING, f"{name} = ...") for name in names if name in _SHADOWABLE)


def _named(names: Iterable[str]) -> Iterator[tuple[FlagKind, str]]:
    for name in names:
        kind = kind_of(name)
        if kind is not None:
            yield kind, name


def _attribute(node: ast.Attribute, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    name = resolved(node, known)
    if not isinstance(node.ctx, ast.Load):
        if resolved(node.value, known):
            yield FlagKind.PATCHING, f"{name} = ..."
        elif node.attr == "__class__":
            yield FlagKind.DISGUISE, "__class__ = ..."
    elif name:
        yield from _named([name])
    if node.attr in OF_ATTRIBUTES:
        yield OF_ATTRIBUTES[node.attr], f".{node.attr}"


def _name(node: ast.Name, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    if isinstance(node.ctx, ast.Load) and node.id in known:
        yield from _named([known[node.id]])
    elif node.id in _BUILTINS:
        yield from _named([f"builtins.{node.id}"])
    elif node.id in {"__builtins__", "__import__"}:
        yield FlagKind.PATCHING, node.id


def _call(node: ast.Call, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    if name := resolved(node, known):  # getattr and __import__ with a name that is written there
        yield from _named([name])
    match node:
        case ast.Call(func=ast.Name(id="setattr" | "delattr" as how), args=[whole, *_]):
            if name := resolved(whole, known):
                yield FlagKind.PATCHING, f"{how}({name}, ...)"
        case ast.Call(func=ast.Name() | ast.Attribute()):
            yield from _open(node, known)


def _open(node: ast.Call, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    """Say whether a call opens a file to write; methods called `open` tell by what looks like a mode."""
    name = resolved(node.func, known) or (
        f"builtins.{node.func.id}" if isinstance(node.func, ast.Name) else ""
    )
    keyword = [k.value for k in node.keywords if k.arg == "mode"]
    if name in _OPENERS:
        modes = keyword or node.args[_OPENERS[name] :][:1]
        if any(map(_writes, modes)):
            yield FlagKind.FILES, f"{name.removeprefix('builtins.')} for writing"
        return
    modes = [value for value in [*node.args, *keyword] if _is_mode(value)]
    if isinstance(node.func, ast.Attribute) and node.func.attr == "open" and any(map(_writes, modes)):
        yield FlagKind.FILES, ".open for writing"


def _writes(mode: ast.expr) -> bool:
    """Tell a mode that writes; one that is not written there may."""
    return not isinstance(mode, ast.Constant) or bool(set(str(mode.value)) & set("wax+"))


def _is_mode(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Constant)
        and isinstance(value.value, str)
        and bool(_MODE.fullmatch(value.value))
    )


def _namespace(node: ast.expr, known: Mapping[str, str]) -> Iterator[tuple[FlagKind, str]]:
    """Say what an item is set in, where that is the namespace of a module."""
    match node:
        case ast.Call(func=ast.Name(id="globals")):
            yield FlagKind.PATCHING, "globals()[...] = ..."
        case ast.Call(func=ast.Name(id="vars"), args=[value]) if whole := resolved(value, known):
            yield FlagKind.PATCHING, f"vars({whole})[...] = ..."
        case ast.Attribute(value=value, attr="__dict__") if whole := resolved(value, known):
            yield FlagKind.PATCHING, f"{whole}.__dict__[...] = ..."


def _class(node: ast.ClassDef) -> Iterator[tuple[FlagKind, str]]:
    if node.name in _TYPES:
        yield FlagKind.DISGUISE, f"class {node.name}"
    for name in _bound(node.body):
        if name in OF_METHODS:
            yield OF_METHODS[name], name


def _shadows(body: Sequence[ast.stmt]) -> Iterator[Construct]:
    """Yield builtins that a module binds anew: its own functions, and whoever imports them, get those."""
    for statement in flat(body):
        for name in _bound([statement]):
            if name in _SHADOWABLE:
                yield Construct(FlagKind.PATCHING, f"{name} = ...", statement.lineno)


def _bound(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)
