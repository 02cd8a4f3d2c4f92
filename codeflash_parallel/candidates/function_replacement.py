"""Put the new version of one function into the text of its module.

Theory of operation: both texts are parsed, and everything the replacement says is turned into edits of whole
lines of the original, which are applied at the end. The target is replaced; functions and classes that both
have are merged in place where they differ; what only the replacement has is inserted above the statement
that needs it. Nothing else of the original is touched, byte for byte.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise

from codeflash_parallel.candidates.functions import find, role
from codeflash_parallel.candidates.python_source import (
    Definition,
    FunctionNode,
    dotted,
    first_line,
    flat,
    is_docstring,
    is_type_checking,
    same,
    skeleton,
    statements_of,
)
from codeflash_parallel.candidates.source_text import LineEdit, SourceLines, bound_by_import, merge_imports


class SpliceError(Exception):
    """A replacement that cannot be spliced in.

    Attributes:
        reason: one sentence that names what was not found or is wrong.
        code: `DOES_NOT_PARSE` or `DOES_NOT_APPLY`.
    """

    def __init__(self, reason: str, code: str = "DOES_NOT_APPLY") -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code


def splice(original: str, replacement: str, qualname: str) -> str:
    """Return the original with one function, and what its new version needs, taken from a replacement.

    Decorators of the original are kept and those that the replacement adds are added; imports are merged;
    helpers are added above the target's outermost statement or, where they exist and differ, replaced in
    place; a method may come inside its class, inside its innermost classes only, or bare.

    Args:
        original: text of the module, with line feeds and without a byte order mark.
        replacement: text of a Python file that defines the new function.
        qualname: dotted name of the function in the original.

    Raises:
        SpliceError: a text does not parse, or the function is not in one of them.
    """
    added_end = "" if original.endswith("\n") else "\n"
    old = _read(original + added_end, "The target's file")
    new = _read_replacement(replacement)
    target = find(old.tree.body, qualname)
    if target is None:
        raise SpliceError(f"There is no function {qualname} in the target's file.")
    parts = qualname.split(".")
    for outer in range(len(parts)):
        wanted = find(new.tree.body, ".".join(parts[outer:]))
        if wanted is not None:
            merge = ScopeMerge(old, new, (target, wanted))
            return _applied(old, _edits(old, new, merge, outer)).removesuffix(added_end)
    raise SpliceError(f"The replacement does not define {qualname}.")


def _edits(old: SourceLines, new: SourceLines, merge: ScopeMerge, outer: int) -> list[LineEdit]:
    """Return the edits; `outer` is the number of classes around the target that the replacement left out."""
    body = new.tree.body
    if outer:
        # outer classes come before inner ones
        classes = [n for n in ast.walk(old.tree) if isinstance(n, ast.ClassDef) and merge.is_around(n)]
        owner = classes[outer - 1]
        top = {d.name for d in flat(old.tree.body) if isinstance(d, Definition)}
        members = [s for s in body if merge.holds_target(s) or _is_member(s, owner, top)]
        merge.body(owner.body, members)
        body = [s for s in body if s not in members]
    merge.body(old.tree.body, body)
    edits = [*merge.inserted, *merge.changed]
    outermost = next(s for s in old.tree.body if merge.is_around(s))
    before = min([first_line(outermost), *(e.start for e in edits)])
    # imports come first: what is inserted at the same line may need them
    return [*merge_imports(old, new.tree.body, before), *edits]


def _is_member(statement: ast.stmt, owner: ast.ClassDef, top: set[str]) -> bool:
    """Tell a bare top-level function of the replacement that belongs into the target's class."""
    if not isinstance(statement, FunctionNode) or statement.name in top:
        return False
    arguments = [*statement.args.posonlyargs, *statement.args.args]
    methods = {s.name for s in flat(owner.body) if isinstance(s, FunctionNode)}
    return statement.name in methods or any(a.arg in {"self", "cls"} for a in arguments[:1])


def _read(text: str, what: str) -> SourceLines:
    try:
        return SourceLines.read(text)
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise SpliceError(f"{what} does not parse: {error.msg}{line}.", "DOES_NOT_PARSE") from error


def _read_replacement(text: str) -> SourceLines:
    """Read a replacement; one that is indented as a whole is taken as the body of a block."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    code = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    if not next(code, "").startswith((" ", "\t")):
        return _read(text, "The replacement")
    block = _read(f"if True:\n{text}", "The replacement")
    statement = block.tree.body[0]
    assert isinstance(statement, ast.If)
    return block._replace(tree=ast.Module(body=statement.body, type_ignores=[]))


def _applied(old: SourceLines, edits: Sequence[LineEdit]) -> str:
    """Apply edits from bottom to top; insertions at one line stay in their order."""
    lines = list(old.lines)
    ordered = sorted(edits, key=lambda e: (e.start, e.stop))
    for edit in reversed(ordered):
        lines[edit.start : edit.stop] = [line + "\n" for line in edit.lines]
    return "".join(lines)


#: The colon at the end of a class's header.
_HEADER_END = re.compile(r":\s*(#|$)")
_WORD = re.compile(r"\w+")


class ScopeMerge:
    """Collects edits of `old` that bring in what `new` says; `target` is the pair of old and new function.

    Attributes:
        inserted: new statements, which go above what changes at the same line.
        changed: definitions and statements, or parts of them, that are replaced or added to.
    """

    def __init__(self, old: SourceLines, new: SourceLines, target: tuple[FunctionNode, FunctionNode]) -> None:
        self._old = old
        self._new = new
        self._target = target
        self.inserted: list[LineEdit] = []
        self.changed: list[LineEdit] = []

    def body(self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt]) -> None:
        """Merge the statements of one scope."""
        twins = self._twins(old_body, new_body)
        added: list[ast.stmt] = []
        for statement in new_body:
            twin = twins.get(statement)
            if self.holds_target(statement) and not isinstance(statement, ast.ClassDef):
                self._function(*self._target)
            elif twin is not None:
                self._definition(twin, statement)
            elif not (
                self._needs_nothing(old_body, statement) or self._rebound(old_body, new_body, statement)
            ):
                added.append(statement)
        if added:
            self._add(old_body, added)

    def holds_target(self, statement: ast.stmt) -> bool:
        """Tell whether a statement of the replacement is, or contains, the new function."""
        return any(node is self._target[1] for node in ast.walk(statement))

    def is_around(self, statement: ast.stmt) -> bool:
        """Tell whether a statement of the original is, or contains, the old function."""
        return first_line(statement) <= self._target[0].lineno - 1 < (statement.end_lineno or 0)

    def _twins(
        self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt]
    ) -> dict[ast.stmt, Definition]:
        """Return what the original has for definitions of the new scope."""
        known = _keyed(flat(old_body))
        twins: dict[ast.stmt, Definition] = {
            new: known[key] for key, new in _keyed(new_body).items() if key in known
        }
        around = [s for s in flat(old_body) if isinstance(s, ast.ClassDef) and self.is_around(s)]
        holders = [s for s in new_body if isinstance(s, ast.ClassDef) and self.holds_target(s)]
        return twins | dict(zip(holders, around, strict=False))

    def _needs_nothing(self, old_body: Sequence[ast.stmt], new: ast.stmt) -> bool:
        """Tell what needs no edit of its own: placeholders, what the original has, imports of the module."""
        if _ignorable(new) or any(same(new, old) for old in old_body if type(old) is type(new)):
            return True
        return old_body is self._old.tree.body and isinstance(new, ast.Import | ast.ImportFrom)

    def _definition(self, old: Definition, new: ast.stmt) -> None:
        """Merge a helper, a sibling method or a class that both have."""
        if same(old, new) and not self.holds_target(new):
            return
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
            self._class(old, new)
        elif isinstance(old, FunctionNode) and isinstance(new, FunctionNode):
            # a body of `...` is context that an author left out, not a new version
            if _is_stub(new) and not _is_stub(old):
                return
            self._function(old, new)

    def _function(self, old: FunctionNode, new: FunctionNode) -> None:
        """Replace a function from its ``def`` on."""
        self._decorators(old, new)
        self._replace(old, new)

    def _replace(self, old: Definition, new: Definition) -> None:
        """Replace a definition's lines by those of the new one, its decorators apart."""
        start, new_end = old.lineno - 1, self._new.end(new)
        # comments below the old body stay, unless the new one has comments of its own there
        stop = self._old.end(old) if new_end != new.end_lineno else old.end_lineno or 0
        lines = self._moved(new.lineno - 1, new_end, self._new.indent(new), self._old.indent(old))
        if lines != [self._old.bare(i) for i in range(start, stop)]:
            self._change(start, stop, lines)

    def _decorators(self, old: Definition, new: Definition) -> None:
        """Keep the original's decorators; add each new one where it stands among those that both have."""
        twins = _paired(new.decorator_list, old.decorator_list)
        first = next((twin for twin in twins if twin), None)
        # without a neighbour that both have, the innermost place is right: outside there may be a descriptor
        place = first.lineno - 1 if first else old.lineno - 1
        for decorator, twin in zip(new.decorator_list, twins, strict=True):
            start, place = (twin.lineno - 1, twin.end_lineno or twin.lineno) if twin else (place, place)
            if twin is None or not same(twin, decorator):
                self._change(start, place, [f"{self._old.indent(old)}@{ast.unparse(decorator)}"])

    def _class(self, old: ast.ClassDef, new: ast.ClassDef) -> None:
        """Merge a class: its header where the replacement gives bases that differ, and its members."""
        self._decorators(old, new)
        if old.body[0].lineno == old.lineno:  # a class on one line has no room for more
            self._replace(old, new)
            return
        given: list[ast.expr | ast.keyword] = [*new.bases, *new.keywords]
        had: list[ast.expr | ast.keyword] = [*old.bases, *old.keywords]
        if given and [*map(skeleton, given)] != [*map(skeleton, had)]:
            header = copy(new)
            header.body, header.decorator_list = [], []
            last = max([old.lineno, *(node.end_lineno or 0 for node in had)])
            ends = (i for i in range(last, old.body[0].lineno) if _HEADER_END.search(self._old.bare(i - 1)))
            stop = next(ends, last)
            self._change(old.lineno - 1, stop, [self._old.indent(old) + ast.unparse(header).strip()])
        self.body(old.body, new.body)

    def _rebound(self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt], new: ast.stmt) -> bool:
        """Bring in a statement that binds names which the original binds, too; tell whether it is one.

        A setter or deleter that the original lacks goes below what the original has of the property.
        """
        names = _bound_names(new)
        is_accessor = isinstance(new, FunctionNode) and role(new) in {"setter", "deleter"}
        owners = [s for s in old_body if _bound_names(s) & names and (is_accessor or not self.is_around(s))]
        if not owners:
            return False
        exact = [s for s in owners if _bound_names(s) <= names]
        ordinal = [s for s in new_body if _bound_names(s) == names].index(new)
        twin = exact[ordinal] if ordinal < len(exact) == len(owners) else None
        if is_accessor or twin is None or self._old.shares_line(twin):
            indent = self._old.indent(owners[-1])
            gap = [""] * isinstance(new, Definition)
            self._insert(self._old.end(owners[-1]), [*gap, *self._chunk(new, indent)])
        else:
            lines = self._chunk(new, self._old.indent(twin), start=first_line(new))
            self._change(first_line(twin), self._old.end(twin), lines)
        return True

    def _add(self, old_body: Sequence[ast.stmt], added: Sequence[ast.stmt]) -> None:
        """Insert new statements above the target's, or above an earlier one that is changed to need them."""
        names = {name for statement in added for name in _bound_names(statement)}
        edits = (*self.changed, *self.inserted)
        places = [edit.start for edit in edits if names.intersection(_WORD.findall(" ".join(edit.lines)))]

        def needs_them(statement: ast.stmt) -> bool:
            # A function looks names up when it is called.
            lines = range(first_line(statement), (statement.end_lineno or 0) + 1)
            return not isinstance(statement, FunctionNode) and any(place in lines for place in places)

        indent = self._old.indent(old_body[0])
        gap = [""] * (1 if indent else 2)
        lines = self._joined(added, indent)
        user = next((s for s in old_body if self.is_around(s) or needs_them(s)), None)
        if user is None:
            self._insert(self._old.end(old_body[-1]), [*gap, *lines])
        else:
            self._insert(self._old.lead(user), [*lines, *gap])

    def _insert(self, place: int, lines: Sequence[str]) -> None:
        self.inserted.append(LineEdit(start=place, stop=place, lines=tuple(lines)))

    def _change(self, start: int, stop: int, lines: Sequence[str]) -> None:
        self.changed.append(LineEdit(start=start, stop=stop, lines=tuple(lines)))

    def _joined(self, statements: Sequence[ast.stmt], indent: str) -> list[str]:
        """Return the lines of new statements with the blank lines that their author put between them."""
        lines = self._chunk(statements[0], indent)
        for previous, statement in pairwise(statements):
            between = range(self._new.end(previous), self._new.lead(statement))
            adjacent = not any(self._new.lines[i].strip() for i in between)
            blanks = min(len(between), 2) if adjacent else (1 if indent else 2)
            lines += [""] * blanks + self._chunk(statement, indent)
        return lines

    def _chunk(self, new: ast.stmt, indent: str, *, start: int | None = None) -> list[str]:
        """Return a statement of the replacement, comments above it included, for the original."""
        if self._new.shares_line(new):
            return [indent + line for line in ast.unparse(new).split("\n")]
        first = self._new.lead(new) if start is None else start
        return self._moved(first, self._new.end(new), self._new.indent(new), indent)

    def _moved(self, start: int, stop: int, base: str, indent: str) -> list[str]:
        """Return lines of the replacement at another indentation; the inside of strings stays as it is."""
        units = (self._new.unit(), self._old.unit())
        lines = []
        for index in range(start, stop):
            line = self._new.bare(index)
            if index not in self._new.inside and line.strip() and line.startswith(base):
                code = line[len(base) :].lstrip(" \t")
                white = line[len(base) : len(line) - len(code)]
                # tabs become spaces, or spaces tabs, where the original has the other kind
                line = indent + (white.replace(*units) if "\t" in "".join(units) else white) + code
            lines.append(line)
        return lines


def _bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value, loop variables and changes in place apart."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import() | ast.ImportFrom():
            return bound_by_import(statement)
    # `TypeAlias` is there from Python 3.12 on
    if isinstance(statement, ast.Assign | ast.AnnAssign) or type(statement).__name__ == "TypeAlias":
        names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        return {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return {name for inner in statements_of(statement) for name in _bound_names(inner)}


def _keyed(statements: Iterable[ast.stmt]) -> dict[tuple[str, str, int], Definition]:
    """Return definitions by name, role and ordinal: overloads, setters and redefinitions are told apart."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str, int], Definition] = {}
    for node in statements:
        if isinstance(node, Definition):
            key = (node.name, "class" if isinstance(node, ast.ClassDef) else role(node))
            found[*key, seen[key]] = node
            seen[key] += 1
    return found


def _paired(new: Sequence[ast.expr], old: Sequence[ast.expr]) -> list[ast.expr | None]:
    """Return for each new decorator the old one it stands for: an equal one, else one of the same name."""
    free = list(old)
    found: dict[ast.expr, ast.expr] = {}
    for key in (skeleton, _last_name):
        for decorator in new:
            twin = next((o for o in free if decorator not in found and key(o) == key(decorator)), None)
            if twin is not None:
                found[decorator] = twin
                free.remove(twin)
    return [found.get(decorator) for decorator in new]


def _last_name(decorator: ast.expr) -> str:
    """Return ``cache`` for both ``@cache`` and ``@functools.cache()``."""
    return dotted(decorator).rpartition(".")[2] or skeleton(decorator)


def _all_names(statement: ast.AST) -> set[str]:
    """Return every name that occurs anywhere in a statement."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _ignorable(statement: ast.stmt) -> bool:
    """Tell what is not spliced: docstrings, placeholders, blocks for type checkers, the main block."""
    if isinstance(statement, ast.If):
        return is_type_checking(statement) or "__name__" in _all_names(statement.test)
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def _is_stub(function: FunctionNode) -> bool:
    """Tell a function whose body is only ``...``: context that an author left out."""
    body = function.body[1:] if is_docstring(function.body[0]) else function.body
    values = [s.value for s in body if isinstance(s, ast.Expr)]
    dots = [v for v in values if isinstance(v, ast.Constant) and v.value is ...]
    return len(dots) == len(body) > 0
