"""Put the new version of one function into the text of its module.

Theory of operation: both texts are parsed, and everything the replacement says is turned into edits of whole
lines of the original, which are applied at the end. The target is replaced; functions and classes that both
have are merged in place where they differ; what only the replacement has is inserted above the statement
that needs it. Nothing else of the original is touched, byte for byte.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from codeflash_parallel.candidates.analysis.functions import find
from codeflash_parallel.candidates.analysis.syntax_tree import Definition, FunctionNode, first_line, flat
from codeflash_parallel.candidates.replacement.import_merge import merge_imports
from codeflash_parallel.candidates.replacement.scope_merge import ScopeMerge
from codeflash_parallel.candidates.replacement.source_lines import LineEdit, SourceLines


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
