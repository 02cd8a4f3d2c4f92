"""Write functions otherwise so that they do the same: honest candidates, any number of them, of any module.

Each rewrite is a whole function with one place of it written in another way, by a rule that keeps the order in
which things are evaluated, what is evaluated, and what comes out. Whoever rejects one rejects honest work.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

from mutations import Change, Function, Site, before, named, sites_of, within

#: What a piece of syntax is written as instead; nothing where the rule does not apply.
Rule = Callable[[ast.AST], "ast.AST | list[ast.stmt] | None"]
#: What the rules call; who has something of his own by such a name is left alone.
_CALLED = frozenset({"iter", "next", "StopIteration", "list", "isinstance", "format", "repr", "str", "ascii"})
#: Functions that look at their own frame or at the class around them notice more than what they compute.
_LOOKS_AT_ITSELF = frozenset({"locals", "vars", "eval", "exec", "dir", "super", "__class__", "_getframe"})


def _flipped_if(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.If) and node.orelse:
        return ast.If(test=_not(node.test), body=node.orelse, orelse=node.body)
    return None


def _flipped_choice(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.IfExp):
        return ast.IfExp(test=_not(node.test), body=node.orelse, orelse=node.body)
    return None


def _else_dropped(node: ast.AST) -> list[ast.stmt] | None:
    if isinstance(node, ast.If) and node.orelse and isinstance(node.body[-1], ast.Return | ast.Raise):
        return [ast.If(test=node.test, body=node.body, orelse=[]), *node.orelse]
    return None


def _by_de_morgan(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.If) and isinstance(node.test, ast.BoolOp):
        other = ast.Or() if isinstance(node.test.op, ast.And) else ast.And()
        test = _not(ast.BoolOp(op=other, values=[_not(value) for value in node.test.values]))
        return ast.If(test=test, body=node.body, orelse=node.orelse)
    return None


def _named_result(node: ast.AST) -> list[ast.stmt] | None:
    if isinstance(node, ast.Return) and node.value is not None:
        return [_assigned("_result_here", node.value), ast.Return(value=_read("_result_here"))]
    return None


def _for_as_while(node: ast.AST) -> list[ast.stmt] | None:
    if not isinstance(node, ast.For) or node.orelse:
        return None
    name = f"_iterator_{node.lineno}_{node.col_offset}"
    step = ast.Assign(targets=[node.target], value=_called("next", _read(name)))
    ended = ast.ExceptHandler(type=_read("StopIteration"), name=None, body=[ast.Break()])
    following = ast.Try(body=[step], handlers=[ended], orelse=[], finalbody=[])
    loop = ast.While(test=ast.Constant(value=True), body=[following, *node.body], orelse=[])
    return [_assigned(name, _called("iter", node.iter)), loop]


def _while_with_break(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.While) and not node.orelse and not isinstance(node.test, ast.Constant):
        leave = ast.If(test=_not(node.test), body=[ast.Break()], orelse=[])
        return ast.While(test=ast.Constant(value=True), body=[leave, *node.body], orelse=[])
    return None


def _list_of_generator(node: ast.AST) -> ast.AST | None:
    # A generator turns a StopIteration from inside into another error.
    if isinstance(node, ast.ListComp) and not _mentions(node, frozenset({"next", "__next__"})):
        if any(generator.is_async for generator in node.generators) or _holds(
            node, ast.Await | ast.NamedExpr
        ):
            return None
        return _called("list", ast.GeneratorExp(elt=node.elt, generators=node.generators))
    return None


def _negated_membership(node: ast.AST) -> ast.AST | None:
    opposite = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in opposite:
        return _not(
            ast.Compare(left=node.left, ops=[opposite[type(node.ops[0])]()], comparators=node.comparators)
        )
    return None


def _chain_taken_apart(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or len(node.ops) != 2:
        return None
    middle, last = node.comparators
    if not isinstance(middle, ast.Name | ast.Constant):
        return None
    first = ast.Compare(left=node.left, ops=[node.ops[0]], comparators=[middle])
    second = ast.Compare(left=copy.deepcopy(middle), ops=[node.ops[1]], comparators=[last])
    return ast.BoolOp(op=ast.And(), values=[first, second])


def _isinstance_of_each(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.Call(
            func=ast.Name("isinstance"), args=[ast.Name() as value, ast.Tuple([_, _, *_] as kinds)]
        ):
            return ast.BoolOp(op=ast.Or(), values=[_called("isinstance", value, kind) for kind in kinds])
    return None


def _joined(node: ast.AST) -> ast.AST | None:
    if not isinstance(node, ast.JoinedStr):
        return None
    pieces = [piece if isinstance(piece, ast.Constant) else _formatted(piece) for piece in node.values]
    join = ast.Attribute(value=ast.Constant(value=""), attr="join", ctx=ast.Load())
    return ast.Call(func=join, args=[ast.List(elts=pieces, ctx=ast.Load())], keywords=[])


def _formatted(piece: ast.expr) -> ast.expr:
    assert isinstance(piece, ast.FormattedValue)
    converted = {ord("r"): "repr", ord("s"): "str", ord("a"): "ascii"}.get(piece.conversion)
    value = _called(converted, piece.value) if converted else piece.value
    return _called("format", value, *([piece.format_spec] if piece.format_spec else []))


def _guarded(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and not _holds(
        node, ast.Yield | ast.YieldFrom
    ):
        return ast.Try(body=[node], handlers=[], orelse=[], finalbody=[ast.Pass()])
    return None


def _unused_local(node: ast.AST) -> list[ast.stmt] | None:
    if isinstance(node, ast.Return | ast.For | ast.If | ast.Assign):
        return [_assigned("_unused_here", ast.Constant(value=0)), node]
    return None


#: One place of a function written otherwise, by kind.
PLACES: dict[str, Rule] = {
    "flipped_if": _flipped_if,
    "flipped_choice": _flipped_choice,
    "else_dropped": _else_dropped,
    "by_de_morgan": _by_de_morgan,
    "named_result": _named_result,
    "for_as_while": _for_as_while,
    "while_with_break": _while_with_break,
    "list_of_generator": _list_of_generator,
    "negated_membership": _negated_membership,
    "chain_taken_apart": _chain_taken_apart,
    "isinstance_of_each": _isinstance_of_each,
    "joined": _joined,
    "guarded": _guarded,
    "unused_local": _unused_local,
}


def _places(rule: Rule) -> Callable[[ast.AST], Iterator[Change]]:
    def changes(node: ast.AST) -> Iterator[Change]:
        if not isinstance(node, Function) or not _can_be_written_anew(node):
            return
        count = 0
        while (rewriting := _Rewriting(rule, count)).applied(node) is not None:
            yield node, _text(rewriting.function, node)
            count += 1

    return changes


class _Rewriting(ast.NodeTransformer):
    """Applies a rule to the n-th place of a function's body at which it can be applied."""

    def __init__(self, rule: Rule, number: int) -> None:
        self._rule, self._left = rule, number

    def applied(self, function: Function) -> Function | None:
        self.function = copy.deepcopy(function)
        documented = ast.get_docstring(function) is not None
        body = self.function.body
        found = [self.visit(statement) for statement in body[documented:]]
        self.function.body = [*body[:documented], *_flat(found)]
        return self.function if self._left < 0 else None

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        if self._left < 0 or isinstance(node, ast.FormattedValue | ast.ClassDef):
            return node
        changed = self._rule(node)
        self._left -= changed is not None
        return changed if changed is not None and self._left < 0 else self.generic_visit(node)


def _body_in_a_helper(node: ast.AST) -> Iterator[Change]:
    """A function inside of the function has its body, and is called with what it was called with."""
    if not isinstance(node, ast.FunctionDef) or not _can_be_written_anew(node):
        return
    if any(isinstance(inner, ast.Yield | ast.YieldFrom | ast.Nonlocal) for inner in within(node)):
        return
    documented = ast.get_docstring(node) is not None
    names = sorted(_given(node))
    changed = copy.deepcopy(node)
    inner = ast.parse(f"def _body_here({', '.join(names)}): pass").body[0]
    assert isinstance(inner, ast.FunctionDef)
    inner.body = changed.body[documented:]
    call = ast.Return(value=_called("_body_here", *map(_read, names)))
    changed.body = [*changed.body[:documented], inner, call]
    yield node, _text(changed, node)


def _renamed_local(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, Function) or not _can_be_written_anew(node):
        return
    if any(isinstance(inner, Function | ast.Lambda | ast.ClassDef) for inner in within(node)):
        return
    for name in sorted(_stored(node) - _otherwise_bound(node) - _given(node)):
        yield node, _text(_Renaming(name, f"{name}_here").visit(copy.deepcopy(node)), node)


def _given(function: Function) -> set[str]:
    every = function.args
    rest = [argument for argument in (every.vararg, every.kwarg) if argument is not None]
    return {argument.arg for argument in [*every.posonlyargs, *every.args, *every.kwonlyargs, *rest]}


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _otherwise_bound(function: Function) -> set[str]:
    """Return names that are more than names: of outer scopes, of comprehensions, and those that are no nodes."""
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Global(names) | ast.Nonlocal(names):
                found |= set(names)
            case ast.comprehension():
                found |= _stored(node.target)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case ast.alias():
                found.add(node.asname or node.name.partition(".")[0])
    return found


class _Renaming(ast.NodeTransformer):
    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new if node.id == self._old else node.id, node.ctx)


def _something_before(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Return | ast.For | ast.Assign):
        yield before(node, "pass")


#: Changes inside of functions that keep what they do, by kind.
NEUTRAL: dict[str, Callable[[ast.AST], Iterator[Change]]] = {
    **{kind: _places(rule) for kind, rule in PLACES.items()},
    "body_in_a_helper": _body_in_a_helper,
    "renamed_local": _renamed_local,
    "something_before": _something_before,
}


def neutral_sites(source: str, functions: Sequence[str] = ()) -> list[Site]:
    """Return the changes after which functions are written otherwise and do the same.

    Args:
        source: text of the module.
        functions: qualified names; none: all of the module's.
    """
    tree = ast.parse(source)
    if _bound_by(tree.body) & _CALLED:
        return []
    nodes = [node for function in named(tree, functions) for node in [function, *within(function)]]
    return [site for kind, changes in NEUTRAL.items() for site in sites_of(kind, changes, nodes)]


def _bound_by(statements: Sequence[ast.stmt]) -> set[str]:
    defined = {s.name for s in statements if isinstance(s, Function | ast.ClassDef)}
    imported = {
        a.asname or a.name for s in statements if isinstance(s, ast.Import | ast.ImportFrom) for a in s.names
    }
    return defined | imported | {name for s in statements if isinstance(s, ast.Assign) for name in _stored(s)}


def _can_be_written_anew(function: Function) -> bool:
    # Text is indented by lines: what spans lines inside of an f-string would become another text.
    spans = any(
        isinstance(node, ast.JoinedStr)
        and any("\n" in str(v.value) for v in node.values if isinstance(v, ast.Constant))
        for node in ast.walk(function)
    )
    if function.col_offset % _INDENT:
        return False
    shadowed = (_given(function) | _stored(function)) & _CALLED
    return not spans and not shadowed and not _mentions(function, _LOOKS_AT_ITSELF)


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    walked = list(ast.walk(node))
    return any(isinstance(n, ast.Name) and n.id in names for n in walked) or any(
        isinstance(n, ast.Attribute) and n.attr in names for n in walked
    )


def _holds(node: ast.AST, kind: object) -> bool:
    return any(isinstance(inner, kind) for inner in ast.walk(node))  # type: ignore[arg-type]


def _text(changed: Function, original: Function) -> str:
    # A function's place in the text begins at `def`, below its decorators.
    changed.decorator_list = []
    return _unparsed_within(changed, original.col_offset // _INDENT)


def _unparsed_within(node: ast.stmt, depth: int) -> str:
    """Return the text of a statement that stands so deep: lines of a docstring stay as they are."""
    for _ in range(depth):
        node = ast.If(test=ast.Constant(value=True), body=[node], orelse=[])
    lines = ast.unparse(ast.fix_missing_locations(node)).split("\n")[depth:]
    return "\n".join(lines).lstrip(" ")


#: What `ast.unparse` indents by.
_INDENT = 4


def _flat(found: Sequence[ast.AST | list[ast.stmt]]) -> Iterator[ast.stmt]:
    for one in found:
        yield from one if isinstance(one, list) else [one]  # type: ignore[list-item]


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(op=ast.Not(), operand=test)


def _read(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _called(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=_read(name), args=list(arguments), keywords=[])


def _assigned(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value)
