"""A piece of a module, compiled by itself, gives what it gives in the whole; else nothing."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from codeflash_parallel._runner.code_swap import code_comparison, statement_compiler

MODULE = b'''"""Doc."""
import os.path as path, sys
from collections import *
TABLE = {"a", "b"}

def before(x):
    return [y for y in (1, 2) if y in {"a", "b"}]


@staticmethod
def f(x, *, y=TABLE):
    """Say so."""
    def inner(): return path.join(x, sys.argv[0])
    return inner()

# About what follows.
class C:
    def m(self):
        return __class__, self.__private
    def other(self): return (lambda: 3)()
async def behind(x): return {z async for z in x}
'''


def outline_of(text: bytes) -> list[tuple[str, Any]]:
    return list(code_comparison.outline(compile(text, "m.py", "exec", dont_inherit=True), {"f", "C.m"}))


def made(text: bytes, *, old: bytes = MODULE, hooked: bool = False) -> Any:
    return statement_compiler.TargetStatements(old, outline_of(old), {"f", "C.m"}, hooked=hooked).outline(
        text, {"f", "C.m"}
    )


def everything(code: types.CodeType) -> list[Any]:
    inside = [everything(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return [code, code_comparison.lines(code), code.co_filename, list(code.co_positions()), inside]


def assert_whole(found: Any, text: bytes) -> None:
    whole = outline_of(text)
    assert [name for name, _ in found] == [name for name, _ in whole]
    for (name, code), (_, other) in zip(found[1:], whole[1:], strict=True):
        assert everything(code) == everything(other), name


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"path.join(x, sys.argv[0])", b"sys.intern(path.basename(x)) # shorter"),
        (b"    return inner()\n", b"    '''\n    text\n    '''\n    return inner()\n"),
        (b"    return inner()\n", b""),
        (
            b"        return __class__, self.__private\n",
            b"        a = b = 1\n\n        return a, self.__b, __class__\n",
        ),
        (b"return inner()\n", b"return inner() \\\n"),
        (b"# About what follows.\n", b""),
        (b"# About", b"# This is about"),
        (b"", b""),
    ],
)
def test_a_piece_gives_what_the_whole_gives(before: bytes, after: bytes) -> None:
    text = MODULE.replace(before, after) if before else MODULE
    assert_whole(made(text), text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"y=TABLE", b"y=None"),
        (b"@staticmethod\n", b""),
        (b"return inner()\n", b"return inner()\nTABLE = 3\n"),
        (b"return inner()\n", b"return inner(\n"),
        (b"return inner()\n", b"return '''\n"),
        (b"(lambda: 3)()\n", b"(lambda: 3)() \\\n"),
        (b"return inner()\n", b"return 1 is 1\n"),
        (b"return inner()\n", b"return inner()\r\n"),
        (b'"""Say so."""', b'"""Say something else."""'),
        (b"(lambda: 3)()", b"4"),
        (b"for y in (1, 2)", b"for y in (1, 3)"),
        (b'"""Doc."""', b"# coding: latin-1"),
    ],
)
def test_what_is_more_than_a_body_needs_the_whole(before: bytes, after: bytes) -> None:
    assert before in MODULE
    assert made(MODULE.replace(before, after)) is None


CLASSES = b"""def f(x):
    return x


@staticmethod
def between():
    class Local:
        class Inner: x = 1
    return Local
@object
class C:
    def m(self):
        class Local:
            def n(self): self.a = 3
        return Local
    def other(self, a=(14, 12.0)): self.a = a
    class Inner(int): y = (%s)
"""


@pytest.mark.parametrize("last", [b"1", b"17.0", b"18.0", b"18, 17", b"19 if 20 else 21"])
@pytest.mark.parametrize("more", [b"", b"\n", b"# more\n" * 300])
def test_classes_behind_are_told_their_lines(last: bytes, more: bytes) -> None:
    old = CLASSES % last
    text = old.replace(b"    return x\n", more + b"    return -x\n")
    assert_whole(made(text, old=old), text)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="classes are not told their lines")
@pytest.mark.parametrize("last", [b"17", b"18", b"2); __firstlineno__ = (17"])
def test_a_class_that_uses_the_number_of_its_line_needs_the_whole(last: bytes) -> None:
    old = CLASSES % last
    assert made(old.replace(b"return x\n", b"return -x\n"), old=old) is not None
    assert made(old.replace(b"return x\n", b"return x\n\n"), old=old) is None


@pytest.mark.skipif(sys.version_info < (3, 13), reason="classes are not told their lines")
def test_a_line_that_a_class_stores_elsewhere_needs_the_whole() -> None:
    old = MODULE + b"def g():\n    __firstlineno__ = 1\n    class D: nonlocal __firstlineno__\n"
    assert made(old.replace(b"inner()\n", b"inner() + 1\n"), old=old) is not None
    assert made(old.replace(b"inner()\n", b"inner()\n\n"), old=old) is None


def test_two_pieces_need_the_whole() -> None:
    assert (
        made(MODULE.replace(b"inner()\n", b"inner() + 1\n").replace(b"self.__private", b"self.__other"))
        is None
    )


def test_an_import_may_move_hooks() -> None:
    text = MODULE.replace(b"return inner()", b"import re; return inner()")
    assert made(text, hooked=True) is None
    assert made(text) is not None


@pytest.mark.parametrize("odd", [b"# coding: utf-8\n", b"\xef\xbb\xbf", b"\n\x0c"])
def test_bytes_that_mean_more_than_they_say_need_the_whole(odd: bytes) -> None:
    old = odd + MODULE
    assert made(old.replace(b"return inner()", b"return 1"), old=old) is None
