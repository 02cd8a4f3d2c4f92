"""Change a module's text in small ways, so that there are any number of candidates: some right, some wrong.

A change replaces the text of one piece of syntax and leaves the rest of the file alone, as a patch does.
Nothing is said about whether a mutant is right; who wants to know asks the tests.
"""

from __future__ import annotations

import ast
import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

#: What one piece of syntax may become.
Change = tuple[ast.AST, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """A changed module.

    Attributes:
        kind: what was changed; the keys of `IN_FUNCTIONS`, `IN_MODULES` and `rewrites.NEUTRAL`.
        line: where, from 1.
        text: the whole module.
    """

    kind: str
    line: int
    text: str


_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield _changed(node, op=_ARITHMETIC[type(node.op)]())


def _compare(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        yield _changed(node, ops=[_COMPARED[type(node.ops[0])](), *node.ops[1:]])


def _constant(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield _changed(node, value=not node.value)
    elif isinstance(node.value, int):
        yield _changed(node, value=node.value + 1)
    elif isinstance(node.value, str):
        yield _changed(node, value=f"{node.value}?")


def _boolean(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BoolOp):
        yield _changed(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield node.test, ast.unparse(ast.UnaryOp(ast.Not(), node.test))


def _return(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield node, "return None"
        yield node.value, f"[{ast.unparse(node.value)}][0]"


def _removal(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise | ast.Continue):
        yield node, "pass"


def _default(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, Function):
        for default in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]:
            yield default, f"({ast.unparse(default)}, )[0]"
            yield default, "None" if ast.unparse(default) != "None" else "()"


def _decorator(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, Function):
        return
    for decorator in node.decorator_list:
        yield decorator, "(lambda function: function)"
    if not node.decorator_list:
        calls = "(lambda f: __import__('functools').wraps(f)(lambda *a, **k: f(*a, **k)))"
        yield before(node, f"@{calls}")
        yield before(node, "@__import__('functools').lru_cache")


def _import(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__"):
        yield node, "pass"
        yield node, f"{ast.unparse(node)}; import colorsys as _colorsys"


def _class_body(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, Function):
                yield before(inner, "_marked = 1")
            if isinstance(inner, ast.Assign):
                yield inner, "pass"
        if not node.decorator_list and not node.bases:
            yield node, reindented(ast.unparse(_changed_node(node, bases=[ast.Name("dict")])), node)


def _module_state(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Module):
        for inner in node.body:
            if isinstance(inner, ast.Assign):
                names = ", ".join(ast.unparse(target) for target in inner.targets)
                yield inner, f"{ast.unparse(inner)}; _seen = [{names}]"
                yield from _constant(inner.value)


def _new_helper(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Module):
        for inner in node.body:
            if isinstance(inner, Function) and not inner.decorator_list:
                yield before(inner, "def _helper_of_ours(value): return value\n")
                first = next((s for s in ast.walk(inner) if isinstance(s, ast.Return) and s.value), None)
                if first is not None and first.value is not None:
                    helper = f"(lambda value: value)({ast.unparse(first.value)})"
                    yield first.value, helper


def _annotation(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, Function):
        for argument in node.args.args:
            if argument.annotation is not None:
                yield argument.annotation, "object"


def _docstring(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, Function) and ast.get_docstring(node) is not None:
        yield node.body[0], "'Other words.'"


#: Changes inside of functions, by kind.
IN_FUNCTIONS: dict[str, Callable[[ast.AST], Iterator[Change]]] = {
    "arithmetic": _arithmetic,
    "compare": _compare,
    "constant": _constant,
    "boolean": _boolean,
    "return": _return,
    "removal": _removal,
}
#: Changes of what a module does when it is imported, by kind.
IN_MODULES: dict[str, Callable[[ast.AST], Iterator[Change]]] = {
    "default": _default,
    "decorator": _decorator,
    "import": _import,
    "class_body": _class_body,
    "module_state": _module_state,
    "new_helper": _new_helper,
    "annotation": _annotation,
    "docstring": _docstring,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """A change that could be made: the text of `place` becomes `text`."""

    kind: str
    place: ast.AST
    text: str


def sites(source: str, functions: Sequence[str] = ()) -> list[Site]:
    """Return every change of a module, right or wrong, in order of kinds and places.

    Args:
        source: text of the module.
        functions: qualified names; changes inside of functions are made in these only. Empty: in all.
    """
    tree = ast.parse(source)
    inside = [node for function in named(tree, functions) for node in within(function)]
    found = [site for kind, changes in IN_FUNCTIONS.items() for site in sites_of(kind, changes, inside)]
    everywhere = list(ast.walk(tree))
    return found + [
        site for kind, changes in IN_MODULES.items() for site in sites_of(kind, changes, everywhere)
    ]


def drawn(source: str, found: Sequence[Site], count: int, seed: int) -> list[Mutant]:
    """Make some of the changes, one each, so that every kind has its turn.

    Args:
        source: text of the module that the sites are of.
        found: to draw from.
        count: how many mutants, at most; each one parses and is another program.
        seed: the same seed draws the same ones.
    """
    in_kinds = sorted(found, key=lambda site: site.kind)
    by_kind = [list(group) for _, group in itertools.groupby(in_kinds, key=lambda site: site.kind)]
    rng = random.Random(seed)
    for group in [by_kind, *by_kind]:
        rng.shuffle(group)
    turns = itertools.zip_longest(*by_kind)
    mixed = (site for turn in turns for site in turn if site is not None)
    return list(itertools.islice(_made(source, mixed), count))


def functions_of(tree: ast.Module) -> dict[str, Function]:
    """Return the functions of a module and of its classes by their qualified names."""
    found: dict[str, Function] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.ClassDef):
                visit(inner, f"{prefix}{inner.name}.")
            elif isinstance(inner, Function):
                found[f"{prefix}{inner.name}"] = inner

    visit(tree, "")
    return found


def named(tree: ast.Module, names: Sequence[str]) -> list[Function]:
    found = functions_of(tree)
    return [found[name] for name in names or found]


def sites_of(
    kind: str, changes: Callable[[ast.AST], Iterator[Change]], nodes: Sequence[ast.AST]
) -> Iterator[Site]:
    for node in nodes:
        yield from (Site(kind=kind, place=place, text=text) for place, text in changes(node))


def _made(source: str, found: Iterator[Site]) -> Iterator[Mutant]:
    seen = {ast.dump(ast.parse(source))}
    for site in found:
        text = _replaced(source, site.place, site.text)
        program = _program(text)
        if program is not None and program not in seen:
            seen.add(program)
            yield Mutant(kind=site.kind, line=getattr(site.place, "lineno", 1), text=text)


def _program(text: str) -> str | None:
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return None


def within(function: Function) -> list[ast.AST]:
    """Return the nodes of a function's body; not those of f-strings, whose places older Pythons get wrong."""
    documented = ast.get_docstring(function) is not None
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(function.body[documented:])
    while waiting:
        node = waiting.pop(0)
        found.append(node)
        if not isinstance(node, ast.JoinedStr):
            waiting += ast.iter_child_nodes(node)
    return found


def _changed(node: ast.expr | ast.stmt, **fields: object) -> Change:
    text = ast.unparse(_changed_node(node, **fields))
    return node, f"({text})" if isinstance(node, ast.expr) else text


def _changed_node(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def reindented(text: str, node: ast.stmt) -> str:
    return text.replace("\n", "\n" + " " * node.col_offset)


class _Before(ast.AST):
    """The empty place before a statement, its decorators included."""

    def __init__(self, line: int, column: int) -> None:
        self.lineno = self.end_lineno = line
        self.col_offset = self.end_col_offset = column


def before(node: ast.stmt, text: str) -> Change:
    line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return _Before(line, node.col_offset), f"{text}\n" + " " * node.col_offset


def _replaced(source: str, place: ast.AST, text: str) -> str:
    """Return the source with the text of one place replaced; columns count bytes."""
    lines = source.encode().splitlines(keepends=True)
    begin_line, end_line = place.lineno, place.end_lineno  # type: ignore[attr-defined]
    begin, end = place.col_offset, place.end_col_offset  # type: ignore[attr-defined]
    before = b"".join(lines[: begin_line - 1]) + lines[begin_line - 1][:begin]
    after = lines[end_line - 1][end:] + b"".join(lines[end_line:])
    return (before + text.encode() + after).decode()
