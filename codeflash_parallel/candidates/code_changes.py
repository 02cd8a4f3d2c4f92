"""Compare two versions of source files: fingerprint, changed bodies, constants, dropped checks. Pure."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

from codeflash_parallel.candidates.functions import definitions, is_generator
from codeflash_parallel.candidates.python_source import (
    Definition,
    FunctionNode,
    decoded,
    is_prose,
    parse,
    parse_anew,
    parse_piece,
    pieces,
    same_around,
    skeleton,
    statements_of,
)
from codeflash_parallel.result.candidate_model import digest_of

#: A larger file counts by its bytes: its tree would take seconds, in which nothing else of a run goes on.
MAX_TREE_BYTES = 1_000_000
#: Pieces whose digests are kept: those of the largest modules there are, several times.
_KNOWN = 8_192


def fingerprint(files: Mapping[str, bytes | None], known: Mapping[str, bytes | None] | None = None) -> str:
    """Return a digest of some files that formatting, comments and docstrings do not change.

    Python files count by their syntax trees (names exactly as they are), others, and those that do not
    parse or are very large, by their bytes. Two sets of edits of the same files with equal fingerprints run
    the same code.

    Args:
        files: new content by path; `None` for a file that is removed.
        known: what they were made from; it changes nothing but the time that this takes.

    Returns:
        64 hexadecimal digits.
    """
    known = known or {}
    parts = (f"{path}\0{_digest(path, data, known.get(path))}" for path, data in sorted(files.items()))
    return hashlib.sha256("\n".join(parts).encode(errors="surrogatepass")).hexdigest()


def _digest(path: str, data: bytes | None, known: bytes | None) -> str:
    if data is None:
        return "removed"
    if not path.endswith(".py") or len(data) > MAX_TREE_BYTES:
        return f"raw {digest_of(data)}"
    try:
        parts = _parts(data, known or b"")
    except SyntaxError:
        return f"raw {digest_of(data)}"
    begins_with_prose = bool(parts) and parts[0][1]
    digests = (digest for digest, _ in parts[begins_with_prose:])
    return f"tree {digest_of(chr(10).join(digests).encode())}"


def _parts(data: bytes, known: bytes) -> list[tuple[str, bool]]:
    text = decoded(data)
    if text is None:
        return [_part(node) for node in parse_anew(data).body]
    return [part for piece in pieces(text, decoded(known) or "") for part in _known(piece)]


@lru_cache(maxsize=_KNOWN)
def _known(piece: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a piece; those of a text that was seen before are known."""
    return tuple(_part(node) for node in parse_piece(piece).body)


def _part(node: ast.stmt) -> tuple[str, bool]:
    """Return the digest of an outermost statement, and whether it is prose."""
    return digest_of(skeleton(node).encode(errors="surrogatepass")), is_prose(node)


#: Texts whose readings are kept: the snapshot's is wanted for every candidate, a candidate's when it is
#: checked and again when it is admitted. Each is as large as what changed.
_KEPT = 128
#: Names that give a method the cell of its class, which the class's own code has to make.
_CLASS_CELL = frozenset({"super", "__class__"})


class _Reading(NamedTuple):
    """The parts of a text that are compared.

    Attributes:
        functions: name and interface of the definitions of the targets, in order. The interface is what
            others see besides the body's effect: docstring, type of the node, whether it is a generator,
            variables that the body uses of scopes between it and the module, and names that the body
            declares as global (the module's own code is compiled accordingly).
        rest: all else, without the targets' bodies, and its docstrings.
    """

    functions: tuple[tuple[str, tuple[object, ...]], ...]
    rest: tuple[str, tuple[str | None, ...]]


def beyond_bodies(old: str, new: str, targets: Collection[str]) -> str:
    """Return what changes between two texts of a file besides bodies of targets, one clause; empty: nothing.

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
        return "our Python cannot parse it"
    if [name for name, _ in before.functions] != [name for name, _ in after.functions]:
        return "it adds, removes or moves definitions of the targets"
    for one, other in zip(before.functions, after.functions, strict=True):
        if one != other:
            return f"{one[0]} changes in more than its body"
    return "" if before.rest == after.rest else "it changes more than the bodies of the targets"


def _differing(old: str, new: str, targets: frozenset[str]) -> tuple[_Reading, _Reading]:
    """Read both texts, without outermost statements at the beginning and the end whose text is the same.

    What is left is parsed alone: between two statements the parser remembers nothing. Where it is not
    Python alone (a new `else` for the last equal statement, a string that is not closed), all is parsed.
    """
    before, after = _without_same_ends(old, new)
    return _reading(before, targets), _reading(after, targets)


def _without_same_ends(old: str, new: str) -> tuple[str, str]:
    """Return two texts without the outermost statements at both ends that they share, if both parse so."""
    try:
        head, tail = same_around(old, new)
        parts = old[head : len(old) - tail], new[head : len(new) - tail]
        for part in parts:
            parse_piece(part)
    except SyntaxError:
        return old, new
    return parts


@lru_cache(maxsize=_KEPT)
def _reading(text: str, targets: frozenset[str]) -> _Reading:
    tree = parse_piece(text)
    found = [(name, node) for name, node in definitions(tree.body) if name in targets]
    hollow = frozenset(node for _, node in found)
    return _Reading(
        functions=tuple((name, _interface(name, node)) for name, node in found),
        rest=(skeleton(tree, hollow), tuple(_docstrings(tree, hollow))),
    )


def _interface(name: str, node: FunctionNode) -> tuple[object, ...]:
    # Walking through a tree takes as long as this: that a word is not in the text says the same.
    body = " ".join(map(skeleton, node.body))
    generates = "Yield" in body and is_generator(node)
    declared = _globals(node) if "Global" in body else frozenset()
    outer, docstring = _outer_names(name, node, body), ast.get_docstring(node, clean=False)
    return docstring, type(node), generates, outer, declared


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


Constant = int | str

#: Longer texts are messages and docstrings.
_MOST_SIGNS = 60


def changed_constants(old: bytes, new: bytes) -> tuple[Constant, ...]:
    """Return the constants of code objects that only the new text has, but not those that they replace."""
    before, after = ({_print(code): code for code in _codes(text)} for text in _changed(old, new))
    gone, come = (
        [one for name in one_side.keys() - other.keys() for one in _constants(one_side[name].co_consts)]
        for one_side, other in ((before, after), (after, before))
    )
    return tuple(sorted({*come} - {*gone}, key=repr))


def _changed(old: bytes, new: bytes) -> tuple[str | bytes, str | bytes]:
    """Return what differs of two files; all of both where one is in another encoding than UTF-8."""
    texts = decoded(old), decoded(new)
    if texts[0] is None or texts[1] is None:
        return old, new
    return _without_same_ends(*(text.removeprefix("\ufeff") for text in texts if text is not None))


def constants_of(text: bytes, qualnames: Iterable[str]) -> tuple[Constant, ...]:
    """Return the constants of some functions of a module, and of what is defined in them."""
    names = tuple(qualnames)
    inside = tuple(f"{name}.<locals>" for name in names)
    wanted = (c for c in _codes(text) if c.co_qualname in names or c.co_qualname.startswith(inside))
    return tuple(dict.fromkeys(one for code in wanted for one in _constants(code.co_consts)))


def _codes(text: str | bytes) -> Iterator[CodeType]:
    """Yield the code objects of a module; none of one that this Python cannot compile."""
    try:
        todo: list[Any] = [compile(text, "", "exec", dont_inherit=True, optimize=2)]
    except (SyntaxError, ValueError):
        return
    while todo:
        code = todo.pop()
        yield code
        todo += [one for one in code.co_consts if isinstance(one, CodeType)]


def _print(code: CodeType) -> tuple[object, ...]:
    """Return what a code object says, wherever it stands."""
    constants = repr([one for one in code.co_consts if not isinstance(one, CodeType)])
    return code.co_qualname, code.co_code, constants, code.co_names


def _constants(found: Iterable[object]) -> Iterator[Constant]:
    for one in found:
        if isinstance(one, tuple | frozenset):
            yield from _constants(one)
        elif (type(one) is int and abs(one) > 1) or (type(one) is str and 0 < len(one) <= _MOST_SIGNS):
            yield one


#: Builtins that check a type, or convert to one; `len` and `ord` are called for what they give.
_BUILTINS = frozenset(
    {
        *("isinstance", "issubclass", "callable", "hasattr"),
        *("int", "float", "complex", "str", "bytes", "list", "tuple", "set", "frozenset", "dict"),
    }
)
_COPIES = frozenset({"list", "tuple"})


def loosens(old: bytes, new: bytes) -> bool:
    """Say whether the new text of a module adds an `except`, or drops a check or a conversion."""
    try:
        before, after = map(_checks, _changed(old, new))
    except (SyntaxError, ValueError):
        return False
    return after["except"] > before["except"] or any(
        after[name] < count for name, count in before.items() if name != "except"
    )


def _checks(text: str | bytes) -> Counter[str]:
    found: Counter[str] = Counter()
    nodes = list(ast.walk(parse(text if isinstance(text, str) else text.decode("utf-8", "replace"))))
    iterated = {id(node.iter) for node in nodes if isinstance(node, ast.For | ast.comprehension)}
    for node in nodes:
        if isinstance(node, ast.ExceptHandler):
            found["except"] += 1
        elif isinstance(node, ast.Raise | ast.Assert):
            found["raise"] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
            # A copy that is made to be iterated checks nothing: without it, iterating fails in the same way.
            found[node.func.id] += not (node.func.id in _COPIES and id(node) in iterated)
    return found
