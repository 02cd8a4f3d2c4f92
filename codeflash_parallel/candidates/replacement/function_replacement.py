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
from codeflash_parallel.candidates.analysis.python_source import PythonSource, parse
from codeflash_parallel.candidates.analysis.syntax_tree import Definition, FunctionNode, first_line, flat
from codeflash_parallel.candidates.replacement.import_merge import LineEdit, merge_imports
from codeflash_parallel.candidates.replacement.scope_merge import ScopeMerge


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
        original: text of the module.
        replacement: text of a Python file that defines the new function.
        qualname: dotted name of the function in the original.

    Raises:
        SpliceError: a text does not parse, or the function is not in one of them.
    """
    old = _read(original, "The target's file")
    new = _read_replacement(replacement)
    target = find(old.tree.body, qualname)
    if target is None:
        raise SpliceError(f"There is no function {qualname} in the target's file.")
    parts = qualname.split(".")
    for outer in range(len(parts)):
        wanted = find(new.tree.body, ".".join(parts[outer:]))
        if wanted is not None:
            return _checked(original, old, _edits(old, new, (target, wanted), parts[:outer]))
    raise SpliceError(f"The replacement does not define {qualname}.")


def _edits(
    old: PythonSource, new: PythonSource, target: tuple[FunctionNode, FunctionNode], outer: Sequence[str]
) -> list[LineEdit]:
    """Return the edits; `outer` are the classes around the target that the replacement left out."""
    merge = ScopeMerge(old, new, target)
    body = list(new.tree.body)
    owner = _class_at(old.tree.body, outer)
    if owner is not None:
        top = {d.name for d in flat(old.tree.body) if isinstance(d, Definition)}
        members = [s for s in body if _is_member(s, owner, target[1], top)]
        merge.body(owner.body, members)
        body = [s for s in body if s not in members]
    merge.body(old.tree.body, body)
    outermost = next(s for s in old.tree.body if (s.end_lineno or 0) >= target[0].lineno)
    before = min([first_line(outermost), *(e.start for e in merge.edits)])
    # imports come first: what is inserted at the same line may need them
    return [*merge_imports(old, new.tree.body, before), *merge.edits]


def _class_at(body: Sequence[ast.stmt], path: Sequence[str]) -> ast.ClassDef | None:
    """Return the class of a dotted name, `None` for an empty one."""
    found: ast.ClassDef | None = None
    for name in path:
        classes = [s for s in flat(body) if isinstance(s, ast.ClassDef) and s.name == name]
        found = classes[0]
        body = found.body
    return found


def _is_member(statement: ast.stmt, owner: ast.ClassDef, wanted: FunctionNode, top: set[str]) -> bool:
    """Tell a bare top-level definition of the replacement that belongs into the target's class."""
    if statement is wanted or any(child is wanted for child in ast.walk(statement)):
        return True
    if not isinstance(statement, FunctionNode) or statement.name in top:
        return False
    arguments = [*statement.args.posonlyargs, *statement.args.args]
    takes_self = bool(arguments) and arguments[0].arg in {"self", "cls"}
    methods = {s.name for s in flat(owner.body) if isinstance(s, FunctionNode)}
    return takes_self or statement.name in methods


def _read(text: str, what: str) -> PythonSource:
    try:
        return PythonSource.read(text)
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise SpliceError(f"{what} does not parse: {error.msg}{line}.", "DOES_NOT_PARSE") from error


def _read_replacement(text: str) -> PythonSource:
    """Read a replacement; one that is indented as a whole is taken as the body of a block."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    code = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    first = next(code, "")
    if not first.startswith((" ", "\t")):
        return _read(text, "The replacement")
    block = _read(f"if True:\n{text}", "The replacement")
    statement = block.tree.body[0]
    assert isinstance(statement, ast.If)
    tree = ast.Module(body=statement.body, type_ignores=[])
    return PythonSource(lines=block.lines, tree=tree, inside=block.inside)


def _checked(original: str, old: PythonSource, edits: Sequence[LineEdit]) -> str:
    """Apply edits; what comes out must parse."""
    text = original[: original.startswith("\ufeff")] + _applied(old, edits)
    try:
        parse(text)
    except SyntaxError as error:
        reason = f"The file with the replacement in it does not parse: {error.msg} (line {error.lineno})."
        raise SpliceError(reason, "DOES_NOT_PARSE") from error
    return text


def _applied(old: PythonSource, edits: Sequence[LineEdit]) -> str:
    """Apply edits from top to bottom; insertions at one line stay in their order."""
    done: list[str] = []
    position = 0
    for edit in sorted(edits, key=lambda e: (e.start, e.stop, e.rank)):
        done.extend(old.lines[position : edit.start])
        done.extend(line + old.newline for line in edit.lines)
        position = edit.stop
    done.extend(old.lines[position:])
    closed = [line if line.endswith(("\r", "\n")) else line + old.newline for line in done[:-1]]
    last = done[-1].rstrip("\r\n")
    ended = old.lines[-1].endswith(("\r", "\n"))
    end = (done[-1][len(last) :] or old.newline) if ended else ""
    return "".join([*closed, last + end])
