"""Python source as syntax trees: parsing whole files and pieces, and equality of trees. Pure."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeGuard

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

#: What may begin with a docstring; nodes that are one word; fields that mean nothing when a program runs.
_WITH_PROSE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
_WORD_KINDS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
_WORDS: dict[type, str] = {word: word.__name__ for kind in _WORD_KINDS for word in kind.__subclasses__()}
_NO_CODE = frozenset({"type_comment", "type_ignores"})
#: How nodes of a type begin, and those of their fields that matter when they run, the last one first.
_SHAPES: dict[type, tuple[str, tuple[str, ...]]] = {
    kind: (f"{kind.__name__}(", tuple(name for name in reversed(kind._fields) if name not in _NO_CODE))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def first_line(node: ast.stmt) -> int:
    """Return the index of a statement's first line, decorators included."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(d.lineno for d in decorators)]) - 1


def flat(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one scope, those inside its if, try, with, loop and match blocks included.

    Blocks for type checkers only are left out: nothing in them ever runs.
    """
    for statement in body:
        yield statement
        if isinstance(statement, Definition):
            continue
        if is_type_checking(statement):
            yield from flat(statement.orelse)
        else:
            yield from flat(statements_of(statement))


def statements_of(node: ast.AST) -> list[ast.stmt]:
    """Return the statements directly inside a block statement."""
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found.extend(child.body)
    return found


def is_type_checking(statement: ast.stmt) -> TypeGuard[ast.If]:
    """Tell ``if TYPE_CHECKING:`` (also ``typing.TYPE_CHECKING``)."""
    return isinstance(statement, ast.If) and dotted(statement.test).rpartition(".")[2] == "TYPE_CHECKING"


def dotted(node: ast.expr) -> str:
    """Return ``a.b`` for a name or attribute or a call of one, else an empty text."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case ast.Call(func=function):
            return dotted(function)
    return ""


def is_docstring(statement: ast.stmt) -> bool:
    """Tell a statement that is only a string."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def is_prose(statement: ast.stmt) -> bool:
    """Tell a docstring that no doctest stands in: nothing runs because of it."""
    return is_docstring(statement) and ">>>" not in ast.dump(statement)


def without_prose(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return a body without its docstring (a doctest in one is code, though)."""
    return body[1:] if body and is_prose(body[0]) else body


def same(one: ast.AST, other: ast.AST) -> bool:
    """Tell whether two trees mean the same: positions, formatting, comments and docstrings apart."""
    return skeleton(one) == skeleton(other)


def skeleton(root: ast.AST, hollow: Collection[ast.AST] = ()) -> str:
    """Return a text that is equal for equal trees; iterative, since long expressions nest thousands deep.

    Args:
        root: of the tree.
        hollow: nodes in it whose bodies do not count.
    """
    parts: list[str] = []
    pending: list[Any] = [root]
    while pending:
        item = pending.pop()
        kind = type(item)
        # The most frequent kinds first: this is half of what the evaluator does for many a candidate.
        if kind is str:
            parts.append(item)
        elif kind is ast.Name:
            parts.append(f"Name {item.id!r} {_WORDS[type(item.ctx)]}")
        elif kind is ast.Constant:
            parts.append(_constant(item.value))
        elif kind is list:
            pending += ("]", *reversed(item), "[")
        elif kind in _WORDS:
            parts.append(_WORDS[kind])
        elif kind in _SHAPES:
            head, fields = _SHAPES[kind]
            parts.append(head)
            pending += (")", *[_field(item, name, hollow) for name in fields])
        else:
            parts.append(_constant(item))
    return " ".join(parts)


def _field(node: ast.AST, name: str, hollow: Collection[ast.AST]) -> object:
    """Return a field of a node, a body without its docstring (a doctest in one is code, though)."""
    value: Any = getattr(node, name, None)
    if type(value) is str:
        return repr(value)
    if name != "body" or not isinstance(node, _WITH_PROSE):
        return value
    return [] if node in hollow else without_prose(value)


def _constant(value: object) -> str:
    """Return type and value; integers in hexadecimal, since very long ones have no decimal text."""
    if type(value) is int:
        return f"int {value:x}"
    return f"{type(value).__name__} {value!r}"


#: What Python's own tokenizer takes for the end of a line (`str.splitlines` knows many more).
_ENDS = r"\r\n|\r|\n"
#: Parsed texts that are kept: all candidates of a run are made of the same few files.
_KEPT = 8
#: Where it is imported, the parser reads what follows in another way.
_OTHER_LANGUAGE = "barry_as_FLUFL"


def parse(text: str) -> ast.Module:
    """Parse Python source; whatever is wrong with it, it is a `SyntaxError`.

    A byte order mark is ignored, and warnings about the source (invalid escapes) are not shown. The tree
    is shared with whoever else asks: it is not to be changed.
    """
    return parse_piece(text.removeprefix("\ufeff"))


@lru_cache(maxsize=_KEPT)
def parse_piece(text: str) -> ast.Module:
    """Parse as `parse` does what has no byte order mark: a piece of a text, or one without its mark."""
    return parse_anew(text)


def parse_anew(source: str | bytes) -> ast.Module:
    """Parse without looking at what was parsed before; a file's bytes may name their encoding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (ValueError, RecursionError, MemoryError) as error:
            # NUL bytes, lone surrogates and absurd nesting are not reported as syntax errors by every version
            raise SyntaxError(f"cannot be parsed: {error or type(error).__name__}") from error


def decoded(data: bytes) -> str | None:
    """Return the text of a file in UTF-8 that names no encoding; `None` for any other."""
    if b"coding" in b"".join(data.split(b"\n", 2)[:2]):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def pieces(text: str, known: str = "") -> tuple[str, ...]:
    """Cut a text into pieces of whole outermost statements, each of which means alone what it means there.

    Pieces that a known text has, too, at its beginning and its end, are not parsed again.

    Raises:
        SyntaxError: the text is not Python.
    """
    text, known = text.removeprefix("\ufeff"), known.removeprefix("\ufeff")
    try:
        head, tail = same_around(known, text)
        between = text[head : len(text) - tail]
        parse_piece(between)
    except SyntaxError:
        return _whole(text)
    cut, parts = cuts(known), _whole(known)
    first, last = cut.index(head), cut.index(len(known) - tail)
    return (*parts[:first], between, *parts[last:])


@lru_cache(maxsize=_KEPT)
def _whole(text: str) -> tuple[str, ...]:
    return tuple(text[start:end] for start, end in pairwise(cuts(text)))


@lru_cache(maxsize=_KEPT)
def cuts(text: str) -> tuple[int, ...]:
    """Return the offsets at which a text (without a mark) can be cut into pieces, both ends included.

    Between two outermost statements that share no line the parser remembers nothing, unless a backslash
    joins the second one's first line to the line before, or the language itself has been changed.

    Raises:
        SyntaxError: it is not Python.
    """
    body = parse_piece(text).body
    if _OTHER_LANGUAGE in text:
        return (0, len(text))
    lines = [0, *(match.end() for match in re.finditer(_ENDS, text)), len(text)]
    spans = [(first_line(node), node.end_lineno or node.lineno) for node in body]
    own = (lines[after[0]] for before, after in pairwise(spans) if before[1] <= after[0])
    return (0, *(cut for cut in own if _is_fresh(text, cut)), len(text))


def same_around(known: str, text: str) -> tuple[int, int]:
    """Return how many characters two texts share at the beginning and at the end, whole pieces only.

    Raises:
        SyntaxError: the known text is not Python.
    """
    cut = cuts(known)
    if _OTHER_LANGUAGE in text:
        return 0, 0
    heads = [offset for offset in cut if _is_fresh(known, offset)]
    head = heads[bisect_left(heads, x=True, key=lambda at: not text.startswith(known[:at])) - 1]
    longer = len(text) - len(known)
    tails = [offset for offset in cut if offset >= head and longer + offset >= head]
    ends = bisect_left(tails, x=True, key=lambda at: text.endswith(known[at:]))
    whole = (offset for offset in tails[ends:] if _is_fresh(text, longer + offset))
    return head, len(known) - next(whole, len(known))


def _is_fresh(text: str, offset: int) -> bool:
    """Tell whether what stands at an offset begins a line that is not joined to the one before."""
    before = text[max(0, offset - len("\\\r\n")) : offset]
    return not before or (before[-1] in "\r\n" and not before.rstrip("\r\n").endswith("\\"))
