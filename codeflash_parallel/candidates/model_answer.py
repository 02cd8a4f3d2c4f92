"""Answers of language models: prose in Markdown with blocks of code that name their file. Pure.

A block begins with three or more backticks or tildes, a language and a path, ``python:src/shop/cart.py``. A
single Python block without a path is a new version of the target function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from codeflash_parallel.candidates.functions import functions_of, parse_or_none
from codeflash_parallel.candidates.python_source import is_docstring, skeleton
from codeflash_parallel.candidates.source_text import bound_by_import

#: A line that may begin or end a block: its indent, its fence, and the words behind it.
_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*(.*?)[ \t]*$")
#: Words behind a fence that name a file.
_NAMED = re.compile(r"^[\w+-]+:(?P<path>\S.*)$")
#: Languages of blocks that are Python.
_PYTHON = frozenset({"python", "py", "python3"})


class AnswerFault(Exception):  # noqa: N818 - becomes a verdict on the candidate at once
    """An answer from which no candidate can be made; the message is one sentence."""


class CodeBlock(NamedTuple):
    """One block of code; `path` is empty where it names no file."""

    path: str
    code: str


def blocks_of(answer: str) -> list[CodeBlock]:
    """Return the blocks that name a file; where none does, the single Python block without a path.

    Raises:
        AnswerFault: there is none, there are several without a path, or the last one is not closed.
    """
    found = list(_blocks(answer))
    if named := [block for _, block in found if block.path]:
        return named
    plain = [block for language, block in found if language in _PYTHON]
    if len(plain) == 1:
        return plain
    count = f"{len(plain)} Python blocks, and none names" if plain else "no block of code that names"
    raise AnswerFault(f"The answer has {count} its file (```python:path/in/repo.py)")


def has_code(answer: str) -> bool:
    """Return whether a Markdown file has a block from which a candidate can be made, or a cut one."""
    try:
        return any(block.path or language in _PYTHON for language, block in _blocks(answer))
    except AnswerFault:
        return True


def _blocks(answer: str) -> Iterator[tuple[str, CodeBlock]]:
    """Yield the language of each block, and the block."""
    opened, indent, words, lines = "", 0, "", list[str]()
    for line in answer.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.match(line)
        if not opened:
            # A line of code between backticks is no block.
            if fence and "`" not in fence[3]:
                opened, indent, words, lines = fence[2], len(fence[1]), fence[3], []
        elif fence and not fence[3] and fence[2].startswith(opened):
            named = _NAMED.match(words)
            code = "".join(f"{one}\n" for one in lines)
            yield words.lower(), CodeBlock(path=named["path"].strip() if named else "", code=code)
            opened = ""
        else:
            lines.append(line[_margin(line, indent) :])
    if opened:
        raise AnswerFault(f"The answer ends inside the block {words or 'of code'!r}: it may have been cut")


def _margin(line: str, indent: int) -> int:
    return min(indent, len(line) - len(line.lstrip(" ")))


def is_whole_module(old: str, new: str) -> bool:
    """Return whether a block gives all of a module anew; else it holds functions of the module.

    Nothing may be lacking that other code could need: functions, classes, assigned names, imports, and
    statements that do something when the module is imported.

    Args:
        old: text of the module.
        new: text of the block; one that does not parse is no module.
    """
    before, after = parse_or_none(old), parse_or_none(new)
    if before is None or after is None:
        return False
    return set(functions_of(old)) <= set(functions_of(new)) and _contents(before) <= _contents(after)


def _contents(tree: ast.Module) -> set[str]:
    """Return what a module has beside its functions, a text each."""
    found: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(one.id for target in targets for one in ast.walk(target) if _is_bound(one))
            case ast.Import() | ast.ImportFrom():
                found |= bound_by_import(statement)
            case _ if not is_docstring(statement):
                found.add(skeleton(statement))
    return found


def _is_bound(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def common_function(old: str, new: str, preferred: tuple[str, ...] = ()) -> str:
    """Return a function that a module and a block both define; empty: there is none.

    Args:
        preferred: dotted names that come first, the targets'.
    """
    there = set(functions_of(old))
    defined = [name for name in functions_of(new) if name in there]
    return next((name for name in preferred if name in defined), defined[0] if defined else "")
