"""Turn what a replacement says about one scope into edits of the original's lines."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise

from codeflash_parallel.candidates.analysis.functions import role
from codeflash_parallel.candidates.analysis.python_source import PythonSource
from codeflash_parallel.candidates.analysis.syntax_tree import (
    Definition,
    FunctionNode,
    first_line,
    flat,
    same,
    skeleton,
)
from codeflash_parallel.candidates.replacement.import_merge import InsertionRank, LineEdit
from codeflash_parallel.candidates.replacement.statements import (
    bound_names,
    converter,
    header_end,
    ignorable,
    is_stub,
    keyed,
    paired,
    places,
    shares_line,
)


class ScopeMerge:
    """Collects edits of `old` that bring in what `new` says; `target` is the pair of old and new function."""

    def __init__(
        self, old: PythonSource, new: PythonSource, target: tuple[FunctionNode, FunctionNode]
    ) -> None:
        self._old = old
        self._new = new
        self._target = target
        self.edits: list[LineEdit] = []

    def body(self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt]) -> None:
        """Merge the statements of one scope."""
        twins = self._twins(old_body, new_body)
        known = cache(lambda: frozenset(map(skeleton, old_body)))
        added: list[ast.stmt] = []
        replaced: list[tuple[int, ast.stmt]] = []
        for statement in new_body:
            twin = twins.get(id(statement))
            if self._holds_target(statement) and not isinstance(statement, ast.ClassDef):
                self._function(*self._target)
            elif twin is not None:
                self._definition(twin, statement)
                replaced.append((first_line(twin), statement))
            elif not self._needs_nothing(old_body, statement, known):
                place = self._accessor(old_body, statement) or self._statement(old_body, new_body, statement)
                if place is None:
                    added.append(statement)
                else:
                    replaced.append((place, statement))
        self._add(old_body, added, replaced)

    def _twins(self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt]) -> dict[int, ast.stmt]:
        """Return what the original has for definitions of the new scope, by the identity of these."""
        functions = keyed(flat(old_body))
        twins: dict[int, ast.stmt] = {
            id(new): functions[key] for key, new in keyed(new_body).items() if key in functions
        }
        for new in new_body:
            if isinstance(new, ast.ClassDef):
                twin = self._class_like(old_body, new_body, new)
                twins |= {id(new): twin} if twin is not None else {}
        return twins

    def _holds_target(self, statement: ast.stmt) -> bool:
        return any(node is self._target[1] for node in ast.walk(statement))

    def _is_around(self, statement: ast.stmt) -> bool:
        return first_line(statement) <= self._target[0].lineno - 1 < (statement.end_lineno or 0)

    def _class_like(
        self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt], new: ast.ClassDef
    ) -> ast.ClassDef | None:
        """Return the original's class of that name: the one around the target, or the one of its position."""
        found = [s for s in flat(old_body) if isinstance(s, ast.ClassDef) and s.name == new.name]
        if self._holds_target(new):
            return next((s for s in found if self._is_around(s)), None)
        named = [s for s in new_body if isinstance(s, ast.ClassDef) and s.name == new.name]
        return dict(zip(map(id, named), found, strict=False)).get(id(new))

    def _needs_nothing(
        self, old_body: Sequence[ast.stmt], new: ast.stmt, known: Callable[[], frozenset[str]]
    ) -> bool:
        """Tell what needs no edit of its own: placeholders, what the original has, imports of the module."""
        if ignorable(new) or skeleton(new) in known():
            return True
        return old_body is self._old.tree.body and isinstance(new, ast.Import | ast.ImportFrom)

    def _definition(self, old: ast.stmt, new: ast.stmt) -> None:
        """Merge a helper, a sibling method or a class that both have."""
        if isinstance(old, ast.ClassDef) and isinstance(new, ast.ClassDef):
            self._class(old, new)
        if not isinstance(old, FunctionNode) or not isinstance(new, FunctionNode) or same(old, new):
            return
        # a body of `...` is context that an author left out, not a new version
        if is_stub(old) or not is_stub(new):
            self._function(old, new)

    def _function(self, old: FunctionNode, new: FunctionNode) -> None:
        """Replace a function from its ``def`` on."""
        self._decorators(old, new)
        self._replace(old, new, old.lineno - 1)

    def _replace(self, old: Definition, new: Definition, start: int) -> None:
        """Replace a definition's lines from `start` on by those of the new one, its decorators apart."""
        new_end = self._new.end(new)
        # comments below the old body stay, unless the new one has comments of its own there
        stop = self._old.end(old) if new_end != new.end_lineno else old.end_lineno or 0
        lines = self._moved(new.lineno - 1, new_end, self._new.indent(new), self._old.indent(old))
        if lines != [self._old.bare(i) for i in range(start, stop)]:
            self.edits.append(LineEdit(start=start, stop=stop, lines=tuple(lines)))

    def _decorators(self, old: Definition, new: Definition) -> None:
        """Keep the original's decorators; add each new one where it stands among those that both have."""
        twins = paired(new.decorator_list, old.decorator_list)
        first = next((twin for twin in twins if twin), None)
        # without a neighbour that both have, the innermost place is right: outside there may be a descriptor
        place = first.lineno - 1 if first else old.lineno - 1
        for decorator, twin in zip(new.decorator_list, twins, strict=True):
            start, place = (twin.lineno - 1, twin.end_lineno or twin.lineno) if twin else (place, place)
            if twin is None or skeleton(twin) != skeleton(decorator):
                line = f"{self._old.indent(old)}@{ast.unparse(decorator)}"
                self.edits.append(LineEdit(start=start, stop=place, lines=(line,)))

    def _class(self, old: ast.ClassDef, new: ast.ClassDef) -> None:
        """Merge a class: its header where the replacement gives bases that differ, and its members."""
        if same(old, new) and not self._holds_target(new):
            return
        self._decorators(old, new)
        if old.body[0].lineno == old.lineno:  # a class on one line has no room for more
            self._replace(old, new, old.lineno - 1)
            return
        given = [*new.bases, *new.keywords]
        if given and [*map(skeleton, given)] != [*map(skeleton, [*old.bases, *old.keywords])]:
            header = f"{self._old.indent(old)}class {old.name}({', '.join(map(ast.unparse, given))}):"
            stop = header_end(self._old, old)
            self.edits.append(LineEdit(start=old.lineno - 1, stop=stop, lines=(header,)))
        self.body(old.body, new.body)

    def _accessor(self, old_body: Sequence[ast.stmt], new: ast.stmt) -> int | None:
        """Add a setter or deleter below the property that the original has; `None` for anything else."""
        if not isinstance(new, FunctionNode) or role(new) not in {"setter", "deleter"}:
            return None
        owners = [s for s in old_body if isinstance(s, FunctionNode) and s.name == new.name]
        if not owners:
            return None
        indent, place = self._old.indent(owners[-1]), self._old.end(owners[-1])
        self._insert(place, ["", *self._chunk(new, indent)])
        return place

    def _statement(
        self, old_body: Sequence[ast.stmt], new_body: Sequence[ast.stmt], new: ast.stmt
    ) -> int | None:
        """Bring in a statement that binds names which the original binds, too; `None` if it is new."""
        names = bound_names(new)
        owners = [s for s in old_body if bound_names(s) & names and not self._is_around(s)]
        if not owners:
            return None
        exact = [s for s in owners if bound_names(s) <= names]
        ordinal = [s for s in new_body if bound_names(s) == names].index(new)
        twin = exact[ordinal] if ordinal < len(exact) == len(owners) else None
        if twin is None or shares_line(self._old, twin):
            place, indent = self._old.end(owners[-1]), self._old.indent(owners[-1])
            gap = [""] * isinstance(new, Definition)
            self._insert(place, [*gap, *self._chunk(new, indent), *gap])
            return place
        start = first_line(twin)
        lines = self._chunk(new, self._old.indent(twin), start=first_line(new))
        self.edits.append(LineEdit(start=start, stop=self._old.end(twin), lines=tuple(lines)))
        return start

    def _add(
        self,
        old_body: Sequence[ast.stmt],
        added: Sequence[ast.stmt],
        replaced: Sequence[tuple[int, ast.stmt]],
    ) -> None:
        """Insert new statements above the target's statement, or above an earlier one that needs them."""
        around = next((s for s in old_body if self._is_around(s)), None)
        default = first_line(around) if around else self._old.end(old_body[-1])
        groups: dict[int, list[ast.stmt]] = {}
        for statement, place in zip(added, places(added, replaced, default), strict=True):
            groups.setdefault(place, []).append(statement)
        indent = self._old.indent(old_body[0])
        gap = [""] * (1 if indent else 2)
        for place, statements in groups.items():
            lines = self._joined(statements, indent)
            lead = next((self._old.lead(s) for s in old_body if first_line(s) == place), place)
            self._insert(lead, [*lines, *gap] if around or place < default else [*gap, *lines])

    def _insert(self, place: int, lines: Sequence[str]) -> None:
        self.edits.append(LineEdit(start=place, stop=place, lines=tuple(lines), rank=InsertionRank.STATEMENT))

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
        if shares_line(self._new, new):
            return [indent + line for line in ast.unparse(new).split("\n")]
        first = self._new.lead(new) if start is None else start
        return self._moved(first, self._new.end(new), self._new.indent(new), indent)

    def _moved(self, start: int, stop: int, base: str, indent: str) -> list[str]:
        """Return lines of the replacement at another indentation; the inside of strings stays as it is."""
        convert = converter(self._new.unit(), self._old.unit())
        lines = [self._new.bare(index) for index in range(start, stop)]
        return [
            indent + convert(line[len(base) :])
            if index not in self._new.inside and line.strip() and line.startswith(base)
            else line
            for index, line in enumerate(lines, start)
        ]
